import pytest

from spacy_biomed.corpora.documents import Mention, check_mention, list_files, read_lines, read_text
from spacy_biomed.errors import BiomedError


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BiomedError, match=r"absent\.tsv: no such file"):
        read_text(tmp_path / "absent.tsv")


@pytest.mark.parametrize("content", ["", "\n \r\n", "\ufeff"])
def test_an_empty_file_is_named(tmp_path, content):
    path = tmp_path / "empty.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BiomedError, match=r"empty\.tsv: the file is empty"):
        read_text(path)


def test_a_wrong_encoding_is_named_with_line_and_byte(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("uno\ntumoración".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"latin\.txt:2: the byte at offset 12 is not UTF-8"):
        read_text(path)
    assert read_text(path, "latin-1") == "uno\ntumoración"


def test_an_unknown_encoding_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a")
    with pytest.raises(BiomedError, match="unknown encoding 'utf-9'"):
        read_text(path, "utf-9")


def test_only_line_feeds_end_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffa\u2028b\r\nc\x85d".encode())
    assert read_lines(path) == ["a\u2028b", "c\x85d"]


def test_files_are_listed_below_a_folder_in_order_and_without_hidden_ones(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "sub/a.txt", "._b.txt", "c.ann"):
        (tmp_path / name).write_text("x")
    names = [file.relative_to(tmp_path).as_posix() for file in list_files(tmp_path, (".txt",))]
    assert names == ["b.txt", "sub/a.txt"]
    with pytest.raises(BiomedError, match=r"no \.xml file in this folder"):
        list_files(tmp_path, (".xml",))


def test_every_error_message_is_one_line():
    with pytest.raises(BiomedError) as error:
        check_mention("a\nb", Mention("X", ((0, 3),)), "c\nd", "f:1")
    assert "\n" not in str(error.value)
