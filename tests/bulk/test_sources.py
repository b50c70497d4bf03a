"""Rows of files and folders, by shard."""

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed import BiomedError
from spacy_biomed.files.records import too_long
from spacy_biomed.files.sources import Columns, Item, plan_shards
from spacy_biomed.formats.inputs import find_parts, read_texts

# Commas, quotation marks, line ends and letters of several bytes.
TEXTS = ['Aspirin, 1 "mg"', "line\nline", "náuseas 🙂", " ", "x" * 300, "a\r\nb", "last"]
ROWS = [(f"n{number}", text) for number, text in enumerate(TEXTS)]


def write_jsonl(path: Path, blank: str = "") -> Path:
    lines = (json.dumps({"id": id, "text": text}) + "\n" + blank for id, text in ROWS)
    content = "".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_csv(path: Path) -> Path:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter="\t" if ".tsv" in path.name else ",")
    writer.writerows([("text", "other", "id"), *((text, "o", id) for id, text in ROWS)])
    content = b"\xef\xbb\xbf" + buffer.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_parquet(path: Path, group: int = 1000) -> Path:
    ids, texts = zip(*ROWS, strict=True)
    table = pa.table({"other": [1] * len(ids), "text": list(texts), "id": list(ids)})
    pq.write_table(table, path, row_group_size=group)
    return path


def write_folder(path: Path) -> Path:
    (path / "sub").mkdir(parents=True)
    for id, text in ROWS:
        (path / f"{id}.txt").write_bytes(text.encode())
        (path / f"{id}.ann").write_bytes(b"")
    (path / ".hidden.txt").write_text("no")
    return path


def write_spacy(path: Path) -> Path:
    nlp = spacy.blank("en")
    docs = DocBin(store_user_data=True)
    for id, text in ROWS:
        doc = nlp(text)
        doc.user_data["document_id"] = id
        docs.add(doc)
    docs.to_disk(path)
    return path


def not_utf8(byte: int, where: str = "line") -> str:
    advice = "convert the file to UTF-8, or give its --encoding"
    return f"not UTF-8 (byte {byte} of the {where}: invalid start byte); {advice}"


WRITERS = {
    "notes.jsonl": write_jsonl,
    "blank.ndjson": lambda path: write_jsonl(path, " \n\n"),
    "notes.jsonl.gz": write_jsonl,
    "notes.csv": write_csv,
    "notes.tsv": write_csv,
    "notes.csv.gz": write_csv,
    "notes.parquet": write_parquet,
    "groups.parquet": lambda path: write_parquet(path, group=2),
    "notes.spacy": write_spacy,
    "folder": write_folder,
}


def read_shards(path: Path, size: int, columns: Columns = Columns(), backwards: bool = False):
    parts = find_parts(path, columns)
    shards = plan_shards(parts, size)
    numbers = range(len(shards))
    order = reversed(numbers) if backwards else numbers
    found = {n: list(parts[shards[n].part].read(shards[n])) for n in order}
    return shards, [found[n] for n in numbers]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("name", WRITERS)
def test_each_row_is_in_one_shard_whatever_the_order(tmp_path, name, size, backwards):
    shards, found = read_shards(WRITERS[name](tmp_path / name), size, backwards=backwards)
    assert [item for items in found for item in items] == [Item(*row) for row in ROWS]
    assert [len(items) for items in found] == [shard.rows for shard in shards]
    assert [shard.first for shard in shards] == list(range(0, len(ROWS), size))


def test_shards_with_others_between_them_are_read_alike(tmp_path):
    for name in ("notes.jsonl", "notes.csv.gz", "notes.parquet"):
        (part,) = find_parts(WRITERS[name](tmp_path / name), Columns())
        shards = plan_shards([part], 2)
        items = [item for shard in (shards[0], shards[2]) for item in part.read(shard)]
        assert items == [Item(*ROWS[number]) for number in (0, 1, 4, 5)]


def test_a_folder_of_tables_has_a_part_for_each_file(tmp_path):
    write_jsonl(tmp_path / "b.jsonl")
    write_parquet(tmp_path / "a.parquet")
    (tmp_path / "_SUCCESS.txt").touch()
    shards, found = read_shards(tmp_path, 5)
    assert [(shard.part, shard.row, shard.rows, shard.first) for shard in shards] == [
        (0, 0, 5, 0),
        (0, 5, 2, 5),
        (1, 0, 5, 7),
        (1, 5, 2, 12),
    ]
    assert [item for items in found for item in items] == [Item(*row) for row in ROWS] * 2


