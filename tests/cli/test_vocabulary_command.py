"""`spacy biomed vocabulary`: both kinds, and bad input."""

import json

import pytest
from commands import call, error_line
from pretraining_recipes import write_text
from typer.testing import Result


def run(*arguments: object) -> Result:
    return call("vocabulary", *arguments)


@pytest.mark.parametrize(("kind", "size"), [("bpe", 300), ("wordpiece", 100)])
def test_a_vocabulary_is_learned_from_several_files(tmp_path, kind, size):
    texts = [
        write_text(tmp_path / "a.txt"),
        tmp_path / "b.jsonl",
    ]
    texts[1].write_text('{"body": "quimioterapia y quimioterapia"}\n' * 3, encoding="utf8")
    output = tmp_path / "vocabulary"
    result = run(
        texts[0], "--output", output, "--kind", kind, "--size", size, "--text-field", "body"
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == f"✔ Wrote {output}: {size} entries"
    both = run(*texts, "-o", output, "--kind", kind, "--size", 400, "--text-field", "body")
    assert both.exit_code == 0, both.output
    entries = json.loads((output / "tokenizer.json").read_text(encoding="utf8"))["model"]["vocab"]
    assert any("quimioterapia" in entry for entry in entries)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kind", "unigram", "--size", "100"], "value for '--kind': 'unigram' is not one of"),
        (["--kind", "bpe", "--size", "300", "--lowercase"], "only --kind wordpiece folds case"),
        (["--kind", "bpe", "--size", "100"], "cannot hold all bytes: at least 261"),
    ],
)
def test_bad_options_leave_what_was_there(tmp_path, options, message):
    text, output = write_text(tmp_path / "a.txt"), tmp_path / "vocabulary"
    assert run(text, "-o", output, "--size", "120").exit_code == 0
    before = (output / "tokenizer.json").read_bytes()
    result = run(text, "-o", output, *options)
    assert message in error_line(result)
    assert (output / "tokenizer.json").read_bytes() == before


def test_text_that_is_not_there_is_bad_input(tmp_path):
    result = run(tmp_path / "no.txt", "-o", tmp_path / "vocabulary", "--size", "120")
    assert "no.txt: no such file or folder" in error_line(result)
    assert list(tmp_path.iterdir()) == []


def test_help_has_an_example():
    assert "spacy biomed vocabulary texts/" in " ".join(run("--help").stdout.split())
