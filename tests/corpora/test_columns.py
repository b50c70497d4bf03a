import re

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.columns import read_columns
from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.repairs import keeping_log


def read(tmp_path, text, **options):
    path = tmp_path / "part.tsv"
    path.write_text(text, encoding="utf-8", newline="")
    return list(read_columns(path, **options))


def strings(document):
    return [(document.text[m.start : m.end], m.label) for m in document.mentions]


def test_each_sentence_is_a_document_where_no_document_starts_are_marked(tmp_path):
    documents = read(tmp_path, "Lung\tB-D\ncancer\tI-D\n.\tO\n\n\nNone\tO\n")
    assert [document.text for document in documents] == ["Lung cancer .", "None"]
    assert strings(documents[0]) == [("Lung cancer", "D")]
    assert documents[1].mentions == []
    assert documents[0].tokens == [(0, 4), (5, 11), (12, 13)]
    assert documents[0].sentences == [(0, 13)]


def test_document_starts_group_sentences(tmp_path):
    documents = read(
        tmp_path,
        "-DOCSTART- -X- O\n\nA N B-X\nb N O\n\nC N B-X\n\n-DOCSTART- -X- O\n\nD N I-X\n",
        scheme="iob1",
    )
    assert [document.text for document in documents] == ["A b C", "D"]
    assert documents[0].sentences == [(0, 3), (4, 5)]
    assert strings(documents[0]) == [("A", "X"), ("C", "X")]


def test_a_mention_ends_with_its_sentence(tmp_path):
    documents = read(tmp_path, "a\tB-X\n\nb\tB-X\nc\tI-X\n", n_sents=2)
    assert strings(documents[0]) == [("a", "X"), ("b c", "X")]


def test_tokens_may_hold_any_character_but_a_tab(tmp_path):
    (document,) = read(tmp_path, "a\u00a0b\tB-X\r\n\u2028\tI-X\r\n😀\tO\r\n")
    assert [document.text[start:end] for start, end in document.tokens] == [
        "a\u00a0b",
        "\u2028",
        "😀",
    ]


def test_iob1_starts_with_i_and_uses_b_between_neighbours(tmp_path):
    (document,) = read(tmp_path, "a\tI-X\nb\tI-X\nc\tB-X\nd\tI-Y\n")
    assert strings(document) == [("a b", "X"), ("c", "X"), ("d", "Y")]


@pytest.mark.parametrize(("end", "single"), [("E", "S"), ("L", "U")])
def test_bioes_and_bilou_are_read_alike(tmp_path, end, single):
    (document,) = read(tmp_path, f"a\tB-X\nb\tI-X\nc\t{end}-X\nd\t{single}-X\ne\t{single}-Y\n")
    assert strings(document) == [("a b c", "X"), ("d", "X"), ("e", "Y")]


def test_labels_may_have_hyphens(tmp_path):
    (document,) = read(tmp_path, "a\tB-cell-line\nb\tI-cell-line\n")
    assert strings(document) == [("a b", "cell-line")]


