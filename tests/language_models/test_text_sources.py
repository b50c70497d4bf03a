"""Reading documents from text files, JSON lines and Parquet."""

import gzip
import lzma
import random
import tracemalloc

import pyarrow
import pytest
from pyarrow import parquet

from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.files import open_binary
from spacy_biomed.language_models.text_sources import read_documents, sample_documents

TEXTS = ["Aspirin reduced the risk.", "Náuseas, vómitos y 39 °C.", "β-catenin\u2028was found."]
JSON_LINES = "".join(
    f'{{"id": {i}, "text": "{text}", "body": "B{i}"}}\n' for i, text in enumerate(TEXTS)
)


def read(*paths, **settings) -> list[str]:
    return list(read_documents(paths, **settings))


def refuse(*paths, **settings) -> str:
    with pytest.raises(BiomedError) as raised:
        read(*paths, **settings)
    message = str(raised.value)
    assert "\n" not in message
    return message


def write(path, content: str, ending: str = ""):
    with open_binary(path, "wb", ending or path.suffix) as file:
        file.write(content.encode("utf8"))
    return path


def write_parquet(path, rows, **settings):
    parquet.write_table(pyarrow.table(rows), path, **settings)
    return path


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
@pytest.mark.parametrize(
    ("ending", "content"), [(".txt", "\n".join(TEXTS)), (".jsonl", JSON_LINES)]
)
def test_each_format_is_read_plain_and_compressed(tmp_path, ending, content, compression):
    path = write(tmp_path / f"texts{ending}{compression}", content)
    plain = content.encode("utf8")
    assert (path.read_bytes() == plain) == (not compression)
    assert read(path) == TEXTS


