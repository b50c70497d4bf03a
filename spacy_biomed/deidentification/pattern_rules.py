"""The engine of patterns: the rules of a table, and where they apply."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import NamedTuple

from .pattern_checks import CHECKS
from .pattern_forms import SHARED, find_form, read_table, stands_before
from .pattern_prefixes import find_prefixes
from .plain_text import PlainText
from .term_lists import LANGUAGES

# Where a rule has found a pattern: start, end, and the pattern's name.
Found = Iterator[tuple[int, int, str]]
Check = Callable[[re.Match[str]], bool]


class Rule(NamedTuple):
    """A form, and what has to be true besides: a section of a table.

    Attributes:
        pattern: what it is, one of `pattern_matches.PATTERNS`; "" for a form that only Python uses.
        form: regular expression on the plain text; its group `value`, if it has one, is the
            personal data, and the rest only tells that it is.
        checks: what else a match has to be: names of `pattern_checks.CHECKS`, or modules of
            python-stdnum whose number it has to be, such as stdnum.es.nie.
        after, not_after: what has to stand before a match, and what must not: names of sections of
            the same table or `shared.cfg`; None for nothing.
        needs: regular expression for what a folded text must have, to be faster; None for nothing.
        is_folded: whether the form is one of the folded text ("case = folded").
        is_number: whether the form begins with the first digit of a number ("at = number"); it is
            looked for only there.
        prefixes: what the form begins with (`find_prefixes`); empty if that is unknown.
    """

    pattern: str
    form: re.Pattern[str]
    checks: tuple[Check, ...]
    after: re.Pattern[str] | None
    not_after: re.Pattern[str] | None
    needs: re.Pattern[str] | None
    is_folded: bool
    is_number: bool
    prefixes: frozenset[str]

    def is_right(self, match: re.Match[str]) -> bool:
        """Whether a match of the form is what the rule is looking for."""
        text, start = match.string, match.start()
        if self.after is not None and not stands_before(self.after, text, start):
            return False
        if self.not_after is not None and stands_before(self.not_after, text, start):
            return False
        return all(check(match) for check in self.checks)


@cache
def read_rule(table: str, section: str, language: str = "") -> Rule:
    """The rule of a section."""
    row = read_table(table)[section]
    form = find_form(table, section, language)
    is_number = row.get("at") == "number"
    return Rule(
        row.get("pattern", ""),
        form,
        tuple(map(_find_check, row.get("check", "").split())),
        _find_near(table, row.get("after"), language),
        _find_near(table, row.get("not_after"), language),
        re.compile(row["needs"]) if "needs" in row else None,
        row.get("case") == "folded",
        is_number,
        frozenset() if is_number else find_prefixes(form.pattern),
    )


@cache
def read_rules(table: str, language: str) -> tuple[Rule, ...]:
    """The rules of a table that are personal data in a language, in order."""
    others = tuple(f".{one}" for one in LANGUAGES if one != language)
    return tuple(
        read_rule(table, name, language)
        for name, row in read_table(table).items()
        if row.get("pattern") and "form" in row and not name.endswith(others)
    )


def _find_check(name: str) -> Check:
    if not name.startswith("stdnum."):
        return CHECKS[name]
    number = import_module(name)
    return lambda match: number.is_valid(match[0])


def _find_near(table: str, name: str | None, language: str) -> re.Pattern[str] | None:
    if name is None:
        return None
    return find_form(table if name in read_table(table) else SHARED, name, language)


def apply_table(table: str, plain: PlainText, language: str) -> Found:
    """Everything that the rules of a table find in a text, rule after rule."""
    for rule in read_rules(table, language):
        if rule.needs is not None and not rule.needs.search(plain.folded):
            continue
        group = "value" if "value" in rule.form.groupindex else 0
        for match in find_matches(rule, plain):
            if rule.is_right(match):
                yield *match.span(group), rule.pattern


def find_matches(rule: Rule, plain: PlainText) -> Iterator[re.Match[str]]:
    """The matches of the form of a rule, whether they are right or not."""
    text = plain.folded if rule.is_folded else plain.text
    if rule.is_number:
        starts = plain.numbers
    elif rule.prefixes:
        starts = plain.find_starts(rule.prefixes)
    else:
        yield from rule.form.finditer(text)
        return
    end = 0
    for start in starts:
        if start >= end and (match := rule.form.match(text, start)):
            yield match
            end = match.end()
