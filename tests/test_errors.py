import json
from pathlib import Path

import pytest

from spacy_biomed.errors import escape, install_command, quote

SOURCE = Path(__file__).parents[1] / "spacy_biomed"


def install(monkeypatch, direct_url):
    """Let the installation have this `direct_url.json`; None if pip wrote none."""

    class Found:
        def __init__(self, origin):
            self.origin = origin

        def read_text(self, name):
            return self.origin and json.dumps(self.origin) if name == "direct_url.json" else None

    egg_info_of_the_clone = Found(None)
    found = [egg_info_of_the_clone, Found(direct_url)]
    monkeypatch.setattr("spacy_biomed.errors.distributions", lambda name: found)


@pytest.mark.parametrize(
    "character", ["\r", "\n", "\x1b", "\0", "\u202e", "\u2066", "\ud800", "\x85"]
)
def test_what_cannot_be_seen_is_written_as_an_escape(character):
    assert quote(f"a{character}b") == f"'a{ascii(character)[1:-1]}b'"


def test_a_quotation_has_at_most_eighty_characters():
    assert quote("ü" * 80) == f"'{'ü' * 80}'"
    assert quote("ü" * 1_000_000) == f"'{'ü' * 79}…'"
    assert len(quote("\x1b" * 1000)) == 82


def test_values_of_any_size_are_quoted_in_a_few_characters():
    number = 10**5000
    for value in (number, -number, [number], {"a": [number]}, [[]] * 10**5, {"a": "x" * 10**6}):
        assert len(quote(value)) <= 80


def test_a_value_of_any_depth_is_quoted():
    value = []
    for _ in range(100_000):
        value = [value]
    assert quote(value) == "[[[...]]]"


def test_ordinary_values_are_quoted_as_they_are():
    assert [quote(value) for value in ("Crohn's", "a b", 12, None, [1, "a"], 1.5)] == [
        '"Crohn\'s"',
        "'a b'",
        "12",
        "None",
        "[1, 'a']",
        "1.5",
    ]


def test_a_line_is_cut_at_its_limit():
    assert escape("tumour", 6) == "tumour"
    assert escape("tumours", 6) == "tumou…"


@pytest.mark.parametrize(
    "origin",
    [
        None,
        {"url": "file:///a/clone", "dir_info": {}},
        {"url": "file:///a/spacy_biomed-0.1.0-py3-none-any.whl", "archive_info": {}},
        {"url": "https://host/spacy-biomed", "vcs_info": {"vcs": "git", "commit_id": "1"}},
    ],
)
def test_an_extra_is_added_to_an_installed_package_by_its_name(monkeypatch, origin):
    install(monkeypatch, origin)
    assert install_command("serve") == "python -m pip install 'spacy-biomed[serve]'"


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("clone", "'{}/clone[serve]'"),
        ("my clone", "'{}/my clone[serve]'"),
        (".", "'.[serve]'"),
    ],
)
def test_an_extra_is_added_to_an_editable_clone_by_its_path(
    monkeypatch, tmp_path, folder, expected
):
    monkeypatch.chdir(tmp_path)
    install(monkeypatch, {"url": (tmp_path / folder).as_uri(), "dir_info": {"editable": True}})
    assert install_command("serve") == f"python -m pip install -e {expected.format(tmp_path)}"


def test_an_extra_of_a_package_that_is_not_installed_has_a_command_too(monkeypatch):
    monkeypatch.setattr("spacy_biomed.errors.distributions", lambda name: [])
    assert install_command("vault") == "python -m pip install 'spacy-biomed[vault]'"


def test_no_message_writes_the_command_that_adds_an_extra_by_hand():
    written = {
        path.name
        for path in SOURCE.rglob("*.py")
        if "install 'spacy-biomed[" in path.read_text(encoding="utf8").replace('"', "'")
    }
    assert written == {"errors.py"}
