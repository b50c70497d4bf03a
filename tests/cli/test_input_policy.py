"""One policy for the inputs of `annotate`, `deidentify`, `benchmark` and `clean`."""

import csv
import gzip
import json
import lzma
import os
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from commands import call, error_line
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.pipeline.pipeline_loading import import_code

CODE = """
from spacy.language import Language

@Language.component("test_own_code")
def own(doc):
    return doc
"""


PATTERNS = [{"label": "NOMBRE", "pattern": "Marta"}]


@pytest.fixture
def run(finder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPACY_BIOMED_SECRET", "0123456789abcdef")

    def run(command, *arguments, pipeline=finder):
        first = [] if command == "clean" else [pipeline]
        arguments = [command, *map(str, [*first, *arguments])]
        return call(*arguments, columns=100)

    return run


BOTH = pytest.mark.parametrize("command", ["annotate", "deidentify"])


def output_of(command: str, ending: str = "csv") -> str:
    return "out.jsonl" if command == "annotate" else f"out.{ending}"


def count_records(output: Path) -> int:
    """The documents of an output, whichever of the two commands wrote it."""
    if output.is_dir():
        files = [*output.glob("part-*.jsonl"), *output.rglob("*.txt")]
        return sum(len(file.read_bytes().splitlines()) for file in files)
    with output.open(newline="") as file:
        return len(list(csv.DictReader(file)))


# CSV and TSV


STRAY = 'id,text\n1,"Marta opens\n2,two\n3,"three" closes\n4,four\n5,five\n'


@BOTH
@pytest.mark.parametrize(
    ("content", "line"),
    [
        (STRAY, 2),
        ('id,text\n1,one\n2,"Marta', 3),
        ('id,text\n1,one\n2,"two\n3,three\n4,four\n', 3),
        ('id,text\n1,"Aspirin" for Marta\n', 2),
        ('id,text\n"1,one\n2,two\n', 2),
        ('"id,text\n1,one\n', 1),
    ],
)
def test_a_quotation_mark_that_does_not_close_is_an_error_with_its_line(
    run, tmp_path, command, content, line
):
    (tmp_path / "notes.csv").write_text(content)
    message = error_line(run(command, "notes.csv", output_of(command)))
    assert message.startswith(f"notes.csv:{line}: a quotation mark opens a field here")
    assert "Marta" not in message and "--quoting none" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.csv"]


@pytest.mark.slow(least=3)
@BOTH
@pytest.mark.parametrize(
    "lines",
    [
        '1,"Marta\n2,two"\n3,"a\nb"\n',
        '1,"fever, Marta\n2,two\n3,three"\n4,four\n',
        '1,"Marta\n\n2,two"\n',
        '1,"Marta\r2,two"\n',
        'P-001,"Marta, Ana\nP-002,two"\n',
        'Ana,"Marta, Ana\nLuis,two"\n',
        'Ana,"\nLuis,two\n\nEva,three"\n',
        '"Sanz, Ana","Marta\nLuis,two, or three\nEva,x"\n',
        '"Marta, Ana,1\ntwo,2\nthree",3\n',
        '3f45d188-79,"1,5 mg\n6c2ffdcb-56,Marta"\n',
    ],
)
def test_marks_that_may_belong_to_two_records_are_told(run, tmp_path, command, lines):
    (tmp_path / "notes.csv").write_text("id,text\n" + lines, newline="")
    result = run(command, "notes.csv", output_of(command))
    assert result.exit_code == 0
    assert result.stderr.startswith("⚠ notes.csv:2: a quoted field of several lines, each of which")
    assert "(1 in the file)" in result.stderr
    cleaned = run("clean", "notes.csv", "--output", "clean.txt", "--lang", "es")
    assert "notes.csv:2: a quoted field of several lines" in cleaned.stderr


@BOTH
@pytest.mark.parametrize("option", [("--delimiter", ";"), ("--quoting", "none")])
def test_options_of_csv_are_an_error_elsewhere(run, tmp_path, command, option):
    (tmp_path / "notes.jsonl").write_text('{"text": "Marta"}\n')
    result = run(command, "notes.jsonl", output_of(command, "jsonl"), *option)
    assert error_line(result).startswith(
        f"notes.jsonl: has no .csv or .tsv file; leave out {option[0]}"
    )


@BOTH
def test_a_note_of_several_lines_is_not_doubtful(run, tmp_path, command):
    note = '1,"Marta, sin fiebre.\r\n1. aspirina, 2 veces\r\nNa 140, K 4\r\n3, 4 y 5"\r\n'
    (tmp_path / "notes.csv").write_text("id,text\r\n" + note, newline="")
    result = run(command, "notes.csv", output_of(command))
    assert (result.exit_code, result.stderr) == (0, "")


@BOTH
@pytest.mark.parametrize(
    "content", ["1,Marta Sanz ingresa\n2,x\n", "Marta Sanz tose.\nx\n", "n 7,Marta,Marta\n"]
)
def test_a_first_line_that_may_be_a_record_is_not_shown(run, tmp_path, command, content):
    (tmp_path / "notes.csv").write_text(content)
    message = error_line(run(command, "notes.csv", output_of(command)))
    assert message.startswith("notes.csv: ") and "Sanz" not in message
    (tmp_path / "notes.csv").write_text("Marta Sanz,Marta Sanz\n")
    assert "Sanz" not in error_line(run(command, "notes.csv", output_of(command)))


@BOTH
@pytest.mark.parametrize("option", ["--text-column", "--patient-column", "--keep"])
def test_texts_have_no_columns(run, tmp_path, command, option):
    (tmp_path / "notes.txt").write_text("Marta\n")
    output = "out.fhir.ndjson" if command == "annotate" else "out.txt"
    message = error_line(run(command, "notes.txt", output, option, "note"))
    assert message.endswith(f": has no columns; leave out {option}") or "--keep" in message


@BOTH
def test_without_quoting_each_line_is_a_record(run, tmp_path, command):
    (tmp_path / "notes.csv").write_text(STRAY)
    result = run(command, "notes.csv", output_of(command), "--quoting", "none")
    assert result.exit_code == 0, result.output
    assert "5 records were read" in result.output or ": 5 documents" in result.output
    if command == "deidentify":
        lines = (tmp_path / "out.csv").read_text().splitlines()
        assert lines == ["text", '"[NOMBRE] opens', "two", '"three" closes', "four", "five"]
    else:
        assert count_records(tmp_path / "out.jsonl") == 5


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text\r\nMarta, ayer\r\n"),
        ("a.txt", "Marta\r\nMarta\r\n"),
        ("a.jsonl", '{"text": "Marta"}\r\n'),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_line_ends_and_byte_order_mark_stay(run, tmp_path, name, content, encoding):
    # Excel takes a CSV file in UTF-8 without the mark for another encoding.
    (tmp_path / name).write_bytes(content.encode(encoding))
    options = ["--encoding", "utf-16"] if encoding == "utf-16" else []
    options += ["--delimiter", ";"] if name == "a.csv" else []
    assert run("deidentify", name, f"out-{name}", *options).exit_code == 0
    expected = content.replace("Marta", "[NOMBRE]").encode(encoding)
    assert (tmp_path / f"out-{name}").read_bytes() == expected


def test_the_text_of_a_field_is_copied_with_its_line_ends_and_quotes(run, tmp_path):
    texts = ["Marta\r\nalta\r\n", "a\rMarta\r", '"Aspirin" for Marta', "end\r", "x\n\ny", ""]
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "n"], *([text, n] for n, text in enumerate(texts))])
    replaced = [text.replace("Marta", "[NOMBRE]") for text in texts]
    options = ["--keep", "n", "--annotations", "found.jsonl"]
    assert run("deidentify", "notes.csv", "out.csv", *options).exit_code == 0
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == replaced
    for line in (tmp_path / "found.jsonl").read_text().splitlines():
        row = json.loads(line)
        for one in row["replacements"]:
            assert texts[int(row["n"])][one["start"] : one["end"]] == "Marta"


