"""Forms of personal data and of what stands around it: regular expressions in the tables of
`patterns/`.

A table is a file in the format of `configparser`, with a section for each form, in the order in
which they are looked for. What a section may say:

- `form`: the regular expression. Its lines are joined without the spaces at their ends; spaces
  within a line count, and a line that begins with "#" is a comment.
- `words`: context words, or any other part of the form that has a name of its own.
- `case`: "folded" for a form that is looked for in the text in lower case and without accents, and
  may have both; "ignored" for any case.
- The columns of `pattern_rules.Rule`, for a form that is personal data. Python uses the others.

The section `DEFAULT` has values for all others. `{name}` in a value stands for another value: of
the section, of the table's section `parts`, or of the one in `shared.cfg`. `{list:name}` stands for
the words of a list of terms. A section or a key that ends with ".es" or ".en" is for that language
alone.
"""

import re
from configparser import RawConfigParser
from functools import cache
from pathlib import Path

from .plain_text import fold
from .surrogate_dates import MONTHS, WEEKDAYS, any_name
from .term_lists import one_of, terms

FOLDER = Path(__file__).parent / "patterns"
# Characters before a match that are looked at.
_FARTHEST = 40
_PARTS, SHARED = "parts", "shared"
_PART = re.compile(r"\{(list:)?([a-z_]+)\}")


@cache
def read_table(name: str) -> RawConfigParser:
    """The sections of a table, in order."""
    table = RawConfigParser(delimiters="=", comment_prefixes="#")
    table.read_string((FOLDER / f"{name}.cfg").read_text(encoding="utf8"), f"{name}.cfg")
    return table


@cache
def find_form(table: str, section: str, language: str = "") -> re.Pattern[str]:
    """The form of a section, with the values and lists of terms of a language."""
    form = _fill("{form}", table, section, language)
    case = read_table(table)[section].get("case")
    form = fold_form(form) if case == "folded" else form
    return re.compile(form, re.IGNORECASE if case == "ignored" else 0)


def _fill(text: str, table: str, section: str, language: str) -> str:
    """A value with what its names stand for."""

    def replace(match: re.Match[str]) -> str:
        if match[1]:
            return _alternatives(match[2], language)
        for file, place in ((table, section), (table, _PARTS), (SHARED, _PARTS)):
            for key in (f"{match[2]}.{language}", match[2]):
                value = read_table(file).get(place, key, fallback=None)
                if value is not None:
                    return _fill(value.replace("\n", ""), table, section, language)
        raise KeyError(f"{table}.cfg [{section}] {match[0]}")

    return _PART.sub(replace, text)


@cache
def _alternatives(name: str, language: str) -> str:
    """The words of a list as a regular expression, the longest first."""
    if name in ("months", "weekdays"):
        return any_name(MONTHS if name == "months" else WEEKDAYS)
    if name != "countries":
        return one_of(terms("", name))
    countries = one_of((*terms(language, "countries"), *terms(language, "regions")))
    return f"{countries}|{countries.upper()}"


def fold_form(form: str) -> str:
    """A regular expression for folded text: without accents and capitals, but in escapes."""
    return re.sub(
        r"\\.|\(\?P|[A-ZÀ-ɏ]+|[à-ɏ]+",
        lambda match: match[0] if match[0][0] in "\\(" else fold(match[0]),
        form,
    )


def stands_before(form: re.Pattern[str], text: str, start: int) -> bool:
    """Whether a form that ends with `\\Z` is right before a place in a text."""
    return form.search(text, max(start - _FARTHEST, 0), start) is not None


def is_eponym(text: str, start: int) -> bool:
    """Whether a name at a place in a plain text belongs to a term, as in "fiebre de Malta"."""
    return stands_before(find_form(SHARED, "eponym"), text, start)


def is_other_number(text: str, start: int) -> bool:
    """Whether what is before a number says that it is not a person's, as in "PMID: 31245678"."""
    return stands_before(find_form(SHARED, "other_number"), text, start)