@pytest.mark.parametrize(
    ("text", "scheme", "line", "what"),
    [
        ("a\tO\nb\n", None, 2, "two or more columns"),
        ("a\tO\n\tO\n", None, 2, "two or more columns"),
        ("a\tO\nb\tX\n", None, 2, "'X' is not a tag"),
        ("a\tO\nb\tQ-X\n", None, 2, "'Q-X' is not a tag"),
        ("a\tO\nb\tB-\n", None, 2, "'B-' is not a tag"),
        ("a\tO\nb\tB-X|I-Y\n", None, 2, "'B-X|I-Y' is not a tag"),
        ("a\tO\nb\tB-X,O\n", None, 2, "'B-X,O' is not a tag"),
        ("1-1\tGout\tB-X\n1-2\thurts\tO\n", None, 1, "numbers the tokens or names the text"),
        ("n1 0 Gout B-X\nn1 1 hurts O\n\nn2 0 Yes O\n", None, 1, "numbers the tokens or names"),
        ("a\tB-X\n\nb\tO\nc\tI-X\n", None, 4, "starts with B-X in IOB2"),
        ("a\tB-X\nb\tI-Y\n", "iob2", 2, "starts with B-Y in IOB2"),
        ("a\tB-X\nb\tE-X\nc\tI-X\n", None, 3, "starts with B-X in BIOES"),
        ("a\tB-X\nb\tO\nc\tS-X\n", None, 2, "has no end"),
        ("a\tS-X\nb\tB-X\n\n", None, 2, "ends inside a mention"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, text, scheme, line, what):
    with pytest.raises(BiomedError, match=rf"part\.tsv:{line}: .*{re.escape(what)}"):
        read(tmp_path, text, scheme=scheme)


def test_an_unknown_scheme_is_named(tmp_path):
    (tmp_path / "train.tsv").write_text("Aspirin\tO\n")
    with pytest.raises(BiomedError, match="unknown scheme 'bio': use iob1, iob2 or bioes"):
        list(read_columns(tmp_path, scheme="bio"))


def test_a_wrong_encoding_is_named(tmp_path):
    (tmp_path / "part.tsv").write_bytes("a\tO\nñ\tO\n".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"part\.tsv:2: the byte at offset 4 is not UTF-8"):
        list(read_columns(tmp_path / "part.tsv"))


def test_a_file_in_which_i_begins_many_mentions_is_read_so(tmp_path):
    sentence = "Lung\tB-D\ncancer\tI-D\nor\tO\ngout\tI-D\n\n"
    document, *_ = read(tmp_path, sentence * 11, n_sents=11)
    assert strings(document) == [("Lung cancer", "D"), ("gout", "D")] * 11
    with pytest.raises(BiomedError, match=r"part\.tsv:4: I-D does not follow .* \(--format iob1\)"):
        read(tmp_path, sentence + "gout\tB-D\n\n" * 20)


def test_a_line_with_the_number_of_an_abstract_begins_a_document(tmp_path):
    first, second = read(tmp_path, "###MEDLINE:12\n\na\tB-X\n\nb\tO\n\n###MEDLINE:13\n\nc\tB-X\n")
    assert (first.text, second.text) == ("a b", "c")


@pytest.mark.parametrize("content", ["", "-DOCSTART-\tO\n\n"])
def test_a_file_without_tokens_is_named(tmp_path, content):
    with pytest.raises(BiomedError, match=r"part\.tsv: (the file is empty|no token)"):
        read(tmp_path, content)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("corpus", ["ncbi_disease", "bc5cdr"])
@pytest.mark.parametrize("part", ["train", "devel", "test"])
def test_published_files_have_a_mention_for_every_b_tag(corpora_dir, corpus, part):
    path = corpora_dir(corpus) / f"{part}.tsv"
    content = path.read_text(encoding="utf-8")
    documents = list(read_columns(path))
    assert sum(len(document.mentions) for document in documents) == content.count("\tB-")
    assert sum(len(document.tokens) for document in documents) == len(
        [line for line in content.split("\n") if line.strip()]
    )


def test_several_sentences_make_a_document_where_the_file_marks_none(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("a\tO\n\nb\tB-X\n\nc\tO\n", encoding="utf-8")
    documents = list(read_columns(path, n_sents=2))
    assert [document.text for document in documents] == ["a b", "c"]
    assert documents[0].sentences == [(0, 1), (2, 3)]
    assert [(m.label, m.fragments) for m in documents[0].mentions] == [("X", ((2, 3),))]
    # As Label Studio exports a project.
    path.write_text("-DOCSTART- -X- O\na\tO\n\nb\tB-X\n\nc\tO\n", encoding="utf-8")
    assert [document.text for document in read_columns(path, n_sents=2)] == ["a b", "c"]
    (tmp_path / "other.tsv").write_text("d\tO\n", encoding="utf-8")
    assert [document.text for document in read_columns(tmp_path)] == ["d", "a b c"]
    path.write_text("a\tO\n\n-DOCSTART- O\n\nb\tB-X\n\nc\tO\n", encoding="utf-8")
    assert [document.text for document in read_columns(path)] == ["a", "b c"]


def test_conll_is_another_name_of_the_format(tmp_path):
    path = tmp_path / "train.conll"
    path.write_text("Lung\tB-D\ncancer\tI-D\n\n", encoding="utf8")
    assert list(read_documents("conll", [path])) == list(read_documents("columns", [path]))


BARE = "BRCA1\tB\ngene\tI\nand\tO\nTP53\tB\n"


@pytest.mark.parametrize(
    ("place", "label"),
    [
        ("gene_train.tsv", "gene"),
        ("train-Gene.tsv", "Gene"),
        ("NCBI-disease/train.tsv", "NCBI_disease"),
        ("genes/train_dev.tsv", "genes"),
    ],
)
def test_tags_without_a_label_get_that_of_the_file(tmp_path, place, label):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.write_text(BARE, encoding="utf8")
    (document,) = read_columns(path)
    assert strings(document) == [("BRCA1 gene", label), ("TP53", label)]


def test_the_label_of_tags_without_one_can_be_given(tmp_path):
    (document,) = read(tmp_path, BARE, tag_label="GENE")
    assert strings(document) == [("BRCA1 gene", "GENE"), ("TP53", "GENE")]


@pytest.mark.parametrize(("last", "single"), ["ES", "LU"])
def test_bare_tags_of_bioes_and_bilou_are_read(tmp_path, last, single):
    text = f"a\tB\nb\tI\nc\t{last}\nd\tO\ne\t{single}\n"
    (document,) = read(tmp_path, text, tag_label="X")
    assert strings(document) == [("a b c", "X"), ("e", "X")]


def test_tags_with_and_without_a_label_in_one_file_are_refused(tmp_path):
    with pytest.raises(BiomedError, match=r"part\.tsv:2: the tag 'B' has no label"):
        read(tmp_path, "a\tB-X\nb\tB\n")


def test_a_file_whose_name_and_folder_name_no_label_needs_the_option(tmp_path):
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "train.tsv"
    path.write_text(BARE, encoding="utf8")
    with pytest.raises(BiomedError, match="--tag-label"):
        list(read_columns(path))


COMMENTS = [
    "# sent_id = 1",
    "# text = Vitamin B",
    "# text = Group O",
    "# newpar id = 3",
    "# source_sent_id = . . weblog-1",
    "#",
    "# A free remark",
    "#end document",
]


@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("space", ["\t", " "])
def test_comments_are_left_out(tmp_path, comment, space):
    text = f"{comment}\na{space}B-X\nb{space}O\n\n{comment}\nc{space}O\n"
    documents = read(tmp_path, text)
    assert [document.text for document in documents] == ["a b", "c"]


def test_a_new_document_of_conllu_begins_one(tmp_path):
    text = (
        "# newdoc id = 1\n# sent_id = 1\na\tB-X\n\nb\tO\n\n# newdoc id = 2\n# sent_id = 3\nc\tO\n"
    )
    assert [document.text for document in read(tmp_path, text)] == ["a b", "c"]


@pytest.mark.parametrize("row", ["#\tO", "# O", "#1 B-X", "#tag\tB-X"])
def test_a_token_may_begin_with_a_number_sign(tmp_path, row):
    (document,) = read(tmp_path, f"{row}\nb\tO\n")
    assert document.text.startswith("#") and len(document.tokens) == 2


@pytest.mark.parametrize(
    "flaw", ["b\tX", "b\tI-X", "b"], ids=["not a tag", "not in the scheme", "no tag"]
)
def test_a_flawed_sentence_can_be_left_out(tmp_path, flaw):
    (tmp_path / "part.tsv").write_text(f"A\tB-D\n\na\tO\n{flaw}\nc\tO\n\nD\tB-D\n")
    with keeping_log("skip") as log:
        documents = list(read_documents("columns", [tmp_path]))
    assert [document.text for document in documents] == ["A", "D"]
    assert [(change.kind, change.line) for change in log.changes] == [("left out", 4)]
    advised = pytest.raises(BiomedError, match=r"part\.tsv:4: .*; or leave such things out with")
    with advised, keeping_log("stop"):
        list(read_documents("columns", [tmp_path]))