def test_a_quotation_mark_that_closes_within_a_field_of_tsv_stays(run, tmp_path):
    (tmp_path / "notes.tsv").write_text('id\ttext\n1\t"Aspirin" for Marta\n2\t"a\tb"\n')
    assert run("deidentify", "notes.tsv", "out.tsv").exit_code == 0
    with (tmp_path / "out.tsv").open(newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file, delimiter="\t")]
    assert texts == ['"Aspirin" for [NOMBRE]', "a\tb"]


@BOTH
def test_the_csv_of_a_spanish_excel_is_read_and_written(run, tmp_path, command):
    content = 'id;text\r\n1;"Marta, náuseas; vómitos"\r\n2;año\r\n'.encode("cp1252")
    (tmp_path / "notes.csv").write_bytes(content)
    options = ["--delimiter", ";", "--encoding", "cp1252"]
    result = run(command, "notes.csv", output_of(command), *options)
    assert result.exit_code == 0, result.output
    if command == "deidentify":
        written = (tmp_path / "out.csv").read_bytes().decode("cp1252")
        assert written == 'text\r\n"[NOMBRE], náuseas; vómitos"\r\naño\r\n'
    else:
        (entity,) = json.loads((tmp_path / "out.jsonl/part-00000.jsonl").open().readline())[
            "entities"
        ]
        assert (entity["start"], entity["end"]) == (0, 5)
    assert "no column text, but id;text" in error_line(run(command, "notes.csv", "o.csv"))


