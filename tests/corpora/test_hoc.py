import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Document
from spacy_biomed.formats.hoc import HALLMARKS, read_hoc, split_hoc


def write(folder, abstracts):
    for part in ("text", "labels"):
        (folder / part).mkdir(exist_ok=True)
    for id, (text, labels) in abstracts.items():
        (folder / "text" / f"{id}.txt").write_text(text, encoding="utf-8")
        (folder / "labels" / f"{id}.txt").write_text(labels, encoding="utf-8")
    return folder


def test_sentences_are_joined_and_their_hallmarks_collected(tmp_path):
    labels = (
        "< <Resisting cell death--Necrosis ANDEvading growth suppressors--By deregulating AND x"
        "<Genomic instability and mutation--DNA damage--Adducts AND Resisting cell death-- <NULL "
    )
    (document,) = read_hoc(write(tmp_path, {"7": ("One .\nTwo .\nThree .\nFour .\n", labels)}))
    assert document.id == "7"
    assert document.text == "One . Two . Three . Four ."
    assert [document.text[a:b] for a, b in document.sentences] == [
        "One .",
        "Two .",
        "Three .",
        "Four .",
    ]
    assert {label for label, value in document.cats.items() if value} == {
        "Resisting cell death",
        "Evading growth suppressors",
        "Genomic instability and mutation",
    }
    assert tuple(document.cats) == HALLMARKS
    assert document.mentions is None


def test_another_number_of_cells_than_of_sentences_is_named(tmp_path):
    write(tmp_path, {"7": ("One .\nTwo .\n", "< ")})
    with pytest.raises(BiomedError, match=r"labels/7\.txt:1: 1 cells for the 2 sentences"):
        list(read_hoc(tmp_path))


def test_text_before_the_first_cell_is_named(tmp_path):
    write(tmp_path, {"7": ("One .\n", "Resisting cell death--< ")})
    with pytest.raises(BiomedError, match=r"labels/7\.txt:1: .*write one cell, after a '<'"):
        list(read_hoc(tmp_path))


def test_an_unknown_hallmark_is_named(tmp_path):
    write(tmp_path, {"7": ("One .\n", "<Resisting death--x")})
    with pytest.raises(BiomedError, match=r"labels/7\.txt:1: 'Resisting death' in cell 1"):
        list(read_hoc(tmp_path))


def test_a_missing_counterpart_and_a_missing_folder_are_named(tmp_path):
    write(tmp_path, {"7": ("One .\n", "< "), "8": ("Two .\n", "< ")})
    (tmp_path / "labels" / "8.txt").unlink()
    with pytest.raises(BiomedError, match=r"text/8\.txt: there is no labels/8\.txt"):
        list(read_hoc(tmp_path))
    with pytest.raises(BiomedError, match=r"expected text/\*\.txt and labels/\*\.txt"):
        list(read_hoc(tmp_path / "text"))


def test_each_sentence_may_be_a_document_that_is_a_part_of_its_abstract(tmp_path):
    write(tmp_path, {"7": ("One .\nTwo .\n", "<Resisting cell death--< NULL")})
    first, second = read_hoc(tmp_path, by_sentence=True)
    assert [(one.id, one.text, one.part_of) for one in (first, second)] == [
        ("7_s0", "One .", "7"),
        ("7_s1", "Two .", "7"),
    ]
    assert {label for label, value in first.cats.items() if value} == {"Resisting cell death"}
    assert set(second.cats.values()) == {0.0}
    assert [one.sentences for one in (first, second)] == [[(0, 5)], [(0, 5)]]
    assert tuple(second.cats) == HALLMARKS


def test_sentences_are_split_as_their_abstracts_are(tmp_path):
    write(tmp_path, {str(id): ("A .\nB .\n", "< < ") for id in range(50)})
    abstracts = split_hoc(list(read_hoc(tmp_path)), tmp_path)
    sentences = split_hoc(list(read_hoc(tmp_path, by_sentence=True)), tmp_path)
    for part, documents in abstracts.items():
        assert [one.id for one in sentences[part]] == [
            f"{document.id}_s{number}" for document in documents for number in (0, 1)
        ]


def test_the_published_lists_give_the_published_sizes(tmp_path):
    documents = [Document(id=str(id), text="A", cats={}) for id in range(1852)]
    sizes, first = {"train": 1108, "dev": 157, "test": 315}, 0
    for part, size in sizes.items():
        ids = "".join(f"{id}\n" for id in range(first, first + size))
        (tmp_path / f"{part}_docid.txt").write_text(ids)
        first += size
    parts = split_hoc(documents, tmp_path)
    assert {part: len(split) for part, split in parts.items()} == sizes


@pytest.mark.parametrize("part", ["text", "labels"])
def test_an_empty_file_and_a_wrong_encoding_are_named(tmp_path, part):
    write(tmp_path, {"7": ("One .\n", "< ")})
    path = tmp_path / part / "7.txt"
    path.write_bytes(b"")
    with pytest.raises(BiomedError, match=rf"{part}/7\.txt: the file is empty"):
        list(read_hoc(tmp_path))
    path.write_bytes(b"< \xe9")
    with pytest.raises(BiomedError, match=rf"{part}/7\.txt:1: the byte at offset 2 is not UTF-8"):
        list(read_hoc(tmp_path))


def test_the_split_is_70_10_20_and_the_same_for_any_order(tmp_path):
    documents = list(read_hoc(write(tmp_path, {str(id): ("A .\n", "< ") for id in range(50)})))
    parts = split_hoc(documents, tmp_path)
    assert {part: len(split) for part, split in parts.items()} == {
        "train": 35,
        "dev": 5,
        "test": 10,
    }
    assert len({document.id for split in parts.values() for document in split}) == 50
    assert split_hoc(documents[::-1], tmp_path) == parts


def test_lists_of_ids_make_the_split_where_they_are_there(tmp_path):
    documents = list(read_hoc(write(tmp_path, {str(id): ("A .\n", "< ") for id in range(4)})))
    for part, ids in {"train": "3\n1\n", "dev": "2\n", "test": "0\n"}.items():
        (tmp_path / f"{part}_docid.txt").write_text(ids)
    parts = split_hoc(documents, tmp_path)
    assert [document.id for document in parts["train"]] == ["3", "1"]
    (tmp_path / "dev_docid.txt").write_text("2\n9\n")
    with pytest.raises(BiomedError, match=r"dev_docid\.txt:2: the corpus has no abstract '9'"):
        split_hoc(documents, tmp_path)


@pytest.mark.slow
def test_published_abstracts_have_the_hallmarks_their_label_files_name(corpora_dir):
    folder = corpora_dir("hoc")
    documents = list(read_hoc(folder))
    assert len(documents) == 1852
    for hallmark in HALLMARKS:
        named = sum(
            hallmark in file.read_text(encoding="utf-8") for file in (folder / "labels").iterdir()
        )
        assert sum(document.cats[hallmark] for document in documents) == named
