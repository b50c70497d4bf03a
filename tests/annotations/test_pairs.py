"""Pairs of texts as a Doc."""

import pytest
import spacy
from spacy.tokens import Doc, DocBin

import spacy_biomed
from spacy_biomed.annotations.pairs import get_pair, join_pair
from spacy_biomed.errors import BiomedError


@pytest.fixture
def nlp():
    return spacy.blank("en")


def test_offsets_of_a_joined_pair_cover_its_texts():
    text, ((a, b), (c, d)) = join_pair("One.", "Two texts.")
    assert (text[a:b], text[c:d]) == ("One.", "Two texts.")


@pytest.mark.parametrize(
    ("first", "second"),
    [("Pain.", "No pain."), ("Pain. ", " No pain."), ("", "Pain."), ("Pain.", ""), ("a\n", "\nb")],
)
def test_a_pair_is_told_from_its_text_alone(nlp, first, second):
    doc = nlp.make_doc(spacy_biomed.pair(nlp, first, second).text)
    assert "pair" not in doc.spans
    assert [span.text.strip() for span in get_pair(doc)] == [first.strip(), second.strip()]


def test_a_text_is_no_pair(nlp):
    assert get_pair(nlp("Pain in the chest.")) is None


def test_the_separator_in_a_text_is_refused():
    with pytest.raises(BiomedError, match="U\\+001E"):
        join_pair("a\x1eb", "c")


def test_a_pair_survives_a_doc_bin(nlp):
    docs = DocBin(docs=[spacy_biomed.pair(nlp, "Pain.", "No pain.")]).to_bytes()
    (doc,) = DocBin().from_bytes(docs).get_docs(nlp.vocab)
    assert [span.text for span in doc.spans["pair"]] == ["Pain.", "No pain."]


def test_only_a_token_of_white_space_separates_a_pair(nlp):
    assert get_pair(Doc(nlp.vocab, words=["Pain\x1e", "No", "\n", "pain"])) is None
    words = ["Pain", "\n", "\n\x1e ", "No", "\x1e", "pain"]
    first, second = get_pair(Doc(nlp.vocab, words=words))
    assert (first.text, second.end) == ("Pain \n", 6)


def test_a_group_of_that_name_without_two_texts_is_no_pair(nlp):
    doc = nlp("Pain and fever.")
    doc.spans["pair"] = [doc[:1]]
    assert get_pair(doc) is None