def test_files_that_others_compressed_are_read(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    (tmp_path / "b.txt.xz").write_bytes(lzma.compress(b"three\n"))
    frames = [pyarrow.compress(text, "zstd", asbytes=True) for text in (b"four\n", b"five\n")]
    (tmp_path / "c.txt.zst").write_bytes(b"".join(frames))
    assert read(tmp_path) == ["one", "two", "three", "four", "five"]


def test_parquet_gives_a_document_for_each_row(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", {"id": [1, 2, 3], "text": TEXTS})
    assert read(path) == TEXTS


def test_a_column_of_categories_is_text_too(tmp_path):
    column = pyarrow.array(["one", "two", "one"]).dictionary_encode()
    path = write_parquet(tmp_path / "t.parquet", {"text": column})
    assert read(path) == ["one", "two", "one"]


def test_the_text_field_can_have_another_name(tmp_path):
    lines = write(tmp_path / "a.jsonl", JSON_LINES)
    table = write_parquet(tmp_path / "b.parquet", {"body": ["B3"], "text": ["no"]})
    assert read(lines, table, text_field="body") == ["B0", "B1", "B2", "B3"]


def test_a_folder_is_read_in_order_of_name_with_what_is_in_its_folders(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    write(tmp_path / "c.TXT", "third")
    write(tmp_path / "b" / "2.jsonl", '{"text": "second"}')
    write(tmp_path / "a.txt.gz", "first")
    write(tmp_path / "README.md", "not text to learn from")
    write(tmp_path / ".hidden.txt", "hidden")
    write(tmp_path / ".git" / "d.txt", "hidden too")
    assert read(tmp_path) == ["first", "second", "third"]
    assert read(tmp_path / "c.TXT", tmp_path / "b") == ["third", "second"]


def test_blank_documents_are_left_out(tmp_path):
    path = write(tmp_path / "a.txt", "one\n\n  \t\ntwo\r\n\r\n")
    lines = write(tmp_path / "b.jsonl", '{"text": " "}\n\n{"text": "three"}\n')
    table = write_parquet(tmp_path / "c.parquet", {"text": ["", "four"]})
    assert read(path, lines, table) == ["one", "two", "three", "four"]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\ntwo".encode())
    assert read(tmp_path / "a.txt") == ["one", "two"]


def test_half_a_surrogate_pair_becomes_a_character_that_can_be_written(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text": "a \\ud83d b \\uD83D\\uDE00"}\n')
    assert read(path) == ["a \ufffd b 😀"]


MANY = [f"Text {i} has " + "words " * (i % 7) for i in range(1000)]


@pytest.fixture
def many(tmp_path):
    return write(tmp_path / "many.txt", "".join(f"{text}\n" for text in MANY))


def test_a_sample_has_so_many_words_from_all_of_the_text_in_its_order(many):
    drawn = [text.strip() for text in sample_documents([many], 600)]
    assert 600 <= sum(len(text.split()) for text in drawn) < 609  # the last has up to nine words
    places = [[text.strip() for text in MANY].index(text) for text in drawn]
    assert places == sorted(places) and places[0] < 100 and places[-1] > 900
    assert 20 < sum(place < 500 for place in places) < len(places) - 20


def test_a_sample_is_the_same_in_another_order_and_another_with_another_seed(many, tmp_path):
    turned = write(tmp_path / "turned.txt", "".join(f"{text}\n" for text in reversed(MANY)))
    drawn = list(sample_documents([many], 600))
    assert list(sample_documents([turned], 600)) == drawn[::-1]
    assert list(sample_documents([many], 600, seed=1)) != drawn


def test_a_sample_of_more_than_there_is_is_all_of_it(many):
    assert list(sample_documents([many], 10**6)) == read(many)
    assert list(sample_documents([write(many.parent / "none.txt", "")], 5)) == []


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.zst", "a.parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    path = tmp_path / name
    texts = ["".join(random.choices("abcdefgh ", k=1000)) for _ in range(10_000)]
    if name.endswith(".parquet"):
        write_parquet(path, {"text": texts}, row_group_size=len(texts))
    else:
        write(path, "".join(f'{{"text": "{t}"}}\n' if "jsonl" in name else f"{t}\n" for t in texts))
    del texts
    before = pyarrow.total_allocated_bytes()
    tracemalloc.start()
    arrow = max(pyarrow.total_allocated_bytes() - before for _ in read_documents([path]))
    python = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert arrow + python < 6_000_000


def test_a_missing_file_is_found_out_before_anything_is_read(tmp_path):
    with pytest.raises(BiomedError, match="gone.txt: no such file or folder"):
        read_documents([write(tmp_path / "a.txt", "one"), tmp_path / "gone.txt"])


@pytest.mark.parametrize("name", ["a.pdf", "a", "a.txt.bz2", "a.parquet.gz", "a.json", "txt"])
def test_an_unknown_ending_is_refused_with_those_that_are_known(tmp_path, name):
    message = refuse(write(tmp_path / name, "one", ending="none"))
    assert message.startswith(f"{tmp_path / name}: not a regular file that ends in")
    assert ".txt, .jsonl" in message


def test_a_folder_without_text_is_refused(tmp_path):
    write(tmp_path / "README.md", "read me")
    assert refuse(tmp_path).startswith(f"{tmp_path}: no text in this folder")


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_what_is_no_json_is_refused_with_its_line(tmp_path, ending):
    path = write(tmp_path / f"a.jsonl{ending}", '{"text": "one"}\n\n{"text": oops}\n')
    assert refuse(path).startswith(f"{path}:3: not JSON (Expecting value")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1, 2]", "2: JSON, but no object"),
        ('{"id": 1, "body": "b"}', "2: no field text, but id, body; name it with --text-column"),
        ("{}", "2: no field text, but none; name it with --text-column"),
        ('{"text": null}', "2: field text is not text; name the field"),
        ('{"text": 1e999}', "2: field text is not text; name the field"),
        ("[" * 100_000, "2: not JSON (nested too deeply)"),
        ('{"text": ["John Smith"]}', "2: field text is not text; name the field"),
    ],
)
def test_a_line_without_text_is_refused_with_its_number(tmp_path, line, message):
    path = write(tmp_path / "a.jsonl", f'{{"text": "one"}}\n{line}\n')
    assert refuse(path).startswith(f"{path}:{message}")


def test_a_parquet_file_without_the_column_is_refused_with_those_it_has(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", {"id": [1], "body": ["b"]})
    assert refuse(path).startswith(f"{path}: no column text, but id, body; name it with")


@pytest.mark.parametrize(("rows", "number"), [(["one", None], 2), ([1, 2], 1)])
def test_a_row_without_text_is_refused_with_its_number(tmp_path, rows, number):
    path = write_parquet(tmp_path / "t.parquet", {"text": rows})
    assert refuse(path).startswith(f"{path}: row {number}: field text is not text; name")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl.xz"])
def test_undecodable_bytes_are_refused_with_line_and_byte(tmp_path, name):
    path = tmp_path / name
    with open_binary(path, "wb", path.suffix) as file:
        file.write(b'{"text": "one"}\n{"text": "v\xf3mitos"}\n')
    assert refuse(path).startswith(f"{path}:2: not UTF-8 (byte 12 of the line")


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("damage", ["cut off", "something else"])
def test_a_damaged_file_is_refused(tmp_path, ending, damage):
    path = write(tmp_path / f"a.txt{ending}", "".join(f"line {i * 7919}\n" for i in range(20_000)))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if damage == "cut off" else b"plain text, not packed")
    message = refuse(path)
    assert message.startswith(f"{path}: cannot be read after line ")
    assert (": cannot be read after line 0 " in message) == (damage == "something else")


def test_what_is_no_parquet_is_refused(tmp_path):
    path = write(tmp_path / "a.parquet", "one\n" * 10)
    assert refuse(path).startswith(f"{path}: cannot be read (Parquet magic bytes")


@pytest.mark.parametrize("name", ["a.txt.zst", "a.parquet"])
def test_without_pyarrow_the_line_says_what_to_install(tmp_path, monkeypatch, name):
    monkeypatch.setattr("spacy_biomed.files.compression.find_spec", lambda name: None)
    (tmp_path / name).write_bytes(b"")
    assert refuse(tmp_path / name) == (
        f"{tmp_path / name}: needs pyarrow: {install_command('train')}"
    )
