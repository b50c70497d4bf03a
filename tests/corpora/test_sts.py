import re

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.sts import read_clinical_sts, read_sts

STS = '4.25\tA dog "runs.\tA dog is running. \n\tNot scored.\tLeft out.\n0\tOne.\tTwo.\n'


def read(folder, content, reader=read_sts, name="a.tsv"):
    (folder / name).write_text(content, encoding="utf-8")
    return list(reader(folder / name))


def test_the_score_is_the_similarity_of_the_pair(tmp_path):
    first, second = read(tmp_path, STS)
    assert first.id == "a-1"
    assert [first.text[start:end] for start, end in first.pair] == [
        'A dog "runs.',
        "A dog is running.",
    ]
    assert (first.cats, second.cats) == ({"similarity": 4.25}, {"similarity": 0.0})


def test_pairs_without_a_score_are_left_out_and_lines_still_counted(tmp_path):
    assert [document.source for document in read(tmp_path, STS)] == [
        f"{tmp_path / 'a.tsv'}:1",
        f"{tmp_path / 'a.tsv'}:3",
    ]


HEADER = "\tgenre\tsentence1\tsentence2\tscore\n"


@pytest.mark.parametrize("reader", [read_sts, read_clinical_sts])
def test_columns_are_found_by_their_names(tmp_path, reader):
    rows = '0\tG\tHe "slept.\t"He was asleep.\t4.5\n\n1\tG\tNot scored.\tLeft out.\t\n'
    (document,) = read(tmp_path, HEADER + rows, reader)
    assert document.cats == {"similarity": 4.5}
    texts = [document.text[start:end] for start, end in document.pair]
    assert texts == ['He "slept.', '"He was asleep.']


def test_columns_with_tabs_in_quotes_are_read_as_csv(tmp_path):
    rows = '0\tG\t"He ""slept"" \twell."\tAsleep.\t4.5\n1\tG\tOne.\tTwo.\t0\n'
    first, second = read(tmp_path, HEADER + rows)
    assert first.text[slice(*first.pair[0])] == 'He "slept" \twell.'
    assert second.cats == {"similarity": 0.0}


def test_a_line_of_other_than_the_named_columns_is_named(tmp_path):
    with pytest.raises(BiomedError, match=r"a\.tsv:3: 4 columns; write the 5"):
        read(tmp_path, HEADER + "0\tG\tOne.\tTwo.\t0\n1\tOne.\tTwo.\t0\n")


def test_clinical_sts_has_the_score_last(tmp_path):
    (document,) = read(tmp_path, "He slept.\tHe was asleep.\t4.5\n", read_clinical_sts, "a.txt")
    assert document.cats == {"similarity": 4.5}
    assert document.text[slice(*document.pair[0])] == "He slept."


def test_clinical_sts_has_the_scores_of_the_test_part_in_another_file(tmp_path):
    (tmp_path / "x.test.gs.sim.txt").write_text("1\n2.5\n")
    read(tmp_path, "A.\tB.\nC.\tD.\n", read_clinical_sts, "x.test.txt")
    documents = list(read_clinical_sts(tmp_path))
    assert [document.cats["similarity"] for document in documents] == [1.0, 2.5]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("1\tOne sentence", "2 columns"),
        ("1\tOne\twith\ttab", "4 columns"),
        ("good\tOne.\tTwo.", "'good' is not a score"),
        ("nan\tOne.\tTwo.", "'nan' is not a score"),
        ("1\tOne.\t", "the second text of the pair is empty"),
        ("1\tOne.\tT\x1ewo.", "U+001E"),
    ],
)
def test_bad_lines_are_named_with_file_and_line(tmp_path, line, what):
    with pytest.raises(BiomedError, match=rf"a\.tsv:4: .*{re.escape(what)}"):
        read(tmp_path, STS + line + "\n")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("One.\tTwo.\n", r"x\.txt: there are no scores in it, and no x\.gs\.sim\.txt"),
        ("One.\tTwo.\t3\nThree.\tFour.\n", r"x\.txt:2: no score, as other lines have"),
        ("One.\n", r"x\.txt:1: 1 columns"),
        ("One.\tTwo.\tmuch\n", r"x\.txt:1: 'much' is not a score"),
    ],
)
def test_missing_scores_of_clinical_sts_are_named(tmp_path, content, what):
    with pytest.raises(BiomedError, match=what):
        read(tmp_path, content, read_clinical_sts, "x.txt")


def test_as_many_scores_as_pairs_are_wanted(tmp_path):
    (tmp_path / "x.gs.sim.txt").write_text("1\n2\n")
    with pytest.raises(BiomedError, match=r"x\.gs\.sim\.txt:2: 2 scores for the 1 pairs of x\.txt"):
        read(tmp_path, "One.\tTwo.\n", read_clinical_sts, "x.txt")


@pytest.mark.parametrize("reader", [read_sts, read_clinical_sts])
def test_empty_files_and_wrong_encodings_are_named(tmp_path, reader):
    with pytest.raises(BiomedError, match=r"a\.tsv: the file is empty"):
        read(tmp_path, "", reader)
    with pytest.raises(BiomedError, match=r"a\.tsv: no pair in it has a score"):
        read(tmp_path, "\tOne.\tTwo.\n", read_sts)
    (tmp_path / "a.tsv").write_bytes("1\tOne.\tTwo.\n1\té\te\n".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"a\.tsv:2: the byte at offset 14 is not UTF-8"):
        list(reader(tmp_path))