@BOTH
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"id,text,text\n1,a,b\n"),
        ("a.tsv", b"text\tid\tid\na\tb\tc\n"),
        ("a.jsonl", b'{"text": "a", "text": "b"}\n'),
        ("a.json", b'[{"text": "a", "x": 1, "x": 2}]'),
    ],
)
def test_two_columns_or_fields_of_one_name_are_an_error(run, tmp_path, command, name, content):
    (tmp_path / name).write_bytes(content)
    message = error_line(run(command, name, output_of(command, name.partition(".")[2])))
    assert "two columns are named" in message or "have one name" in message


@BOTH
def test_two_columns_of_parquet_of_one_name_are_an_error(run, tmp_path, command):
    table = pa.table([["a"], ["b"]], names=["text", "text"])
    pq.write_table(table, tmp_path / "a.parquet")
    message = error_line(run(command, "a.parquet", "out.parquet"))
    assert message.startswith("a.parquet: two columns are named text")


# Encodings and line ends


@pytest.mark.slow(least=10)
@BOTH
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "a.jsonl", "a.json"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16_is_refused_or_read_with_its_encoding(run, tmp_path, command, name, encoding):
    kinds = {"a.txt": "Marta\nnada\n", "a.jsonl": '{"text": "Marta"}\n{"text": "nada"}\n'}
    kinds["a.json"] = '[{"text": "Marta"}, {"text": "nada"}]'
    content = kinds.get(name, "text\nMarta\nnada\n")
    (tmp_path / name).write_bytes(content.encode(encoding))
    output = output_of(command, name.partition(".")[2])
    message = error_line(run(command, name, output))
    assert "--encoding" in message and message.startswith(name)
    result = run(command, name, output, "--encoding", encoding)
    assert result.exit_code == 0, result.output
    if command == "deidentify":
        assert (tmp_path / output).read_bytes().decode(encoding).count("[NOMBRE]") == 1
    else:
        assert (tmp_path / "out.jsonl" / "part-00000.jsonl").read_text().count("NOMBRE") == 1


@BOTH
@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.pubtator"])
def test_lines_that_end_in_cr_alone_are_refused(run, tmp_path, command, name):
    if name == "a.pubtator" and command == "deidentify":
        pytest.skip("the command does not write it")
    (tmp_path / name).write_bytes(b"1|t|text\r1|a|Marta\r2|t|two\r")
    message = error_line(run(command, name, output_of(command, name.partition(".")[2])))
    assert "lines end in CR alone" in message


@BOTH
def test_one_note_in_another_encoding_does_not_stop_the_others(run, tmp_path, command):
    (tmp_path / "notes").mkdir()
    for number in range(30):
        (tmp_path / "notes" / f"{number:02}.txt").write_bytes(
            b"Marta, n\xe1useas" if number == 7 else b"Marta"
        )
    output = "out.jsonl" if command == "annotate" else "out"
    message = error_line(run(command, "notes", output))
    assert "1 of 30 documents failed, the others are done: 07" in message
    assert "not UTF-8 (byte 9 of the file" in message
    assert count_records(tmp_path / output) == 29
    listed = "out.jsonl/_errors.jsonl" if command == "annotate" else "out.errors.jsonl"
    (failed,) = [json.loads(line) for line in (tmp_path / listed).read_text().splitlines()]
    assert failed["id"].startswith("07") and "náuseas" not in failed["reason"]
    assert run(command, "notes", output, "--max-errors", 1).exit_code == 0
    other = "all.jsonl" if command == "annotate" else "all"
    assert run(command, "notes", other, "--encoding", "latin-1").exit_code == 0
    assert count_records(tmp_path / other) == 30


