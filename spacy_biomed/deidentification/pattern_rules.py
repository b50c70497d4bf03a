"""The engine of patterns: the rules of a table, and where they apply."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from . import pattern_checks
from .pattern_forms import SHARED, find_form, read_table, stands_before
from .plain_text import LONGEST, NUMBER, PlainText, fold
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
        checks: what else a match has to be: functions of `pattern_checks`, or modules of
            python-stdnum whose number it has to be, such as stdnum.es.nie.
        after, not_after: what has to stand before a match, and what must not: names of sections of
            the same table or `shared.cfg`.
        needs: what the folded text must have anywhere.
        is_folded: whether the form is one of the folded text ("case = folded").
        is_number: whether the form is looked for only at the start of numbers ("at = number").
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
        return pattern_checks.CHECKS.get(name) or getattr(pattern_checks, name)
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


# With which characters the matches of a regular expression begin. Most words that rules look for
# are in no given text, so a rule is tried only where a word begins with one of them.

_MOST = 400
# The end of a string that nothing can be added to.
_CLOSED = "\0"
_AT_WORD = (r"\b", r"(?<![^\W_])", r"(?<![\w", r"(?<!\w)")
_parser = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


def find_prefixes(form: str) -> frozenset[str]:
    """Folded strings of at most three characters, with one of which every match begins.

    `NUMBER` stands for any number. None are found if matches may begin within a word, or nothing
    can be said.
    """
    if not form.startswith(_AT_WORD):
        return frozenset()
    prefixes = {one.rstrip(_CLOSED) for one in _read_sequence(_parser.parse(form))}
    is_known = len(prefixes) <= _MOST and all(
        one == NUMBER or one[:1].isalpha() for one in prefixes
    )
    return frozenset(prefixes) if is_known else frozenset()


def _read_sequence(parts: Iterable[tuple[Any, Any]]) -> set[str]:
    """The beginnings of parsed parts of a form, one after the other."""
    found = {""}
    for kind, content in parts:
        strings = _read_part(kind.name, content)
        found = {_join(one, other) for one in found for other in strings}
        if len(found) > _MOST:
            found = {_CLOSED}
    return found


def _join(string: str, following: str) -> str:
    if string.endswith(_CLOSED):
        return string
    if string and following.startswith(NUMBER):  # any number
        return string + _CLOSED
    joined = string + following
    return joined[:LONGEST] + _CLOSED if len(joined.rstrip(_CLOSED)) >= LONGEST else joined


def _read_part(kind: str, content: Any) -> set[str]:
    if kind == "LITERAL":
        return {fold(chr(content))}
    if kind == "IN" and all(one.name == "LITERAL" for one, _ in content):
        return {fold(chr(code)) for _, code in content}
    if kind == "IN" and [str(one) for _, one in content] == ["CATEGORY_DIGIT"]:
        return {NUMBER + _CLOSED}
    if kind in ("AT", "ASSERT", "ASSERT_NOT"):
        return {""}
    if kind == "SUBPATTERN":
        return _read_sequence(content[-1])
    if kind == "BRANCH":
        return set().union(*map(_read_sequence, content[1]))
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, part = content
        strings = _read_sequence(part)
        strings = strings if most == 1 else {one + _CLOSED for one in strings}
        return strings if least else strings | {""}
    return {_CLOSED}
