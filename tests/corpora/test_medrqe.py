import re

import pytest

from spacy_biomed.corpora.corpus_catalogue import find_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.medrqe import read_medrqe

TRUE = '<pair pid="1" type="x" value="true">\n<chq>\n   Is my mum&apos;s cough bad?\n</chq>\n'
FAQ = "<faq>\n   What is a cough?\n</faq>\n</pair>\n"


def read(folder, *pairs, encoding="utf-8"):
    content = '<?xml version="1.0" encoding="UTF-8"?>\n<RQE>\n' + "".join(pairs) + "</RQE>\n"
    (folder / "pairs.xml").write_bytes(content.encode(encoding))
    return list(read_medrqe(folder / "pairs.xml"))


def test_the_two_questions_are_a_pair_with_both_labels(tmp_path):
    true, false = read(tmp_path, TRUE, FAQ, TRUE.replace("true", "false"), FAQ)
    assert true.id == "1"
    assert [true.text[start:end] for start, end in true.pair] == [
        "Is my mum's cough bad?",
        "What is a cough?",
    ]
    assert true.cats == {"true": 1.0, "false": 0.0}
    assert false.cats == {"true": 0.0, "false": 1.0}


def test_a_file_without_values_is_not_annotated(tmp_path):
    (document,) = read(tmp_path, TRUE.replace(' value="true"', ""), FAQ)
    assert document.cats is None


def test_one_question_may_be_empty(tmp_path):
    (document,) = read(tmp_path, TRUE, "<faq>\n</faq>\n</pair>\n")
    assert [end - start for start, end in document.pair] == [22, 0]


@pytest.mark.parametrize(
    ("pair", "line", "what"),
    [
        (TRUE.replace("true", "yes") + FAQ, 11, 'value="yes"; write "true" or "false"'),
        (TRUE.replace(' value="true"', "") + FAQ, 11, "<pair> has no value="),
        (TRUE.replace(' pid="1"', "") + FAQ, 11, "<pair> has no pid="),
        (TRUE + "</pair>\n", 11, "expected <chq> and <faq>"),
        (
            '<pair pid="2" value="true"><chq/><faq/></pair>',
            11,
            "the first text of the pair is empty",
        ),
        ("<pair", 11, "no XML at column"),
    ],
)
def test_bad_pairs_are_named_with_file_and_line(tmp_path, pair, line, what):
    with pytest.raises(BiomedError, match=rf"pairs\.xml:{line}: .*{re.escape(what)}"):
        read(tmp_path, TRUE, FAQ, pair)


def test_files_of_other_kinds_are_refused(tmp_path):
    with pytest.raises(BiomedError, match=r"pairs\.xml:2: no <pair> in <RQE>"):
        read(tmp_path)
    with pytest.raises(BiomedError, match=r"pairs\.xml:5: the byte at offset \d+ is not UTF-8"):
        read(tmp_path, TRUE.replace("mum", "mère"), FAQ, encoding="latin-1")
    (tmp_path / "pairs.xml").write_text("")
    with pytest.raises(BiomedError, match=r"pairs\.xml: the file is empty"):
        list(read_medrqe(tmp_path))


def test_the_published_files_are_read_whole(corpora_dir):
    folder = corpora_dir("medrqe")
    parts = {
        part: [document for path in paths for document in read_medrqe(folder / path)]
        for part, paths in find_corpus("medrqe").splits.items()
    }
    assert {part: len(documents) for part, documents in parts.items()} == {
        "train": 8588,
        "dev": 302,
        "test": 230,
    }
    assert sum(document.cats["true"] for document in parts["train"]) == 4655
    (unlabelled,) = folder.glob("*-TestSet.xml")
    assert all(document.cats is None for document in read_medrqe(unlabelled))