@BOTH
def test_if_all_documents_fail_nothing_is_said_to_be_written(run, tmp_path, command):
    pq.write_table(pa.table({"text": pa.array([None, None], pa.string())}), tmp_path / "a.parquet")
    result = run(command, "a.parquet", "out.parquet", "--max-errors", 5)
    assert "all 2 failed: a.parquet:1: no text in the column text" in error_line(result)
    assert "Wrote" not in result.output


# Identifiers and columns


def test_identifiers_of_all_formats_follow_one_rule(run, tmp_path):
    ids = [17, 17.0, "n", None, "", float("nan"), 0.5]
    rows = [{"id": id, "text": "Marta"} for id in ids]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a.json").write_text(json.dumps(rows))
    numbers = pa.table({"id": [17.0, None, float("nan"), 0.5], "text": ["Marta"] * 4})
    pq.write_table(numbers, tmp_path / "a.parquet")
    for name, options in [("a.jsonl", []), ("a.json", ["--id-column", "id"])]:
        assert run("annotate", name, f"{name}.jsonl", *options).exit_code == 0
        lines = (tmp_path / f"{name}.jsonl" / "part-00000.jsonl").read_text().splitlines()
        found = [json.loads(line)["id"] for line in lines]
        assert found == ["17", "17", "n", f"{name}:4", f"{name}:5", f"{name}:6", "0.5"]
    for options in ([], ["--id-column", "id"]):
        assert run("annotate", "a.parquet", f"out{len(options)}", *options).exit_code == 0
        table = pq.read_table(tmp_path / f"out{len(options)}" / "documents")
        assert table["id"].to_pylist() == ["17", "a.parquet:2", "a.parquet:3", "0.5"]


@BOTH
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.json", "a.parquet", "a.txt"])
def test_a_column_to_keep_that_does_not_exist_is_refused(run, tmp_path, command, name):
    contents = {"a.csv": "text\na\n", "a.jsonl": '{"text": "a"}\n', "a.json": '[{"text": "a"}]'}
    if name == "a.parquet":
        pq.write_table(pa.table({"text": ["a"]}), tmp_path / name)
    else:
        (tmp_path / name).write_text(contents.get(name, "a\n"))
    output = output_of(command, name.partition(".")[2])
    message = error_line(run(command, name, output, "--keep", "nope"))
    assert message.startswith(f"{name}: ") and "--keep" in message


def test_kept_columns_are_in_the_documents_of_annotate(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Marta", "ward": 3, "x": null}\n{"text": "b"}\n')
    for output in ("out.parquet", "out.csv", "out.jsonl", "out.prodigy", "out.label_studio"):
        result = run("annotate", "a.jsonl", output, "--keep", "ward", "--keep", "x")
        assert result.exit_code == 0, result.output
    assert pq.read_table("out.parquet/documents")["ward"].to_pylist() == ["3", None]
    with open("out.csv/documents/part-00000.csv", newline="") as file:
        assert [row["ward"] for row in csv.DictReader(file)] == ["3", ""]
    first = json.loads(Path("out.jsonl/part-00000.jsonl").read_text().splitlines()[0])
    assert (first["ward"], first["x"]) == (3, None)
    assert (
        json.loads(Path("out.prodigy/part-00000.jsonl").read_text().splitlines()[0])["meta"]["ward"]
        == 3
    )
    (task, _) = json.loads(Path("out.label_studio/part-00000.json").read_text())
    assert task["data"]["ward"] == 3
    for output, name in [("out.brat", "ward"), ("o.jsonl", "entities"), ("o.jsonl", "text")]:
        assert f"--keep {name}" in error_line(run("annotate", "a.jsonl", output, "--keep", name))


def test_kept_values_without_a_form_in_a_format_are_their_text(run, tmp_path):
    dated = pa.table({"text": ["Marta"], "x": [date(2026, 1, 31)], "y": [Decimal("1.50")]})
    pq.write_table(dated, tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"text": "Marta", "x": 100000000000000000000, "y": [1.5]}')
    cases = [("a.parquet", "2026-01-31", "1.50", "1.50")]
    cases.append(("b.jsonl", "100000000000000000000", "[1.5]", (1.5,)))
    for source, x, y, stored in cases:
        for ending in ("parquet", "csv", "spacy"):
            result = run("annotate", source, f"{source}.{ending}", "--keep", "x", "--keep", "y")
            assert result.exit_code == 0, result.output
        (row,) = pq.read_table(f"{source}.parquet/documents").to_pylist()
        assert (row["x"], row["y"]) == (x, y)
        with open(f"{source}.csv/documents/part-00000.csv", newline="") as file:
            (row,) = csv.DictReader(file)
        assert (row["x"], row["y"]) == (x, y)
        (doc,) = read_docs(tmp_path / f"{source}.spacy/part-00000.spacy", Vocab())
        assert (doc.user_data["x"], doc.user_data["y"]) == (x, stored)


def test_an_identifier_of_a_doc_may_be_zero(run, tmp_path):
    docs = [spacy.blank("en")("Marta") for _ in range(3)]
    for doc, id in zip(docs, [0, 17, ""], strict=True):
        doc.user_data["document_id"] = id
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "a.spacy")
    assert run("annotate", "a.spacy", "out.jsonl").exit_code == 0
    lines = (tmp_path / "out.jsonl" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["0", "17", "a.spacy:3"]


def test_what_was_not_found_is_counted_too(run, tmp_path):
    (tmp_path / "a.txt").write_text("nobody\n")
    assert "entities: 0\n" in run("annotate", "a.txt", "out").output


# Texts and paths


def test_a_path_in_place_of_a_text_is_read(run, tmp_path):
    (tmp_path / "notes.txt").write_text("Marta\nnada, Marta\n")
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "1.txt").write_text("Marta")
    assert run("annotate", "notes.txt").output.count("Marta [NOMBRE]") == 2
    assert run("annotate", "ward").output.count("Marta [NOMBRE]") == 1
    paths = ["gone.txt", "./gone", "../a/gone", "/data/gone", "ward/gone.jsonl.gz", "gone/"]
    for path in [*paths, "my notes.pdf", "C:\\data\\gone"]:
        assert error_line(run("annotate", path)).startswith(f"{path}: no such file or folder")
    for text in ("Marta", "TA 120/80", "12/03/2019", "Dr.Marta", "Fin de la nota.", "and/or"):
        assert run("annotate", text).exit_code == 0
    (tmp_path / "notes.pdf").write_bytes(b"%PDF")
    assert "the ending of the name is unknown" in error_line(run("annotate", "notes.pdf"))


