"""`spacy biomed deidentify` and `spacy biomed leakage`."""

import gzip
import json

import pytest
import spacy
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_biomed.cli import app
from spacy_biomed.errors import BiomedError

NOTES = ["Marta Ochoa vino el 12/03/2019.", "", "Alta: 14/03/2019. Fdo.: Marta Ochoa, Ana Ruiz"]
TAGGED = ["[NOMBRE] vino el [FECHA].", "", "Alta: [FECHA]. Fdo.: [NOMBRE], Ana Ruiz"]
PATTERNS = [
    {"label": "NOMBRE", "pattern": [{"TEXT": "Marta"}, {"TEXT": "Ochoa"}]},
    {"label": "FECHA", "pattern": [{"TEXT": {"REGEX": r"^\d+/\d+/\d+$"}}]},
]


@pytest.fixture(scope="module")
def finder(tmp_path_factory):
    """A pipeline that finds mentions and does not de-identify."""
    nlp = spacy.blank("es")
    nlp.add_pipe("entity_ruler").add_patterns(PATTERNS)
    path = tmp_path_factory.mktemp("pipelines") / "finder"
    nlp.to_disk(path)
    return path


@pytest.fixture
def run(finder, tmp_path, monkeypatch):
    """Run a command with that pipeline, in a folder with notes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPACY_BIOMED_SECRET", "0123456789abcdef")
    (tmp_path / "notes.txt").write_text("".join(f"{note}\n" for note in NOTES), encoding="utf8")
    rows = [{"text": note, "patient": "p1", "ward": i} for i, note in enumerate(NOTES)]
    write_rows(tmp_path / "notes.jsonl", rows)

    def run(command, *arguments, pipeline=finder):
        arguments = [command, str(pipeline), *map(str, arguments)]
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})

    return run


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")


def read_rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_text_files_stay_line_by_line(run, tmp_path):
    result = run("deidentify", "notes.txt", "out/clean.txt")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out/clean.txt").read_text(encoding="utf8").split("\n") == [*TAGGED, ""]
    assert "✔ Wrote out/clean.txt: 3 documents" in result.output
    assert run("deidentify", "notes.txt", "clean.txt.gz").exit_code == 0
    with gzip.open("clean.txt.gz", "rt", encoding="utf8") as file:
        assert file.read().split("\n") == [*TAGGED, ""]


def test_of_json_only_the_text_is_written_and_what_is_kept(run, tmp_path):
    assert run("deidentify", "notes.jsonl", "clean.jsonl").exit_code == 0
    assert read_rows(tmp_path / "clean.jsonl") == [{"text": text} for text in TAGGED]
    assert run("deidentify", "notes.jsonl", "clean.jsonl", "--keep", "ward").exit_code == 0
    rows = read_rows(tmp_path / "clean.jsonl")
    assert rows == [{"ward": i, "text": text} for i, text in enumerate(TAGGED)]


def test_annotations_have_the_offsets_in_both_texts(run, tmp_path):
    options = ["--annotations", "replaced.jsonl", "--keep", "ward", "--mode", "surrogates"]
    result = run("deidentify", "notes.jsonl", "clean.jsonl", *options)
    assert result.exit_code == 0, result.output
    texts = [row["text"] for row in read_rows(tmp_path / "clean.jsonl")]
    found = []
    for row in read_rows(tmp_path / "replaced.jsonl"):
        old, new = NOTES[row["ward"]], texts[row["ward"]]
        for one in row["replacements"]:
            assert new[one["new_start"] : one["new_end"]] == one["text"]
            found.append((old[one["start"] : one["end"]], one["label"]))
    assert found == [
        ("Marta Ochoa", "NOMBRE"),
        ("12/03/2019", "FECHA"),
        ("14/03/2019", "FECHA"),
        ("Marta Ochoa", "NOMBRE"),
    ]
    assert "Marta" not in (tmp_path / "replaced.jsonl").read_text(encoding="utf8")


def test_documents_of_one_patient_share_surrogates(run, tmp_path):
    options = ["--mode", "surrogates", "--id-field", "patient"]
    assert run("deidentify", "notes.jsonl", "clean.jsonl", *options).exit_code == 0
    first, _, last = (row["text"] for row in read_rows(tmp_path / "clean.jsonl"))
    name = first.partition(" vino")[0]
    assert name in last and name != "Marta Ochoa"


def test_in_a_folder_each_file_is_a_document(run, tmp_path):
    (tmp_path / "ward" / "b").mkdir(parents=True)
    (tmp_path / "ward" / "1.txt").write_bytes(b"Marta Ochoa\r\n\nMarta Ochoa\n")
    (tmp_path / "ward" / "b" / "2.txt").write_text("El 12/03/2019.")
    result = run("deidentify", "ward", "clean", "--annotations", "replaced.jsonl")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "clean" / "1.txt").read_bytes() == b"[NOMBRE]\r\n\n[NOMBRE]\n"
    assert (tmp_path / "clean" / "b" / "2.txt").read_text() == "El [FECHA]."
    assert [row["file"] for row in read_rows(tmp_path / "replaced.jsonl")] == ["1.txt", "b/2.txt"]
    assert run("deidentify", "ward", "clean").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.txt", "out.txt"], "gone.txt: no such file"),
        (["notes.txt", "out.jsonl"], "out.jsonl: name a .txt file"),
        (["notes.txt", "notes.txt"], "notes.txt: is what is read"),
        (["ward", "ward/clean"], "ward/clean: lies in ward, which is read"),
        (["ward", "out"], "a.jsonl: in a folder, each .txt file is a document"),
        (["notes.csv", "out.csv"], "notes.csv: the ending of the name is unknown"),
        (["notes.txt", "out.txt", "--annotations", "out.txt"], "a file of its own"),
        (["notes.txt", "out.txt", "--mode", "stars"], "mode stars: use tags or surrogates"),
        (["notes.jsonl", "out.jsonl", "--text-field", "body"], "notes.jsonl:1: no field body"),
        (["notes.jsonl", "out.jsonl", "--id-field", "nhc"], "notes.jsonl:1: no identifier in"),
        (["bad.jsonl", "out.jsonl"], "bad.jsonl:2: not JSON"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, tmp_path, arguments, message):
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text"\n')
    (tmp_path / "notes.csv").write_text("a\n")
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / ("a.txt" if "ward/clean" in arguments else "a.jsonl")).write_text("a\n")
    before = sorted(tmp_path.rglob("*"))
    result = run("deidentify", *arguments)
    assert result.exit_code == 1
    assert isinstance(result.exception, BiomedError), result.exception
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pipeline_that_finds_nothing_writes_nothing(run, tmp_path):
    spacy.blank("es").to_disk(tmp_path / "blank")
    before = sorted(tmp_path.rglob("*"))
    result = run("deidentify", "notes.txt", "out.txt", pipeline=tmp_path / "blank")
    assert "notes.txt:1: no component has looked for mentions" in str(result.exception)
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_secret_no_surrogates_are_written(run, tmp_path, monkeypatch):
    monkeypatch.delenv("SPACY_BIOMED_SECRET")
    result = run("deidentify", "notes.txt", "out.txt", "--mode", "surrogates")
    assert "set the environment variable SPACY_BIOMED_SECRET" in str(result.exception)
    assert not (tmp_path / "out.txt").exists()


def test_a_pipeline_that_de_identifies_keeps_its_other_settings(run, finder, tmp_path):
    nlp = spacy.load(finder)
    nlp.add_pipe("biomed_deidentify", config={"tag": "<{label}>", "mode": "surrogates"})
    nlp.to_disk(tmp_path / "own")
    arguments = ["notes.txt", "out.txt", "--mode", "tags"]
    assert run("deidentify", *arguments, pipeline=tmp_path / "own").exit_code == 0
    assert (tmp_path / "out.txt").read_text().splitlines()[0] == "<NOMBRE> vino el <FECHA>."


def test_leakage_counts_what_can_still_be_read(run, tmp_path):
    nlp = spacy.blank("es")
    docs = []
    for note in NOTES:
        doc = nlp.make_doc(note)
        names = [("Marta Ochoa", "NOMBRE"), ("Ana Ruiz", "NOMBRE"), ("12/03/2019", "FECHA")]
        spans = [
            doc.char_span(note.index(name), note.index(name) + len(name), label=label)
            for name, label in names
            if name in note
        ]
        doc.set_ents(spans, default="outside")
        docs.append(doc)
    DocBin(docs=docs).to_disk(tmp_path / "test.spacy")
    for mode in ("tags", "surrogates"):
        result = run("leakage", "test.spacy", "--mode", mode)
        assert result.exit_code == 0, result.output
        lines = [line for line in result.output.splitlines() if line.startswith("│")]
        assert [[cell.strip() for cell in line.strip("│").split("│")] for line in lines] == [
            ["FECHA", "1", "0", "0", "0.00%"],
            ["NOMBRE", "3", "0", "1", "33.33%"],
            ["all labels", "4", "0", "1", "25.00%"],
        ]
        assert "1 of 3 documents leak" in result.output
