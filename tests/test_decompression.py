"""Small files that decompress to ten gigabytes are refused at once; ordinary files are not."""

import gzip
import lzma
import random
import resource
import time
import zlib
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from spacy_biomed.errors import BiomedError
from spacy_biomed.files import open_binary
from spacy_biomed.files.compression import LINE_VARIABLE, RATIO_VARIABLE
from spacy_biomed.formats.spacy_docs import read_doc_bin
from spacy_biomed.language_models.text_sources import read_documents

GIGABYTE = 2**30
MEMBER = 2**27


def write_bomb(path: Path, content: bytes) -> Path:
    """Write ten gigabytes of the same bytes, by repeating the same member, frame or stream."""
    block = content * (MEMBER // len(content))
    if path.suffix == ".gz":
        member = gzip.compress(block)
    elif path.suffix == ".xz":
        member = lzma.compress(block, preset=0)
    elif path.suffix == ".zst":
        member = pyarrow.Codec("zstd").compress(block, asbytes=True)
    else:
        raise ValueError(path.suffix)
    path.write_bytes(member * (10 * GIGABYTE // MEMBER))
    return path


def write_corpus_bomb(path: Path) -> Path:
    packer = zlib.compressobj(1)
    header = packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(MEMBER)) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(header + block * (10 * GIGABYTE // MEMBER))
    return path


def refuse(read) -> str:
    begin, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BiomedError) as error:
        read()
    assert time.process_time() - begin < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.xz", "a.txt.zst"])
@pytest.mark.parametrize("content", [bytes(8), b'{"text": "a"}\n'])
def test_ten_gigabytes_in_a_small_file_are_refused(tmp_path, name, content):
    path = write_bomb(tmp_path / name, content)
    message = refuse(lambda: sum(1 for _ in read_documents([path])))
    assert message.startswith(f"{path}: becomes over 200 times as large")


def test_ten_gigabytes_in_a_small_corpus_are_refused(tmp_path):
    path = write_corpus_bomb(tmp_path / "train.spacy")
    assert refuse(lambda: read_doc_bin(path)).startswith(f"{path}: becomes over 200 times as large")


def test_a_column_of_one_text_of_many_megabytes_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    indices = pyarrow.array([0] * 10_000, pyarrow.int32())
    column = pyarrow.DictionaryArray.from_arrays(indices, ["x" * 20_000_000])
    parquet.write_table(pyarrow.table({"text": column}), path, compression="gzip")
    message = refuse(lambda: sum(1 for _ in read_documents([path])))
    assert message.startswith(f"{path}: becomes over 200 times as large")


@pytest.mark.slow
def test_the_environment_raises_the_limits(tmp_path, monkeypatch):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one two\n" * 1_000_000))
    assert "set SPACY_BIOMED_MAX_RATIO higher" in refuse(lambda: list(read_documents([path])))
    monkeypatch.setenv(RATIO_VARIABLE, "2000")
    assert sum(1 for _ in read_documents([path])) == 1_000_000


def test_a_line_that_no_document_fills_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(LINE_VARIABLE, "1")
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n" + b"x" * 2**20 + b"\n")
    assert refuse(lambda: list(read_documents([path]))).startswith(f"{path}:2: a line of over 1 MB")
    monkeypatch.setenv(LINE_VARIABLE, "2")
    assert [len(text) for text in read_documents([path])] == [3, 2**20]


@pytest.mark.parametrize("value", ["0", "-1", "many", "1e9", "9" * 5000])
def test_a_limit_that_is_no_number_is_named(tmp_path, monkeypatch, value):
    monkeypatch.setenv(RATIO_VARIABLE, value)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"one"))
    assert refuse(lambda: list(read_documents([path]))).startswith(f"{RATIO_VARIABLE} = '")


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "a.txt.zst"])
def test_much_text_that_repeats_itself_is_read(tmp_path, name):
    """Notes from a template are compressed to a few per cent of their size."""
    template = " ".join(f"{random.getrandbits(64):016x}" for _ in range(50))
    lines = [f"{template} {random.getrandbits(64):016x}\n" for _ in range(40_000)]
    path = tmp_path / name
    with open_binary(path, "wb", path.suffix) as file:
        file.write("".join(lines).encode())
    assert path.stat().st_size * 25 < len(lines) * len(lines[0])
    assert sum(1 for _ in read_documents([path])) == len(lines)