def test_the_root_of_parquet_tables_cannot_be_read_as_one(run, tmp_path):
    (tmp_path / "a.txt").write_text("Marta\n")
    output = run("annotate", "a.txt", "out.parquet").output
    assert output.splitlines()[0].endswith('pandas.read_parquet("out.parquet/entities")')
    assert pq.read_table("out.parquet/entities").num_rows == 1
    with pytest.raises(pa.ArrowInvalid, match=r"READ_ONE_TABLE\.md"):
        pq.read_table("out.parquet")


def test_a_file_of_code_is_imported_before_the_pipeline(run, finder, tmp_path):
    (tmp_path / "own.py").write_text(CODE)
    (tmp_path / "a.txt").write_text("Marta\n")
    nlp = spacy.load(finder)
    import_code(tmp_path / "own.py")
    nlp.add_pipe("test_own_code")
    nlp.to_disk(tmp_path / "own")
    for command, output in [("annotate", "out.jsonl"), ("deidentify", "out.txt")]:
        result = run(command, "a.txt", output, "--code", "own.py", pipeline=tmp_path / "own")
        assert result.exit_code == 0, result.output
    (tmp_path / "bad.py").write_text("1 / 0")
    message = error_line(run("annotate", "a.txt", "o", "--code", "bad.py"))
    assert message.startswith("--code bad.py: cannot be imported (ZeroDivisionError")


# Records that vanish


PUBTATOR = {
    "second line of an abstract": "1|t|Marta\n1|a|one\nmore of it\n",
    "capital": "1|T|Marta\n1|a|one\n",
    "tab in the identifier": "1\t|t|Marta\n1|a|one\n",
    "mention of another document": "1|t|Marta\n1|a|one\n3\t0\t5\tMarta\tX\n",
    "text before": "Marta\n\n1|t|one\n",
}


@pytest.mark.parametrize("content", PUBTATOR.values(), ids=PUBTATOR)
def test_what_the_reader_of_corpora_refuses_in_pubtator_is_an_error(run, tmp_path, content):
    (tmp_path / "a.pubtator").write_text(content + "\n2|t|Marta two\n2|a|good\n")
    message = error_line(run("annotate", "a.pubtator", "out.jsonl"))
    assert "a.pubtator:1: a line that is not a title, abstract" in message
    assert "Marta" not in message
    lines = (tmp_path / "out.jsonl/part-00000.jsonl").read_text().splitlines()
    assert "2" in [json.loads(line)["id"] for line in lines]


