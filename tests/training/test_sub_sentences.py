"""Documents cut into sentences and parts."""

import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_biomed.annotations.annotation_scope import AnnotationScope, get_scope, set_scope
from spacy_biomed.errors import BiomedError
from spacy_biomed.training.corpus import split_doc

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]


def make_doc(starts=(), ents=(), words=WORDS, **groups):
    """A document with sentences that start at these tokens, and mentions (start, end)."""
    vocab = spacy.blank("en").vocab
    sent_starts = [i in starts or i == 0 for i in range(len(words))] if starts else None
    doc = Doc(vocab, words=words, sent_starts=sent_starts)
    doc.set_ents([Span(doc, start, end, label="X") for start, end in ents], default="outside")
    for key, spans in groups.items():
        doc.spans[key] = [Span(doc, start, end, label="Y") for start, end in spans]
    return doc


def texts(parts):
    return [[token.text for token in part] for part in parts]


def test_sentences_are_cut_apart_and_long_ones_into_parts():
    parts = list(split_doc(make_doc(starts=(0, 7)), 3))
    assert texts(parts) == [list("abc"), list("def"), list("g"), list("hij")]
    assert texts(split_doc(make_doc(), 30)) == [WORDS]
    assert texts(split_doc(make_doc(starts=(0, 7)), 30)) == [WORDS[:7], WORDS[7:]]


def test_no_mention_is_cut():
    # "c d" does not fit into the first part; "f g h i" is longer than a part.
    parts = list(split_doc(make_doc(ents=[(2, 4), (5, 9)]), 3))
    assert texts(parts) == [list("ab"), list("cde"), list("fghi"), list("j")]
    assert [(ent.text, ent.label_) for part in parts for ent in part.ents] == [
        ("c d", "X"),
        ("f g h i", "X"),
    ]
    assert all(token.ent_iob for part in parts for token in part)  # all annotated


def test_a_sentence_start_within_a_mention_is_none():
    assert texts(split_doc(make_doc(starts=(0, 5), ents=[(4, 6)]), 30)) == [WORDS]


def test_span_groups_and_scopes_come_along():
    doc = make_doc(starts=(0, 4), layer=[(1, 3), (2, 3), (4, 6)])
    # Characters 6 to 9 are "d e", in two sentences.
    set_scope(doc, AnnotationScope(frozenset({"Y"}), ((6, 9, "Y"),)), "layer")
    first, second = split_doc(doc, 30)
    assert [span.text for span in first.spans["layer"]] == ["b c", "c"]
    assert [span.text for span in second.spans["layer"]] == ["e f"]
    # The first part ends with the space after "d".
    assert get_scope(first, "layer").labels == frozenset({"Y"})
    assert [(start, end) for start, end, _ in get_scope(first, "layer").uncertain] == [(6, 8)]
    assert [(start, end) for start, end, _ in get_scope(second, "layer").uncertain] == [(0, 1)]


@pytest.mark.parametrize("kind", ["classes", "pairs", "relations", "a teacher's probabilities"])
def test_annotation_of_whole_documents_is_bad_input(kind):
    doc = make_doc()
    if kind == "classes":
        doc.cats = {"A": 1.0}
    elif kind == "pairs":
        doc.spans["pair"] = [doc[:2], doc[3:]]
    else:
        doc.user_data["relations" if kind == "relations" else "spacy_biomed_taught"] = ()
    with pytest.raises(BiomedError, match=r"max_words .*whole documents: set it to 0"):
        list(split_doc(doc, 3))
