"""`spacy biomed encoders`: the table, one encoder, the filter, JSON, bad input."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from error_lines import error_line
from typer.testing import CliRunner, Result

from spacy_biomed.cli import app
from spacy_biomed.encoders import encoder_catalogue
from spacy_biomed.encoders.encoder_catalogue import all_encoders, find_encoder


def run(*arguments: str, columns: int | None = None) -> Result:
    env = {"COLUMNS": str(columns) if columns else None}
    return CliRunner().invoke(app, ["encoders", *arguments], env=env)


def run_spacy(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    command = [sys.executable, "-m", "spacy", "biomed", "encoders", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=env, check=False
    )


def test_piped_the_table_has_every_encoder_and_cuts_nothing_off() -> None:
    done = run_spacy()
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 120
    assert "…" not in done.stdout
    first_words = [line.split()[0] for line in lines if line.strip()]
    for entry in all_encoders():
        assert entry.name in first_words


def test_an_unknown_name_is_one_line_and_exit_status_1() -> None:
    done = run_spacy("biobrt")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.strip().count("\n") == 0
    assert "did you mean biobert" in done.stderr


@pytest.mark.parametrize("columns", [100, 120, 200])
def test_the_table_fits_the_terminal(columns: int) -> None:
    lines = run(columns=columns).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in "".join(lines)


def test_the_language_chooses_rows() -> None:
    result = run("--language", "multilingual", "--json")
    names = {entry["name"] for entry in json.loads(result.stdout)}
    assert names == {"mbert", "xlm-r", "mmbert-small", "mmbert-base"}


def test_a_licence_that_forbids_commercial_use_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = find_encoder("biobert")
    entry = replace(known, licence="CC BY-NC 4.0")
    monkeypatch.setattr(encoder_catalogue, "all_encoders", lambda: (known, entry))
    monkeypatch.setattr(encoder_catalogue, "find_encoder", lambda name: entry)
    assert " ".join(run(columns=200).stdout.split()).count("no commercial") == 1
    assert "CC BY-NC 4.0, no commercial use" in run("biobert", columns=120).stdout


def test_one_encoder_shows_all_that_is_known() -> None:
    shown = run("BioBERT", columns=120).stdout
    for text in (
        "dmis-lab/biobert-v1.1",
        "551ca18efd7f052c8dfa0b01c94c2a8e68bc5488",
        "107,719,680",
        "28,996 entries",
        "Apache-2.0",
        "1, 2, 4, 5",
    ):
        assert text in shown
    assert json.loads(run("BioBERT", "--json").stdout)["width"] == 768


def test_an_encoder_that_is_not_on_the_hub_shows_where_to_get_it() -> None:
    shown = run("bio-lm-large", columns=120).stdout
    assert "RoBERTa-large-PM-M3-Voc-hf.tar.gz" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--language", "fr"], "no --language 'fr' in the catalogue: use en, es or multilingual"),
        (["beto", "--language", "es"], "--language filter"),
    ],
)
def test_bad_filters_say_what_to_do(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert error_line(result).startswith(message)


def test_help_has_an_example() -> None:
    assert "spacy biomed encoders biobert" in " ".join(run("--help").stdout.split())