def test_a_text_file_has_a_document_on_each_line(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes("\ufeffone\n\ntwo\r\n".encode())
    _, (items,) = read_shards(path, 5)
    assert items == [Item("notes.txt:1", "one"), Item("notes.txt:2", "two")]


PUBTATOR = [
    "1|t|First title.",
    "1|a|An abstract | with bars.",
    "1\t0\t5\tFirst\tX\tC1",
    "1\tCID\tC1\tC2",
    "",
    "2|a|No title.",
    "2\t0\t2\tNo\tX",
    "3|t|Título",
    "",
    "",
    "3|t|the same id",
    "3|a|",
]


@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("name", ["a.pubtator", "a.pubtator.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_titles_and_abstracts_of_pubtator_are_read(tmp_path, size, name, end):
    content = (end.join(PUBTATOR) + end).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    _, found = read_shards(tmp_path / name, size, backwards=True)
    assert [item for items in found for item in items] == [
        Item("1", "First title. An abstract | with bars.", title_length=12),
        Item("2", "No title."),
        Item("3", "Título", title_length=6),
        Item("3", "the same id ", title_length=11),
    ]


def test_pubtator_that_is_not_utf8_is_an_error(tmp_path):
    (tmp_path / "a.pubtator").write_bytes(b"1|t|\xff\n2|t|good\n")
    _, (items,) = read_shards(tmp_path / "a.pubtator", 5)
    assert items == [
        Item("a.pubtator:1", error=not_utf8(5)),
        Item("2", "good", title_length=4),
    ]


def test_columns_are_named(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text('{"id": "x", "note": "Hi", "number": 17}\n')
    _, (items,) = read_shards(path, 5, Columns("note", "number"))
    assert items == [Item("17", "Hi")]


def test_without_an_id_file_and_row_say_which_document_it_is(tmp_path):
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "notes.parquet")
    _, (items,) = read_shards(tmp_path / "notes.parquet", 5)
    assert items == [Item("notes.parquet:1", "a"), Item("notes.parquet:2", "b")]


def test_bad_lines_of_json_are_errors_that_quote_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_MAX_LINE_MB", "1")
    path = tmp_path / "notes.jsonl"
    lines = [b"secret", b'["secret"]', b'{"id": "n2"}', b'{"id": "n3", "text": null}']
    lines += [b'{"text": "\xff"}', b'{"text": "' + b"s" * (1 << 20) + b'"}']
    lines += [b'{"id": "n6", "text": "\\ud800"}', b'{"id": "n7", "text": "good"}']
    path.write_bytes(b"\n".join(lines))
    _, found = read_shards(path, 3)
    each_line = "; put an object on each line"
    assert [item for items in found for item in items] == [
        Item("notes.jsonl:1", error="not JSON (Expecting value at character 1)" + each_line),
        Item("notes.jsonl:2", error="JSON, but no object" + each_line),
        Item("n2", error="no text in the column text"),
        Item("n3", error="no text in the column text"),
        Item("notes.jsonl:5", error=not_utf8(11)),
        Item("notes.jsonl:6", error=too_long("line")),
        Item("n6", error="a text that is not UTF-8, or has half of a surrogate pair"),
        Item("n7", "good"),
    ]


def test_bad_records_of_csv_are_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_MAX_LINE_MB", "1")
    path = tmp_path / "notes.csv"
    records = [b"id,text", b"n1,a,b", b"n2", b"n3,\xff", b"n4," + b"s" * (2 << 20), b"n5,good"]
    path.write_bytes(b"\n".join(records))
    _, found = read_shards(path, 2)
    assert [item for items in found for item in items] == [
        Item("notes.csv:1", error="3 fields and not 2, as the first line has"),
        Item("notes.csv:2", error="1 fields and not 2, as the first line has"),
        Item("notes.csv:3", error=not_utf8(4)),
        Item("notes.csv:4", error=too_long("line")),
        Item("n5", "good"),
    ]


def test_bad_values_of_parquet_are_errors(tmp_path):
    texts = pa.array([b"a", None, b"\xff", None], pa.binary()).view(pa.string())
    table = pa.table({"id": [1, 2, 3, None], "text": texts})
    pq.write_table(table, tmp_path / "notes.parquet")
    _, (items,) = read_shards(tmp_path / "notes.parquet", 5, Columns(id="id"))
    assert items == [
        Item("1", "a"),
        Item("2", error="no text in the column text"),
        Item("3", error="a text that is not UTF-8, or has half of a surrogate pair"),
        Item("notes.parquet:4", error="no text in the column text"),
    ]


def test_bytes_of_parquet_that_are_utf8_are_a_text(tmp_path):
    table = pa.table(
        {"id": [b"n1", b"n2"], "text": ["fiebre áéí".encode(), b"\xff"], "pdf": [b"\xff"] * 2}
    )
    pq.write_table(table, tmp_path / "notes.parquet")
    columns = Columns(id="id", keep=("pdf",))
    _, (items,) = read_shards(tmp_path / "notes.parquet", 5, columns)
    assert items[0] == Item("n1", "fiebre áéí", fields={"pdf": b"\xff"})
    assert items[1] == Item("n2", error="no text in the column text")


def test_a_file_of_a_folder_that_is_not_utf8_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff")
    (tmp_path / "b.txt").write_bytes(b"good")
    _, (items,) = read_shards(tmp_path, 5)
    assert items == [Item("a", error=not_utf8(1, "file")), Item("b", "good")]


@pytest.mark.parametrize("name", WRITERS)
def test_the_checksum_is_of_the_content_and_the_state_of_the_file(tmp_path, name):
    (part,) = find_parts(WRITERS[name](tmp_path / name), Columns())
    before = part.find_state(), part.checksum()
    file = next(part.path.glob("*.txt")) if part.path.is_dir() else part.path
    content = file.read_bytes()
    file.write_bytes(content + b" ")
    assert part.checksum() != before[1]
    assert part.find_state() != before[0]
    file.write_bytes(content)
    assert part.checksum() == before[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.jsonl", None, "no such file or folder"),
        ("notes.docx", b"x", "the ending of the name is unknown"),
        ("notes.parquet.gz", b"x", "the ending of the name is unknown"),
        ("notes.parquet", b"PAR1", "cannot be read"),
        ("notes.csv", b"id,note\n1,a\n", "no column text, but id, note"),
        ("notes.csv", b"", "has no header"),
        ("notes.jsonl.gz", gzip.compress(b"{}\n" * 99, mtime=0)[:-9], "cannot be read"),
    ],
)
def test_an_input_that_cannot_be_read_at_all_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BiomedError, match=message) as caught:
        read_shards(path, 5)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_folder_of_texts_and_tables_is_refused(tmp_path):
    write_folder(tmp_path / "notes")
    write_jsonl(tmp_path / "notes" / "n.jsonl")
    with pytest.raises(BiomedError, match=r"both \.txt files and others"):
        find_parts(tmp_path / "notes", Columns())


def test_a_folder_without_documents_is_refused(tmp_path):
    with pytest.raises(BiomedError, match="no document"):
        find_parts(tmp_path, Columns())


def test_a_column_of_parquet_that_is_missing_is_refused(tmp_path):
    path = write_parquet(tmp_path / "notes.parquet")
    with pytest.raises(BiomedError, match="no column note, but other, text, id"):
        find_parts(path, Columns("note"))
    with pytest.raises(BiomedError, match="name it with --id-column"):
        find_parts(path, Columns("text", "key"))


SENTENCES = ["Aspirin reduced pain.", "No symptoms."]


def test_texts_are_read_from_all_three_kinds_of_files_without_blank_ones(tmp_path):
    nlp = spacy.blank("en")
    DocBin(docs=[nlp(text) for text in [*SENTENCES, " "]]).to_disk(tmp_path / "a.spacy")
    (tmp_path / "a.txt").write_text("\n".join([SENTENCES[0], "", *SENTENCES[1:], ""]))
    lines = [json.dumps({"text": text}) for text in SENTENCES]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for suffix in ("spacy", "txt", "jsonl"):
        assert read_texts(tmp_path / f"a.{suffix}") == SENTENCES


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", "x", "no column text, but x"),
        ("a.docx", "x", "the ending of the name is unknown"),
        ("a.txt", " \n", "no text"),
        ("a.jsonl", '{"text": "x"}\n{"txt": 1}', "a.jsonl: a.jsonl:2: no text in the column text"),
        ("a.spacy", "x", "not a readable .spacy file"),
        ("missing.txt", None, "no such file"),
    ],
)
def test_what_is_no_file_of_texts_is_said_in_one_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(BiomedError, match=message) as caught:
        read_texts(tmp_path / name)
    assert "\n" not in str(caught.value)
