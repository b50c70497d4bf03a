"""What counts as the same text."""

import pytest

from spacy_biomed.corpora.repeated_texts import (
    KnownText,
    find_pubmed_id,
    find_repeats,
    normalise_words,
)

LONG = "Mutations of BRCA1 were found in breast and ovarian tumours"
OTHER = "Aspirin reduced the risk of cancer in patients with diabetes"


def known(*sentences, corpus="a", pubmed_id=None):
    normalised = tuple(map(normalise_words, sentences))
    return KnownText(corpus, pubmed_id, normalise_words(" ".join(sentences)), normalised)


def test_words_are_the_same_however_signs_and_spaces_are_written():
    written = ["Non-small (NSCLC)  cells, ﬁne", "non - small ( nsclc ) cells , fine ."]
    assert len({normalise_words(text) for text in written}) == 1


@pytest.mark.parametrize(
    "id, found",
    [("10021369", "10021369"), ("PMID:10021369", "10021369"), ("train:12", None), ("12", None)],
)
def test_the_numbers_of_pubmed_are_told_from_other_ids(id, found):
    assert find_pubmed_id(id) == found


@pytest.mark.parametrize("corpus", ["a", "b"])
def test_the_same_text_is_found_in_any_corpus(corpus):
    held_out = [known(LONG.lower() + " .", corpus=corpus)]
    assert find_repeats([known(LONG), known(OTHER)], held_out) == ["text", None]


def test_the_same_abstract_is_found_by_its_number():
    held_out = [known(LONG, OTHER, pubmed_id="10021369")]
    revised = known(LONG.replace("BRCA1", "brca"), corpus="b", pubmed_id="10021369")
    foreign = known("Something else altogether", corpus="b", pubmed_id="10021369")
    assert find_repeats([revised, foreign], held_out) == ["id", None]


def test_a_sentence_of_another_corpus_is_found_in_a_text_and_the_other_way_round():
    sentence, text = known(LONG, corpus="b"), known(OTHER, LONG + ".", "No more.")
    assert find_repeats([text], [sentence]) == ["sentence"]
    assert find_repeats([sentence], [text]) == ["sentence"]
    assert find_repeats([text], [known(LONG)]) == [None]  # its own corpus keeps its parts


def test_short_sentences_repeat_nothing():
    short = "No adverse effects were seen"
    assert find_repeats([known(short, OTHER), known(short)], [known(short, corpus="b")]) == [
        None,
        None,
    ]