def make_ward(folder: Path) -> dict[str, str]:
    """A folder with a note and what cannot be read; return the latter with the reason."""
    (folder / "ward" / "b").mkdir(parents=True)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "2.txt").write_text("Marta")
    (folder / "ward" / "b" / "1.txt").write_text("Marta vino a la consulta ayer.\n")
    (folder / "ward" / "gone.txt").symlink_to("nowhere")
    (folder / "ward" / "linked").symlink_to("../elsewhere")
    os.mkfifo(folder / "ward" / "pipe.txt")
    return {"gone": "leads nowhere", "linked": "link to a folder", "pipe": "not a regular file"}


@BOTH
def test_what_cannot_be_read_in_a_folder_is_an_error(run, tmp_path, command):
    expected = make_ward(tmp_path)
    output = "out.jsonl" if command == "annotate" else "out"
    assert "3 of 4 documents failed" in error_line(run(command, "ward", output))
    listed = "out.jsonl/_errors.jsonl" if command == "annotate" else "out.errors.jsonl"
    failed = [json.loads(line) for line in (tmp_path / listed).read_text().splitlines()]
    found = {one["id"].removesuffix(".txt"): one["reason"] for one in failed}
    assert found.keys() == expected.keys()
    assert all(reason in found[name] for name, reason in expected.items())
    assert count_records(tmp_path / output) == 1


def test_what_cannot_be_read_in_a_folder_stops_cleaning(run, tmp_path):
    make_ward(tmp_path)
    message = error_line(run("clean", "ward", "--output", "out.txt", "--lang", "es"))
    assert message.startswith("ward/gone.txt: a link that leads nowhere")


@pytest.mark.parametrize("command", ["annotate", "deidentify", "clean"])
def test_what_a_folder_has_besides_texts_is_counted_by_ending(run, tmp_path, command):
    (tmp_path / "ward" / "b").mkdir(parents=True)
    text = "Marta vino a la consulta ayer por la tarde con fiebre."
    for name in ("1.txt", "b/2.TXT", "3.txt.gz"):
        content = gzip.compress(text.encode()) if name.endswith("gz") else text.encode()
        (tmp_path / "ward" / name).write_bytes(content)
    others = ["1.RTF", "b/2.rtf", "b/c.docx", "of 3 May.Marta Ruiz", "none"]
    for name in [*others, ".hidden.rtf", "_SUCCESS", "~$c.docx"]:
        (tmp_path / "ward" / name).write_bytes(b"x")
    outputs = {"annotate": ["out.jsonl"], "clean": ["--output", "out.txt", "--lang", "es"]}
    result = run(command, "ward", *outputs.get(command, ["out"]))
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stderr.splitlines() if line.startswith("⚠ ward: "))
    counted = line.partition("endings: ")[2].split(", ")
    assert sorted(counted) == ["1 .docx", "2 .rtf", "2 others"]


@BOTH
def test_a_subfolder_that_cannot_be_read_is_an_error(run, tmp_path, monkeypatch, command):
    (tmp_path / "ward" / "closed").mkdir(parents=True)
    (tmp_path / "ward" / "1.txt").write_text("Marta")
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("spacy_biomed.files.folders.os.scandir", refuse)
    output = "out.jsonl" if command == "annotate" else "out"
    message = error_line(run(command, "ward", output))
    assert "closed: cannot be read: Permission denied" in message


@BOTH
def test_compressed_notes_of_a_folder_are_a_document_each(run, tmp_path, command):
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "1.txt.gz").write_bytes(gzip.compress(b"Marta\nMarta\n"))
    (tmp_path / "ward" / "2.txt").write_bytes(b"Marta\n\nfin")
    if command == "annotate":
        assert run(command, "ward", "out.jsonl").exit_code == 0
        lines = (tmp_path / "out.jsonl/part-00000.jsonl").read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines] == ["1", "2"]
    else:
        assert run(command, "ward", "out").exit_code == 0
        copied = gzip.decompress((tmp_path / "out" / "1.txt.gz").read_bytes())
        assert copied == b"[NOMBRE]\n[NOMBRE]\n"


