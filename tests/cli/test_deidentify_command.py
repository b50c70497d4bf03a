"""`spacy biomed deidentify` and `spacy biomed leakage`."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest
import spacy
from commands import call, error_line
from spacy.tokens import DocBin

from spacy_biomed.bulk import deidentified_files
from spacy_biomed.files.outputs import MARKER, replacing_directory

NOTES = ["Marta Ochoa vino el 12/03/2019.", "", "Alta: 14/03/2019. Fdo.: Marta Ochoa, Ana Ruiz"]
TAGGED = ["[NOMBRE] vino el [FECHA].", "", "Alta: [FECHA]. Fdo.: [NOMBRE], [NOMBRE]"]
PATTERNS = [
    {"label": "NOMBRE", "pattern": [{"TEXT": "Marta"}, {"TEXT": "Ochoa"}]},
    {"label": "FECHA", "pattern": [{"TEXT": {"REGEX": r"^\d+/\d+/\d+$"}}]},
]


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
        return call(*arguments, columns=100)

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
    # Neither the time nor a name is in it.
    assert (tmp_path / "clean.txt.gz").read_bytes()[3:8] == bytes(5)


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
        ("Ana Ruiz", "NOMBRE"),
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
        (["notes.txt", "notes.txt"], "notes.txt: this is what is read"),
        (["ward", "ward/clean"], "ward/clean: this is what is read or written besides, or in it"),
        (["ward", "out"], "a.jsonl: in a folder, each .txt file is a document"),
        (["notes.doc", "out.doc"], "notes.doc: the ending of the name is unknown"),
        (["notes.csv", "out.csv"], "notes.csv: no column text, but a; name it with"),
        (["notes.csv", "out.tsv.old"], "out.tsv.old: name a .csv file"),
        (["notes.txt", "out.txt", "--annotations", "out.txt"], "a place of its own"),
        (["notes.txt", "out.txt", "--kind", "TWIN"], "--kind 'TWIN': write LABEL=kind"),
        (["notes.txt", "out.txt", "--kind", "TWIN=sister"], "TWIN = 'sister': no such kind"),
        (["notes.txt", "out.txt", "--mode", "stars"], "mode stars: use tags or surrogates"),
        (
            ["notes.jsonl", "out.jsonl", "--text-field", "body"],
            "notes.jsonl: no object has a field body; name another",
        ),
        (
            ["notes.jsonl", "out.jsonl", "--id-field", "nhc"],
            "notes.jsonl: no object has a field nhc; name another with --patient-column",
        ),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, tmp_path, arguments, message):
    (tmp_path / "notes.csv").write_text("a\nb\n")
    (tmp_path / "notes.doc").write_text("a\n")
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / ("a.txt" if "ward/clean" in arguments else "a.jsonl")).write_text("a\n")
    before = sorted(tmp_path.rglob("*"))
    result = run("deidentify", *arguments)
    assert result.exit_code == 1
    assert message in error_line(result)
    assert "\n" not in error_line(result)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pipeline_that_finds_nothing_writes_nothing(run, tmp_path):
    spacy.blank("es").to_disk(tmp_path / "blank")
    before = sorted(tmp_path.rglob("*"))
    result = run("deidentify", "notes.txt", "out.txt", pipeline=tmp_path / "blank")
    assert "finds no labels that it tells" in error_line(result)
    assert sorted(tmp_path.rglob("*")) == before
    result = run(
        "deidentify", "notes.txt", "out.txt", "--kind", "WHO=name", pipeline=tmp_path / "blank"
    )
    assert "notes.txt:1: no component has looked for mentions" in error_line(result)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pipeline_without_a_label_of_personal_data_is_refused_before_anything_is_read(
    run, tmp_path
):
    nlp = spacy.blank("es")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "CHEMICAL", "pattern": "aspirina"}])
    nlp.to_disk(tmp_path / "chemicals")
    before = sorted(tmp_path.rglob("*"))
    for texts in ("notes.txt", "gone.txt"):
        result = run("deidentify", texts, "out.txt", pipeline=tmp_path / "chemicals")
        assert result.exit_code == 1
        message = error_line(result)
        assert "(entity_ruler) finds CHEMICAL, and so nothing known as personal data" in message
        assert "NAME, PATIENT, NOMBRE" in message and "--kind MY_LABEL=name" in message
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "one.txt").write_text("Tomó aspirina.\n")
    arguments = ["one.txt", "out.txt", "--kind", "CHEMICAL=other"]
    assert run("deidentify", *arguments, pipeline=tmp_path / "chemicals").exit_code == 0
    assert (tmp_path / "out.txt").read_text() == "Tomó [CHEMICAL].\n"


def test_kinds_of_the_command_line_come_beside_those_of_the_pipeline(run, finder, tmp_path):
    nlp = spacy.load(finder)
    nlp.add_pipe("biomed_deidentify", config={"kinds": {"NOMBRE": "keep"}, "tag": "<{label}>"})
    nlp.to_disk(tmp_path / "own")
    own = {"pipeline": tmp_path / "own"}
    assert run("deidentify", "notes.txt", "out.txt", **own).exit_code == 0
    assert (tmp_path / "out.txt").read_text().startswith("Marta Ochoa vino el <FECHA>.")
    arguments = ["notes.txt", "out.txt", "--kind", "FECHA=keep", "--kind", "NOMBRE=id"]
    assert run("deidentify", *arguments, **own).exit_code == 0
    assert (tmp_path / "out.txt").read_text().startswith("<NOMBRE> vino el 12/03/2019.")


# Where is written


def make_ward(folder):
    """A folder of notes with links to one of them, and one of its results."""
    (folder / "ward" / "b").mkdir(parents=True)
    (folder / "ward" / "1.txt").write_text("Marta Ochoa\n")
    (folder / "soft").symlink_to("ward")
    (folder / "soft.txt").symlink_to("ward/1.txt")
    (folder / "loop").symlink_to("loop")
    (folder / "to_notes").symlink_to("notes.txt")
    with replacing_directory(folder / "clean", "spacy biomed deidentify") as partial:
        (partial / "1.txt").write_text("old\n")
    (folder / "out.txt").write_text("old\n")


def contents(folder):
    return {
        str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    } | {str(path): None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("texts", "output", "annotations"),
    [
        ("notes.txt", "out.txt", "notes.txt"),
        ("notes.txt", "out.txt", "ward/../notes.txt"),
        ("notes.txt", "out.txt", "NOTES.TXT"),
        ("notes.txt", "out.txt", "to_notes"),
        ("notes.txt", "out.txt", "out.txt"),
        ("notes.txt", "out.txt", "Out.Txt"),
        ("notes.txt", "new.txt", "new.txt"),
        ("notes.txt", "new.txt", "NEW.txt"),
        ("notes.txt", "out.txt", "."),
        ("notes.txt", "out.txt", "ward"),
        ("ward", "clean", "ward/1.txt"),
        ("ward", "clean", "ward/new.jsonl"),
        ("ward", "clean", "soft/new.jsonl"),
        ("ward", "clean", "Ward/new.jsonl"),
        ("ward", "clean", "soft.txt"),
        ("ward", "clean", "clean"),
        ("ward", "clean", "clean/1.txt"),
        ("ward", "clean", "clean/new.jsonl"),
        ("ward", "new", "new/new.jsonl"),
        ("ward", "new", "new"),
        ("ward", "ward", None),
        ("ward", "soft", None),
        ("ward", "soft/new", None),
        ("ward", "ward/b/new", None),
        ("ward", "WARD", None),
        ("ward/b", "ward", None),
        ("ward", ".", None),
        ("notes.txt", "to_notes", None),
        ("notes.txt", "Notes.txt", None),
        ("notes.txt", ".", None),
        ("notes.txt", "out.txt", "pipeline/meta.json"),
        ("notes.txt", "pipeline/new.txt", None),
        ("ward", "pipeline", None),
    ],
)
def test_what_is_read_or_written_besides_is_never_written_to(
    run, tmp_path, monkeypatch, texts, output, annotations
):
    """Refused before the pipeline is loaded or a text read."""
    make_ward(tmp_path)
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "meta.json").write_text("{}")
    monkeypatch.setattr("spacy_biomed.pipeline.pipeline_loading.load_pipeline", None)
    before = contents(tmp_path)
    options = ["--annotations", annotations] if annotations else []
    result = run("deidentify", texts, output, *options, pipeline="pipeline")
    assert result.exit_code == 1
    assert error_line(result).startswith(f"{annotations or output}: this is ")
    assert "\n" not in error_line(result)
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_annotations_may_lie_beside_what_is_read_and_written(run, tmp_path):
    make_ward(tmp_path)
    for texts, output in [("notes.txt", "out.txt"), ("ward", "clean"), ("ward", "ward2")]:
        for annotations in ("ward.jsonl", "new/annotations.jsonl", "loop2"):
            result = run("deidentify", texts, output, "--annotations", annotations)
            assert result.exit_code == 0, result.exception
            assert (tmp_path / annotations).read_text().count("replacements") == (
                3 if texts == "notes.txt" else 1
            )


def test_the_original_text_cannot_be_kept(run, tmp_path):
    options = ["--annotations", "replaced.jsonl", "--keep", "text"]
    result = run("deidentify", "notes.jsonl", "out.jsonl", *options)
    assert "--keep text: this is the field with the text" in error_line(result)
    result = run("deidentify", "notes.jsonl", "out.jsonl", "--keep", "file")
    assert "--keep file: --annotations has a field of this name" in error_line(result)
    assert not (tmp_path / "out.jsonl").exists() and not (tmp_path / "replaced.jsonl").exists()


# Names of files


def test_names_of_files_may_be_those_of_people(run, tmp_path):
    folder = tmp_path / "notes" / "ochoa_marta"
    folder.mkdir(parents=True)
    (folder / "juan_perez_2019.txt").write_text("Marta Ochoa")
    (tmp_path / "notes" / "2.txt").write_text("Nada")
    result = run("deidentify", "notes", "clean")
    assert result.output.count("\n") == 2 and "use --rename" in result.output
    assert "perez" not in result.output and "ochoa" not in result.output
    assert (tmp_path / "clean" / "ochoa_marta" / "juan_perez_2019.txt").exists()
    assert "rename" not in run("deidentify", "notes", "clean", "--keep-names").output
    assert "rename" not in run("deidentify", "notes.txt", "clean.txt").output


def test_renamed_files_have_names_that_follow_from_the_secret(run, tmp_path, monkeypatch):
    folder = tmp_path / "notes" / "ochoa_marta"
    folder.mkdir(parents=True)
    (folder / "1.txt").write_text("Marta Ochoa")
    (tmp_path / "notes" / "1.txt").write_text("Nada")

    def names():
        result = run("deidentify", "notes", "clean", "--rename", "--annotations", "new.jsonl")
        assert result.exit_code == 0, result.exception
        assert "--rename" not in result.output
        files = {path.relative_to("clean").as_posix() for path in Path("clean").rglob("*.txt")}
        assert {row["file"] for row in read_rows(tmp_path / "new.jsonl")} == files
        return files

    first = names()
    assert len(first) == 2 and all(re.fullmatch(r"[0-9a-f]{32}\.txt", name) for name in first)
    assert {(tmp_path / "clean" / name).read_text() for name in first} == {"[NOMBRE]", "Nada"}
    assert "notes" not in (tmp_path / "clean" / MARKER).read_text()
    assert names() == first
    monkeypatch.setenv("SPACY_BIOMED_SECRET", "another secret, long enough")
    assert not names() & first
    monkeypatch.delenv("SPACY_BIOMED_SECRET")
    result = run("deidentify", "notes", "clean2", "--rename")
    assert "set the environment variable SPACY_BIOMED_SECRET" in error_line(result)
    result = run("deidentify", "notes.txt", "clean.txt", "--rename")
    assert "notes.txt: --rename and --keep-names are for folders" in error_line(result)
    assert not (tmp_path / "clean2").exists() and not (tmp_path / "clean.txt").exists()


def test_a_name_of_a_file_that_is_no_text_is_told_or_replaced(run, tmp_path):
    (tmp_path / "notes").mkdir()
    path = os.fsencode(tmp_path / "notes") + b"/mar\xeda.txt"
    try:
        with open(path, "w") as file:
            file.write("Marta Ochoa")
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    result = run("deidentify", "notes", "clean", "--annotations", "new.jsonl")
    assert "all 1 failed: mar\\xeda.txt: a name that is not UTF-8; rename" in error_line(result)
    assert not (tmp_path / "clean").exists() and not (tmp_path / "new.jsonl").exists()
    result = run("deidentify", "notes", "clean", "--annotations", "new.jsonl", "--rename")
    assert result.exit_code == 0, result.exception
    assert len(read_rows(tmp_path / "new.jsonl")) == 1


# What is said of texts


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ('{"text": "Marta \\ud800"}', [], "has half of a surrogate pair"),
        (
            '{"text": "a", "w": ["Marta \\udfff"]}',
            ["--keep", "w"],
            "the field w has half of a surrogate pair",
        ),
        ('{"text": "a", "w": 1e999}', ["--keep", "w"], "the field w has a number that JSON does"),
        ('{"text": "a", "w": NaN}', ["--keep", "w"], "the field w has a number that JSON does"),
        ('{"text": ["Marta"]}', [], "no text in the column text"),
        ('{"Marta": "Ochoa"}', [], "no text in the column text"),
        ('{"text": "Marta', [], "not JSON (Unterminated string starting at character 10); put"),
        ('["Marta"]', [], "JSON, but no object"),
        ("[" * 100_000, [], "not JSON (nested too deeply); put an object"),
        ('{"text": ' + "9" * 5000 + "}", [], "not JSON (a number of too many digits)"),
    ],
)
def test_a_document_that_cannot_be_written_is_named_and_not_quoted(
    run, tmp_path, line, options, message
):
    """The others are written, and the command says with its status that one is missing."""
    (tmp_path / "bad.jsonl").write_text(f'{{"text": "Marta Ochoa", "w": 1}}\n{line}\n')
    result = run("deidentify", "bad.jsonl", "out.jsonl", *options)
    assert "1 of 2 documents failed, the others are done: bad.jsonl:2: " in error_line(result)
    assert message in error_line(result)
    (failed,) = read_rows(tmp_path / "out.jsonl.errors.jsonl")
    assert failed["id"] == "bad.jsonl:2" and message in failed["reason"]
    assert "Marta" not in error_line(result) + result.output + failed["reason"]
    assert [row["text"] for row in read_rows(tmp_path / "out.jsonl")] == ["[NOMBRE]"]
    arguments = ["bad.jsonl", "out.jsonl", *options, "--max-errors"]
    allowed = run("deidentify", *arguments, 1)
    assert allowed.exit_code == 0
    assert "⚠ 1 documents failed: see out.jsonl.errors.jsonl" in allowed.output
    assert "--max-errors is 0" in error_line(run("deidentify", *arguments, 0))


def test_a_field_that_is_not_kept_may_hold_what_cannot_be_written(run, tmp_path):
    (tmp_path / "odd.jsonl").write_text('{"text": "a\\ud83d\\ude42", "w": "\\ud800", "n": 1e999}\n')
    assert run("deidentify", "odd.jsonl", "out.jsonl").exit_code == 0
    assert read_rows(tmp_path / "out.jsonl") == [{"text": "a🙂"}]


class Careless:
    """A component whose errors quote what it was given."""

    def __init__(self, where):
        self.where = where

    def __call__(self, doc):
        if self.where == "call" and "14/03" in doc.text:
            raise RuntimeError(f"cannot read {doc.text}")
        return doc

    def to_disk(self, path, exclude=()):
        pass

    def from_disk(self, path, exclude=()):
        return self


class CarelessInBatches(Careless):
    def pipe(self, docs, batch_size):
        for doc in docs:
            if "14/03" in doc.text:
                raise RuntimeError(f"cannot read {doc.text}")
            yield doc


@spacy.Language.factory("careless")
def make_careless(nlp, name, where: str):
    return Careless(where) if where == "call" else CarelessInBatches(where)


@pytest.mark.parametrize("where", ["call", "pipe"])
def test_a_component_that_fails_is_named_without_its_words(run, finder, tmp_path, where):
    nlp = spacy.load(finder)
    nlp.add_pipe("careless", config={"where": where})
    nlp.to_disk(tmp_path / "failing")
    arguments = ["notes.txt", "out.txt", "--annotations", "replaced.jsonl"]
    result = run("deidentify", *arguments, pipeline=tmp_path / "failing")
    message = error_line(result)
    assert f"others are done: notes.txt:3: RuntimeError in {Path(__file__).name}:" in message
    assert "Marta" not in message + result.output and "cannot read" not in message
    assert (tmp_path / "out.txt").read_text().splitlines() == TAGGED[:2]
    assert len(read_rows(tmp_path / "replaced.jsonl")) == 2


# Other settings


def test_without_a_secret_no_surrogates_are_written(run, tmp_path, monkeypatch):
    monkeypatch.delenv("SPACY_BIOMED_SECRET")
    result = run("deidentify", "notes.txt", "out.txt", "--mode", "surrogates")
    assert "set the environment variable SPACY_BIOMED_SECRET" in error_line(result)
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
        result = run("leakage", "test.spacy", "--mode", mode, "--no-patterns")
        assert result.exit_code == 0, result.output
        lines = [line for line in result.output.splitlines() if line.startswith("│")]
        assert [[cell.strip() for cell in line.strip("│").split("│")] for line in lines] == [
            ["FECHA", "1", "0", "0", "0", "0.00%"],
            ["NOMBRE", "3", "0", "0", "1", "33.33%"],
            ["all labels", "4", "0", "0", "1", "25.00%"],
        ]
        assert "1 of 3 documents leak" in result.output
    # As `deidentify` does: "Ana Ruiz" has the form of a name.
    assert "0 of 3 documents leak" in run("leakage", "test.spacy").output
    kept = run("leakage", "test.spacy", "--no-patterns", "--kind", "NOMBRE=keep")
    assert "0 of 3 documents leak" in kept.output
    # Without a mention, that nothing leaks would say nothing.
    docs[0].set_ents([], default="outside")
    DocBin(docs=docs[:1]).to_disk(tmp_path / "test.spacy")
    line = error_line(run("leakage", "test.spacy"))
    assert line == "test.spacy: no mention there is to be replaced; see --spans-key, --kind"


def test_texts_in_capitals_are_counted_where_the_pipeline_does_not_read_them(run, tmp_path):
    (tmp_path / "notes.txt").write_text(f"{NOTES[0]}\n{NOTES[2].upper()}\n", encoding="utf8")
    result = run("deidentify", "notes.txt", "clean.txt")
    assert result.exit_code == 0, result.output
    assert "1 of 2 documents (50%) are mostly in capitals" in result.stderr
    (tmp_path / "notes.txt").write_text(f"{NOTES[0]}\n", encoding="utf8")
    assert "capitals" not in run("deidentify", "notes.txt", "clean.txt").stderr


def test_texts_that_look_encoded_are_refused_with_a_count_or_repaired(run, tmp_path):
    notes = ["Marta Ochoa vino.", "Ana Ib&aacute;&ntilde;ez vino.", "Jos=C3=A9 Ruiz, JosÃ© vino."]
    (tmp_path / "notes.txt").write_text("".join(f"{note}\n" for note in notes), encoding="utf8")
    line = error_line(run("deidentify", "notes.txt", "clean.txt"))
    assert "notes.txt:2: this text looks encoded (HTML entities), as 2 of 3 do" in line
    assert "--repair" in line and not (tmp_path / "clean.txt").exists()
    assert run("deidentify", "notes.txt", "clean.txt", "--repair").exit_code == 0
    clean = (tmp_path / "clean.txt").read_text(encoding="utf8")
    assert clean == "[NOMBRE] vino.\n[NOMBRE] vino.\n[NOMBRE], [NOMBRE] vino.\n"
    assert run("deidentify", "notes.txt", "as_is.txt", "--no-repair").exit_code == 0
    assert "&ntilde;" in (tmp_path / "as_is.txt").read_text(encoding="utf8")


def test_a_text_that_cannot_be_repaired_fails_alone(run, tmp_path):
    notes = "Ana Ib&aacute;&ntilde;ez vino.\nAna Iba�ez, de 4 a�os: neumon�a.\n"
    (tmp_path / "notes.txt").write_text(notes, encoding="utf8")
    line = error_line(run("deidentify", "notes.txt", "clean.txt", "--repair"))
    assert "1 of 2 documents failed" in line and "letters lost" in line and "Ana" not in line
    assert (tmp_path / "clean.txt").read_text(encoding="utf8") == "[NOMBRE] vino.\n"


def test_a_text_that_changes_after_its_mentions_were_found_is_not_written(
    run, tmp_path, monkeypatch
):
    notes = tmp_path / "notes.txt"
    read_found = deidentified_files._read_found

    def change(work):
        notes.write_text(notes.read_text().replace("Marta", "Hoy Marta"), encoding="utf8")
        return read_found(work)

    monkeypatch.setattr(deidentified_files, "_read_found", change)
    line = error_line(run("deidentify", "notes.txt", "clean.txt"))
    assert "notes.txt: changes while it is read" in line
    assert not (tmp_path / "clean.txt").exists()
