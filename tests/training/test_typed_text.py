import random
from collections import Counter

import pytest
import spacy
from spacy.tokens import Span
from spacy.training import Example

from spacy_biomed import BiomedError
from spacy_biomed.corpora.tokenizer import create_tokenizer
from spacy_biomed.formats.spelling import fold_case
from spacy_biomed.training.typed_text import (
    remove_accents,
    typed_text_v1,
    upper_case,
    wrap_lines,
)

NOTE = "Marta Ochoa Ibáñez recibe 5 µg de digoxina, según pauta, y una radiografía de tórax ayer."


@pytest.fixture
def nlp():
    nlp = spacy.blank("es")
    nlp.tokenizer = create_tokenizer()(nlp)
    return nlp


@pytest.fixture
def example(nlp):
    reference = nlp(NOTE)
    reference.ents = [Span(reference, 0, 3, label="NOMBRE")]
    return Example(nlp.make_doc(NOTE), reference)


def shares(**given):
    none = dict.fromkeys(("capitals", "lower", "names", "no_accents", "wrapped"), 0.0)
    return none | given


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ("capitals", NOTE.upper().replace("\u039c", "µ")),
        ("lower", NOTE.lower()),
        (
            "no_accents",
            "Marta Ochoa Ibanez recibe 5 µg de digoxina, segun pauta, y una radiografia",
        ),
    ],
)
def test_a_share_of_one_changes_every_text(nlp, example, share, expected):
    [changed] = typed_text_v1(**shares(**{share: 1.0}))(nlp, example)
    assert changed.predicted.text.startswith(expected)


@pytest.mark.parametrize("share", ["capitals", "lower", "names", "no_accents", "wrapped"])
def test_the_gold_annotation_stays_at_its_characters(nlp, example, share):
    [changed] = typed_text_v1(**shares(**{share: 1.0}))(nlp, example)
    assert [(e.start_char, e.end_char, e.label_) for e in changed.reference.ents] == [
        (0, 18, "NOMBRE")
    ]
    assert len(changed.predicted.text) == len(NOTE)
    start, end = changed.predicted.char_span(0, 18).start, changed.predicted.char_span(0, 18).end
    tags = changed.get_aligned_ner()  # as spaCy's own `ner` reads it
    assert [tag for tag in tags[start:end] if tag not in ("O", None)][0] == "B-NOMBRE"


def test_a_text_without_accents_has_every_layer_of_its_reference(nlp, example):
    reference = example.reference
    reference.spans["other"] = [reference[3:5]]
    reference.cats = {"cardiology": 1.0}
    reference.user_data["layer"] = "kept"
    reference[4].is_sent_start = True
    [changed] = typed_text_v1(**shares(no_accents=1.0))(nlp, example)
    copied = changed.reference
    assert copied.text == remove_accents(NOTE)
    assert [(span.start, span.end) for span in copied.spans["other"]] == [(3, 5)]
    assert copied.spans["other"][0].doc is copied
    assert copied.cats == {"cardiology": 1.0}
    assert copied.user_data["layer"] == "kept"
    assert copied[4].is_sent_start and not copied[5].is_sent_start


def test_a_reference_without_entities_stays_without_annotation(nlp):
    bare = nlp.make_doc(NOTE)
    [changed] = typed_text_v1(**shares(no_accents=1.0))(nlp, Example(nlp.make_doc(NOTE), bare))
    assert not changed.reference.has_annotation("ENT_IOB")


def test_each_example_is_given_once_and_about_the_share_is_changed(nlp, example):
    random.seed(0)
    augment = typed_text_v1(**shares(lower=0.3))
    texts = Counter(one.predicted.text for _ in range(500) for one in augment(nlp, example))
    assert sum(texts.values()) == 500
    assert texts.keys() == {NOTE, NOTE.lower()}
    assert 120 < texts[NOTE.lower()] < 180


def test_names_are_capitalised_words(nlp, example):
    random.seed(0)
    augment = typed_text_v1(**shares(names=1.0))
    texts = {one.predicted.text for _ in range(50) for one in augment(nlp, example)}
    assert len(texts) == 2**3
    assert all(text[18:] == NOTE[18:] for text in texts)


def test_nothing_is_changed_in_a_pair(nlp, example):
    example.reference.spans["pair"] = [example.reference[:3], example.reference[3:]]
    [same] = typed_text_v1(**shares(lower=1.0))(nlp, example)
    assert same is example


@pytest.mark.parametrize("change", [upper_case, fold_case, remove_accents])
@pytest.mark.parametrize("text", ["Straße µg İstanbul ǅ ﬁ ŉ", NOTE, "Ça naïve ΑΒΓ ñ"])
def test_a_text_keeps_its_length(change, text):
    assert len(change(text)) == len(text)


def test_lines_are_wrapped_at_spaces():
    lines = wrap_lines(NOTE, 30).split("\n")
    assert " ".join(lines) == NOTE
    assert max(map(len, lines)) <= 30


def test_a_word_that_is_longer_than_a_line_is_a_line():
    assert wrap_lines("a " + "b" * 50 + " c d", 10) == "a\n" + "b" * 50 + "\nc d"


@pytest.mark.parametrize(
    "bad", [{"lower": -0.1}, {"wrapped": 1.5}, {"capitals": 0.6, "lower": 0.6}]
)
def test_shares_outside_0_to_1_are_refused(bad):
    with pytest.raises(BiomedError, match=r"use 0 to 1"):
        typed_text_v1(**bad)
