"""The tables of patterns: every section is read, used and packaged."""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from spacy_biomed.deidentification import pattern_checks
from spacy_biomed.deidentification.pattern_forms import FOLDER, find_form, read_table
from spacy_biomed.deidentification.pattern_matches import PATTERN_LANGUAGES, PATTERNS
from spacy_biomed.deidentification.pattern_rules import apply_table, read_rule, read_rules
from spacy_biomed.deidentification.plain_text import PlainText

TABLES = sorted(path.stem for path in FOLDER.glob("*.cfg"))
KEYS = {"form", "words", "pattern", "case", "at", "check", "after", "not_after", "needs"}


def languages(section):
    return [one for one in PATTERN_LANGUAGES if section.endswith(f".{one}")] or PATTERN_LANGUAGES


@pytest.mark.parametrize("table", TABLES)
def test_each_section_is_a_form(table):
    for section, row in read_table(table).items():
        if section in ("DEFAULT", "parts"):
            continue
        assert row.get("pattern") in (None, *PATTERNS), section
        assert row.get("case") in (None, "folded", "ignored"), section
        assert row.get("at") in (None, "number"), section
        for language in languages(section):
            rule = read_rule(table, section, language)
            assert rule.pattern or not rule.checks, section


def test_nothing_in_a_table_is_unused():
    """Every name of a value is used as {name}, every form by a rule or in Python."""
    folder = FOLDER.parent.parent
    python = "".join(path.read_text(encoding="utf8") for path in folder.rglob("*.py"))
    values, names, used = [], set(), set()
    for table in TABLES:
        for name, row in read_table(table).items():
            values += row.values()
            names |= {key.partition(".")[0] for key in row} - KEYS
            used |= {row.get("after"), row.get("not_after"), *row.get("check", "").split()}
            is_read = name in ("DEFAULT", "parts") or row.get("pattern") or f'"{name}"' in python
            assert is_read or name in ("before_digits", "before_day", "other_number"), name
    assert names == {one for value in values for one in re.findall(r"\{([a-z_]+)\}", value)} - KEYS
    named = {one for one in used - {None} if one.startswith(("is_", "has_"))}
    functions = {
        name
        for name, one in vars(pattern_checks).items()
        if name.startswith(("is_", "has_")) and one.__module__ == pattern_checks.__name__
    }
    assert functions - {"is_social_security_number"} | {*pattern_checks.CHECKS} == named


def test_the_tables_are_among_the_files_of_the_package():
    root = FOLDER.parents[2]
    setup = ConfigParser()
    setup.read(root / "setup.cfg")
    patterns = setup["options.package_data"]["spacy_biomed"].split()
    shipped = {path for pattern in patterns for path in (root / "spacy_biomed").glob(pattern)}
    assert TABLES and set(FOLDER.iterdir()) <= shipped


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes a table in place of the shipped ones."""
    shared = (FOLDER / "shared.cfg").read_text(encoding="utf8")

    def write(text):
        (tmp_path / "mine.cfg").write_text(text, encoding="utf8")
        (tmp_path / "shared.cfg").write_text(shared, encoding="utf8")
        monkeypatch.setattr("spacy_biomed.deidentification.pattern_forms.FOLDER", Path(tmp_path))
        return "mine"

    yield write
    for cached in (read_table, find_form, read_rule, read_rules):
        cached.cache_clear()


def find(table, text, language):
    return [text[start:end] for start, end, _ in apply_table(table, PlainText(text), language)]


def test_a_row_is_enough_for_a_new_identifier(table):
    mine = table(r"""
[parts]
digits = \d{3}
    # a comment between the lines of a value
    -\d{3}

[called]
pattern = record
words.es = número|clave
words.en = key
case = folded
form = \b(?:{words}) (?P<value>{digits})

[only.es]
pattern = record
at = number
after = sure
not_after = other_number
form = \d+/\d+

[sure]
form = Año \Z

[nie]
pattern = national_id
needs = nie
form = [XYZ]\d+[A-Z]
check = stdnum.es.nie
""")
    text = "NUMERO 123-456, key 654-321, Año 1/2, año 1/2, Lote 1/2"
    assert find(mine, text, "es") == ["123-456", "1/2"]
    assert find(mine, text, "en") == ["654-321"]
    assert find(mine, "NIE X1234567L", "en") == ["X1234567L"]
    assert find(mine, "NIE X1234567A", "en") == find(mine, "X1234567L", "en") == []


def test_a_name_that_nothing_has_is_an_error(table):
    mine = table("[a]\npattern = record\nform = {nothing}\n")
    with pytest.raises(KeyError, match=re.escape("mine.cfg [a] {nothing}")):
        read_rules(mine, "es")
