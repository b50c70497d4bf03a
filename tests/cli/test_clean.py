import json

import pytest
import typer
from commands import call, error_line
from without_training import run_code

from spacy_biomed.cli._shared.bad_input import OneLineGroup
from spacy_biomed.cli.language_models import clean, group_sources

DOCUMENTS = [
    "The patient was given aspirin for ten days. He had no more pain in the chest.",
    "Both of the vaccines were safe in children. They were <b>given</b> in the left arm.",
]
FOREIGN = "El paciente ingresó en el hospital por un dolor abdominal intenso con náuseas."

app = typer.Typer(cls=OneLineGroup)
app.command("clean")(clean)
app.callback()(lambda: None)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command in a folder with two sources."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("\n".join([*DOCUMENTS, DOCUMENTS[0]]))
    rows = [{"body": DOCUMENTS[0]}, {"body": FOREIGN}]
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def run(*arguments: str):
        return call("clean", *arguments, columns=100)

    return run


def read_table(output: str) -> list[list[str]]:
    lines = (line for line in output.splitlines() if line.startswith("│"))
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_clean_writes_text_and_report_and_says_what_became_of_what(run, tmp_path):
    result = run("notes", "-o", "out/clean.txt", "--lang", "en")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "clean.txt").read_text().splitlines() == [
        DOCUMENTS[0],
        "Both of the vaccines were safe in children.",
    ]
    report = json.loads((tmp_path / "out" / "clean.report.json").read_text())
    assert report["sources"]["notes"]["documents"]["removed"]["duplicate"] == 1
    assert read_table(result.output) == [
        ["notes", "documents", "3", "2", "66.7%"],
        ["", "sentences", "6", "3", "50.0%"],
        ["", "words", "47", "24", "51.1%"],
        ["duplicate", "1", ""],
        ["markup", "", "1"],
        ["in_duplicate_document", "", "2"],
    ]
    assert "✔ Wrote out/clean.txt\n✔ Wrote out/clean.report.json\n" in result.output


def test_several_sources_are_cleaned_in_order_and_summed_up(run, tmp_path):
    (tmp_path / "more.jsonl").write_text(json.dumps({"text": DOCUMENTS[0]}))
    result = run("all=notes", "other=more.jsonl", "-o", "clean.txt", "--lang", "en")
    assert result.exit_code == 0, result.output
    rows = read_table(result.output)
    assert [row[0] for row in rows if row[1] == "documents"] == ["all", "other", "all sources"]
    assert ["all sources", "documents", "4", "2", "50.0%"] in rows
    assert ["duplicate_of_other_source", "1", ""] in rows


def test_the_options_reach_the_cleaning(run, tmp_path):
    options = ["--text-field", "body", "--min-words", "12", "--max-words", "13"]
    more = ["--similarity", "0.7", "--workers", "2", "--lang", "es"]
    result = run("more.jsonl", "-o", "clean.txt", *options, *more)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "clean.txt").read_text() == f"{FOREIGN}\n"
    report = json.loads((tmp_path / "clean.report.json").read_text())
    assert report["settings"]["lang"] == "es"
    assert report["settings"]["thresholds"]["min_words"] == 12
    assert report["settings"]["thresholds"]["max_words"] == 13
    assert report["settings"]["near_duplicates"]["similarity"] == 0.7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.txt", "-o", "clean.txt", "--lang", "en"], "gone.txt: no such file or folder"),
        (
            ["more.jsonl", "-o", "clean.txt", "--lang", "en"],
            "more.jsonl:1: no field text, but body",
        ),
        (["notes", "-o", "clean.txt", "--lang", "xyz"], "xyz"),
        (
            ["notes", "-o", "notes/a.txt", "--lang", "en"],
            "notes/a.txt: lies in notes, which is read",
        ),
        (["notes", "-o", "clean.txt"], "Missing option '--lang'"),
        (["notes", "-o", "clean.txt", "--lang", "en", "--similarity", "1"], "--similarity"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, tmp_path, arguments, message):
    before = sorted(tmp_path.rglob("*"))
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in error_line(result)
    assert "\n" not in error_line(result)
    assert sorted(tmp_path.rglob("*")) == before


def test_paths_with_one_name_are_one_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd=name.txt").write_text("")
    sources = group_sources(["a=x.txt", "b.txt", "odd=name.txt", "a=y=z.txt"])
    assert [(source.name, [str(path) for path in source.paths]) for source in sources] == [
        ("a", ["x.txt", "y=z.txt"]),
        ("b.txt", ["b.txt"]),
        ("odd=name.txt", ["odd=name.txt"]),
    ]


@pytest.mark.slow
def test_nothing_heavy_is_imported_with_the_command():
    code = (
        "import sys, spacy.cli; before = set(sys.modules)\n"
        "import spacy_biomed.cli.language_models\n"
        "heavy = {'pyarrow', 'py3langid', 'datasketch', 'scipy'}\n"
        "print(heavy & (sys.modules.keys() - before))"
    )
    assert run_code(code).strip() == "set()"
