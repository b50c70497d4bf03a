"""`spacy biomed corpora` and `spacy biomed encoders`: what they have in common."""

import pytest
from commands import call, refuse, run

from spacy_biomed.corpora.corpus_catalogue import all_corpora
from spacy_biomed.encoders.encoder_catalogue import all_encoders


@pytest.mark.parametrize(
    ("command", "entries"), [("corpora", all_corpora()), ("encoders", all_encoders())]
)
def test_piped_the_table_has_every_entry_and_cuts_nothing_off(
    command, entries, run_spacy, monkeypatch
):
    monkeypatch.delenv("COLUMNS", raising=False)
    done = run_spacy("biomed", command)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 120
    assert "…" not in done.stdout
    assert {entry.name for entry in entries} <= {line.split()[0] for line in lines if line.strip()}


@pytest.mark.parametrize(
    ("command", "name", "meant"),
    [("corpora", "cantemst", "cantemist"), ("encoders", "biobrt", "biobert")],
)
def test_an_unknown_name_is_one_line_and_exit_status_1(command, name, meant, run_spacy):
    done = run_spacy("biomed", command, name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().count("\n") == 0
    assert f"did you mean {meant}" in done.stderr


@pytest.mark.parametrize("columns", [100, 120, 200])
@pytest.mark.parametrize("command", ["corpora", "encoders"])
def test_the_table_fits_the_terminal(command, columns):
    lines = call(command, columns=columns).stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in "".join(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("corpora --task parsing", "no --task 'parsing' in the catalogue: use assertion"),
        ("corpora --language de", "no --language 'de' in the catalogue: use en, es or fr"),
        ("corpora jnlpba --task ner", "--task: only for the table"),
        (
            "encoders --language fr",
            "no --language 'fr' in the catalogue: use en, es or multilingual",
        ),
        ("encoders beto --language es", "--language: only for the table"),
    ],
)
def test_bad_filters_say_what_to_do(arguments, message):
    assert refuse(*arguments.split()).startswith(message)


@pytest.mark.parametrize("example", ["corpora ncbi_disease", "encoders biobert"])
def test_help_has_an_example(example):
    printed = run(example.split()[0], "--help")
    assert f"spacy biomed {example}" in " ".join(printed.split())
