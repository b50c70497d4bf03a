import pytest
from refusals import refused

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import (
    Document,
    Mention,
    check_mention,
    create_pair,
    join_fragments,
    list_files,
    number_lines,
    read_lines,
    read_text,
)


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


def test_lines_of_white_space_are_skipped_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\n \t\ntwo\n")
    assert list(number_lines(path)) == [(1, "one"), (4, "two")]


def test_a_mention_is_moved_with_all_its_fragments_and_reads_as_they_stand_in_the_text():
    mention = Mention("D", ((0, 4), (9, 15)), "T1", {"note": "sure"})
    moved = mention.move(3)
    assert moved == Mention("D", ((3, 7), (12, 18)), "T1", {"note": "sure"})
    assert moved.read("An lung and cancer.") == "lung cancer"


def test_texts_are_appended_to_a_document_with_a_space_between():
    document = Document("1", "")
    assert [document.append(text) for text in ("One.", "", "Two.")] == [(0, 4), (5, 5), (6, 10)]
    assert document.text == "One.  Two."


def test_files_are_listed_below_a_folder_in_order_and_without_hidden_ones(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "sub/a.txt", "._b.txt", "c.ann"):
        (tmp_path / name).write_text("x")
    names = [file.relative_to(tmp_path).as_posix() for file in list_files(tmp_path, (".txt",))]
    assert names == ["b.txt", "sub/a.txt"]
    with pytest.raises(BiomedError, match=r"no \.xml file in this folder"):
        list_files(tmp_path, (".xml",))


def test_what_a_run_notes_beside_its_results_is_no_document(tmp_path):
    for name in ("_manifest.json", "_finished.jsonl", "_errors.jsonl", "_other.json", "part.jsonl"):
        (tmp_path / name).touch()
    found = [file.name for file in list_files(tmp_path, (".json", ".jsonl"))]
    assert found == ["_other.json", "part.jsonl"]


def test_every_error_message_is_one_line():
    with refused():
        check_mention("a\nb", Mention("X", ((0, 3),)), "c\nd", "f:1")


def test_a_pair_is_one_text_with_the_offsets_of_both():
    document = create_pair("1", " One.\n", "Two. ", {"a": 1.0}, "f:3")
    assert document.text == "One.\x1eTwo."
    assert document.pair == ((0, 4), (5, 9))
    assert (document.cats, document.source, document.answers) == ({"a": 1.0}, "f:3", None)


@pytest.mark.parametrize(
    ("first", "second", "may_be_empty", "what"),
    [
        ("a", " ", False, "f:3: the second text of the pair is empty"),
        ("", "b", False, "f:3: the first text of the pair is empty"),
        ("", "", True, "f:3: the first text of the pair is empty"),
        ("a", "b\x1ec", True, r"f:3: .* has U\+001E"),
    ],
)
def test_texts_that_make_no_pair_are_named_with_file_and_line(first, second, may_be_empty, what):
    with pytest.raises(BiomedError, match=what):
        create_pair("1", first, second, None, "f:3", may_be_empty=may_be_empty)


def test_fragments_are_sorted_joined_over_white_space_and_must_not_overlap():
    mention = Mention("X", ((9, 10), (0, 1), (2, 3)))
    assert join_fragments("a b and c d", mention, "f:1").fragments == ((0, 3), (9, 10))
    with pytest.raises(BiomedError, match="f:1: fragments of the mention overlap"):
        join_fragments("a b and c", Mention("X", ((0, 3), (2, 4))), "f:1")


def test_capitals_differ():
    mention = Mention("X", ((0, 4),))
    with pytest.raises(BiomedError, match="f:1: the annotation reads 'lung' but"):
        check_mention("Lung", mention, "lung", "f:1")