@pytest.mark.parametrize("output", ["out.jsonl", "out.parquet", "out.brat", "out.spacy"])
def test_a_file_name_that_is_not_utf8_is_listed_by_its_bytes(run, tmp_path, output):
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "1.txt").write_text("Marta")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/ward/mar\xeda.txt")).write_text("Marta")
    except OSError:
        pytest.skip("this file system has only names in UTF-8")
    assert "mar\\xeda: a name that is not UTF-8" in error_line(run("annotate", "ward", output))
    (failed,) = (tmp_path / output / "_errors.jsonl").read_text().splitlines()
    assert json.loads(failed)["id"] == "mar\\xeda"


# What is written


@BOTH
def test_a_foreign_output_is_refused_before_the_work(run, tmp_path, monkeypatch, command):
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "1.txt").write_text("Marta")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    monkeypatch.setattr("spacy_biomed.bulk.shards.ShardAnnotator.annotate", None)
    assert error_line(run(command, "ward", "mine")).startswith("mine: holds files that")
    assert (tmp_path / "mine" / "file").read_text() == "x"


def test_a_list_of_failed_documents_replaces_only_its_like(run, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Marta"}\n{"text": 1}\n')
    (tmp_path / "out.jsonl.errors.jsonl").write_text('{"mine": 1}\n')
    message = error_line(run("deidentify", "a.jsonl", "out.jsonl"))
    assert message.startswith("out.jsonl.errors.jsonl: ")
    (tmp_path / "out.jsonl.errors.jsonl").unlink()
    assert run("deidentify", "a.jsonl", "out.jsonl").exit_code == 1
    (tmp_path / "a.jsonl").write_text('{"text": "Marta"}\n')
    assert run("deidentify", "a.jsonl", "out.jsonl").exit_code == 0
    assert not (tmp_path / "out.jsonl.errors.jsonl").exists()


def test_cleaning_replaces_its_own_report_alone(run, tmp_path):
    (tmp_path / "a.txt").write_text(
        "La paciente vino a la consulta ayer por la tarde con su hija.\n"
    )
    (tmp_path / "mine.report.json").write_text('{"mine": 1}')
    use = ["clean", "a.txt", "--output", "mine.txt", "--lang", "es"]
    assert error_line(run(*use)).startswith("mine.report.json: ")
    assert (tmp_path / "mine.report.json").read_text() == '{"mine": 1}'
    (tmp_path / "mine.report.json").unlink()
    assert run(*use).exit_code == 0 and run(*use).exit_code == 0


# What would be lost or merged


@pytest.mark.slow(least=4)
@BOTH
@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("damage", ["empty", "second member", "junk"])
def test_damage_behind_compressed_records_is_an_error(run, tmp_path, command, ending, damage):
    compress = {
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
    }[ending]
    first, second = compress(b"id,text\n1,Marta\n"), compress(b"2,two\n")
    content = {
        "empty": b"",
        "second member": first + b"?" + second[1:],
        "junk": first + b"junk",
    }[damage]
    (tmp_path / f"notes.csv{ending}").write_bytes(content)
    message = error_line(run(command, f"notes.csv{ending}", output_of(command)))
    assert message.startswith(f"notes.csv{ending}: cannot be read")
    (tmp_path / f"notes.csv{ending}").write_bytes(first + second)
    assert run(command, f"notes.csv{ending}", output_of(command)).exit_code == 0
    assert count_records(tmp_path / output_of(command)) == 2


@BOTH
def test_notes_in_other_compression_are_listed(run, tmp_path, command):
    (tmp_path / "notes").mkdir()
    for name in ("a.txt", "b.txt.bz2", "c.txt.ZIP", "d.pdf.zip"):
        (tmp_path / "notes" / name).write_text("Marta")
    output = "out.jsonl" if command == "annotate" else "out"
    result = run(command, "notes", output)
    unread, message = result.stderr.splitlines()
    assert result.exit_code == 1 and unread.endswith("endings: 1 .zip")
    assert message.startswith(f"✘ {output}: 2 of 3 documents failed") and "b.txt" in message
    assert "compressed in a form that is not read here: unpack it" in message


def test_clean_refuses_files_in_other_compression(run, tmp_path):
    (tmp_path / "notes").mkdir()
    for name in ("a.txt", "b.txt.bz2"):
        (tmp_path / "notes" / name).write_text("Marta")
    message = error_line(run("clean", "notes", "--output", "clean.txt", "--lang", "es"))
    assert message.startswith("notes/b.txt.bz2: compressed in a form")


@BOTH
def test_notes_whose_names_begin_with_a_line_are_read(run, tmp_path, command):
    (tmp_path / "notes" / "_b").mkdir(parents=True)
    for name in ("_a.txt", "_b/c.txt"):
        (tmp_path / "notes" / name).write_text("Marta")
    output = "out.jsonl" if command == "annotate" else "out"
    assert run(command, "notes", output).exit_code == 0
    assert count_records(tmp_path / output) == 2


def test_notes_of_one_name_and_two_endings_have_two_identifiers(run, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("one")
    (tmp_path / "notes" / "a.txt.gz").write_bytes(gzip.compress(b"two"))
    (tmp_path / "notes" / "b.txt").write_text("three")
    assert run("annotate", "notes", "out.jsonl").exit_code == 0
    lines = (tmp_path / "out.jsonl" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a.txt", "a.txt.gz", "b"]


@BOTH
def test_byte_order_marks_of_a_file_that_was_saved_twice_are_no_text(run, tmp_path, command):
    (tmp_path / "notes.csv").write_bytes(b"\xef\xbb\xbf" * 2 + b"id,text\n7,Marta\n")
    options = ["--keep", "id"] if command == "deidentify" else []
    assert run(command, "notes.csv", output_of(command), *options).exit_code == 0
    if command == "deidentify":
        assert (tmp_path / "out.csv").read_text("utf-8-sig") == "id,text\n7,[NOMBRE]\n"
    else:
        part = tmp_path / "out.jsonl" / "part-00000.jsonl"
        assert json.loads(part.read_text())["id"] == "7"


@BOTH
@pytest.mark.parametrize("encoding", ["idna", "punycode", "base64", "rot13", "undefined"])
def test_an_encoding_that_no_file_has_is_refused(run, tmp_path, command, encoding):
    (tmp_path / "notes.csv").write_text("id,text\n1,Marta\n")
    message = error_line(run(command, "notes.csv", output_of(command), "--encoding", encoding))
    assert message.startswith(f"--encoding '{encoding}': unknown")


@BOTH
@pytest.mark.parametrize(
    ("content", "told"),
    [("", "has no header"), ("id;text\n1;Marta\n", "or the character between fields with --delim")],
)
def test_a_header_without_the_columns_is_explained(run, tmp_path, command, content, told):
    (tmp_path / "notes.csv").write_text(content)
    assert told in error_line(run(command, "notes.csv", output_of(command)))


def test_a_column_that_is_named_twice_is_kept_once(run, tmp_path):
    (tmp_path / "notes.csv").write_text("id,text\n1,Marta\n")
    assert run("deidentify", "notes.csv", "out.csv", *["--keep", "id"] * 2).exit_code == 0
    assert (tmp_path / "out.csv").read_text() == "id,text\n1,[NOMBRE]\n"


@pytest.mark.parametrize("option", ["--secret-file", "--code", "--vault-key-file"])
def test_deidentify_writes_over_no_file_that_it_reads(run, tmp_path, option):
    (tmp_path / "notes.csv").write_text("id,text\n1,Marta\n")
    (tmp_path / "key.csv").write_text("mine")
    for options in (["key.csv"], ["out.csv", "--annotations", "key.csv"]):
        message = error_line(run("deidentify", "notes.csv", *options, option, "key.csv"))
        assert message.startswith("key.csv: this is what is read")
    assert (tmp_path / "key.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["out.csv.errors.jsonl", "out.csv.shards"])
def test_annotations_are_not_written_where_deidentify_writes_besides(run, tmp_path, name):
    (tmp_path / "notes.csv").write_text("id,text\n1,Marta\n")
    message = error_line(run("deidentify", "notes.csv", "out.csv", "--annotations", name))
    assert message.startswith(f"{name}: this is what is read or written besides")


def test_a_kind_of_a_label_that_is_named_like_another_is_refused(run, tmp_path):
    (tmp_path / "notes.csv").write_text("id,text\n1,Marta\n")
    options = ["--kind", "NOMBRES=date"]
    message = error_line(run("deidentify", "notes.csv", "out.csv", *options))
    assert message.endswith("no such label; did you mean NOMBRE?")
    assert run("deidentify", "notes.csv", "out.csv", "--kind", "TWIN=name").exit_code == 0


def test_more_words_at_least_than_at_most_are_refused(run, tmp_path):
    (tmp_path / "notes.txt").write_text("Marta\n")
    options = ["--output", "clean.txt", "--lang", "es", "--min-words", "9", "--max-words", "2"]
    message = error_line(run("clean", "notes.txt", *options))
    assert message == "--min-words 9 is above --max-words 2: swap them"
