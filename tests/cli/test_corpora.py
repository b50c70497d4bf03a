"""`spacy biomed corpora`: the table, one corpus, filters, JSON, bad input."""

import json
import os
import subprocess
import sys

import pytest
from error_lines import error_line
from typer.testing import CliRunner, Result

from spacy_biomed.cli import app
from spacy_biomed.corpora.corpus_catalogue import all_corpora


def run(*arguments: str, columns: int | None = None) -> Result:
    env = {"COLUMNS": str(columns) if columns else None}
    return CliRunner().invoke(app, ["corpora", *arguments], env=env)


def run_spacy(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    command = [sys.executable, "-m", "spacy", "biomed", "corpora", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=env, check=False
    )


def test_piped_the_table_has_every_corpus_and_cuts_nothing_off() -> None:
    done = run_spacy()
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 120
    assert "…" not in done.stdout
    first_words = [line.split()[0] for line in lines if line.strip()]
    for entry in all_corpora():
        assert entry.name in first_words


def test_an_unknown_name_is_one_line_and_exit_status_1() -> None:
    done = run_spacy("cantemst")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.strip().count("\n") == 0
    assert "did you mean cantemist" in done.stderr


def test_columns_of_the_table() -> None:
    header = " ".join(run(columns=120).stdout.splitlines()[1].split())
    assert header == "Name Task Lang Labels Splits Metric Licence Access From"


@pytest.mark.parametrize("columns", [100, 120, 200])
def test_the_table_fits_the_terminal(columns: int) -> None:
    lines = run(columns=columns).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in "".join(lines)


def test_filters_choose_rows() -> None:
    result = run("--task", "ner", "--language", "ES", "--json")
    names = {entry["name"] for entry in json.loads(result.stdout)}
    published = {"pharmaconer", "cantemist", "ictusnet"}
    assert names == {"starter_es", *published, *(f"{name}_sentences" for name in published)}


def test_json_has_every_field_of_every_corpus() -> None:
    entries = json.loads(run("--json").stdout)
    assert len(entries) == len(all_corpora())
    assert entries[0]["splits"]["dev"] == ["devel.tsv"]


def test_a_corpus_under_an_agreement_shows_where_its_files_go() -> None:
    shown = " ".join(run("i2b2-2010", columns=120).stdout.split())
    assert "Access data use agreement" in shown
    assert "under assets/i2b2_2010/" in shown


def test_one_corpus_shows_all_that_is_known() -> None:
    shown = run("NCBI-Disease", columns=120).stdout
    for text in ("CC BY 4.0", "train.tsv", "devel.tsv", "787 mentions", "exact match", "columns"):
        assert text in shown
    assert "df0df02fae6dbb87d88ffcf323b9096528f06f84" in shown
    assert json.loads(run("NCBI-Disease", "--json").stdout)["name"] == "ncbi_disease"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "parsing"], "no --task 'parsing' in the catalogue: use deidentification"),
        (["--language", "de"], "no --language 'de' in the catalogue: use en, es or fr"),
        (["jnlpba", "--task", "ner"], "--task filter"),
    ],
)
def test_bad_filters_say_what_to_do(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert error_line(result).startswith(message)


def test_help_has_an_example() -> None:
    assert "spacy biomed corpora ncbi_disease" in " ".join(run("--help").stdout.split())
