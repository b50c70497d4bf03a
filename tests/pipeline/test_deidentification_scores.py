"""Scores of de-identification, counted by hand."""

import pytest
import spacy
from spacy.training import Example

TEXT = "Ana Ruiz vino de Tudela con asma."


def make_nlp(*rules, **settings):
    nlp = spacy.blank("es")
    patterns = [{"label": label, "pattern": text} for text, label in rules]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.add_pipe("biomed_deidentify", config={"extend": False, "propagate": False, **settings})
    return nlp


def score(nlp, *texts):
    """Score texts whose gold mentions are Ana Ruiz, Tudela and asma."""
    examples = []
    for text in texts:
        gold = nlp.make_doc(text)
        spans = []
        for mention, label in (
            ("Ana Ruiz", "NOMBRE"),
            ("Tudela", "LUGAR"),
            ("asma", "DIAGNOSTICO"),
        ):
            start = text.find(mention)
            if start >= 0:
                spans.append(gold.char_span(start, start + len(mention), label))
        gold.set_ents(spans, default="outside")
        examples.append(Example(nlp.make_doc(text), gold))
    return nlp.evaluate(examples)


def test_scores_by_hand():
    # In the first text "Ruiz" (4 of 7 + 6 letters) is left and "vino" is replaced needlessly.
    nlp = make_nlp(("Ana", "NOMBRE"), ("Tudela", "NOMBRE"), ("vino", "LUGAR"))
    scores = score(nlp, TEXT, "En Tudela.", "Nada.")
    assert scores["deid_r"] == pytest.approx(2 / 3)
    assert scores["deid_p"] == pytest.approx(3 / 4)
    assert scores["deid_f"] == pytest.approx(2 * (2 / 3) * (3 / 4) / (2 / 3 + 3 / 4))
    assert scores["deid_clean_documents"] == pytest.approx(2 / 3)
    assert scores["deid_readable_characters"] == pytest.approx(4 / (7 + 6 + 6))
    assert scores["deid_needless_characters"] == pytest.approx(4 / (3 + 6 + 6 + 4))
    # Recall is that of the gold label, whatever the label of the replacement.
    assert scores["deid_per_type"]["LUGAR"] == {"p": 0.0, "r": 1.0, "f": 0.0}
    assert scores["deid_per_type"]["NOMBRE"] == {"p": 1.0, "r": 0.0, "f": 0.0}
    assert "DIAGNOSTICO" not in scores["deid_per_type"]


def test_all_found_is_all_clean():
    scores = score(make_nlp(("Ana Ruiz", "NOMBRE"), ("Tudela", "LUGAR")), TEXT)
    assert (scores["deid_r"], scores["deid_p"], scores["deid_clean_documents"]) == (1.0, 1.0, 1.0)
    assert scores["deid_readable_characters"] == scores["deid_needless_characters"] == 0.0


def test_a_comma_that_is_left_tells_nothing():
    nlp = make_nlp(("Ana", "NOMBRE"), ("Ruiz", "NOMBRE"), ("Tudela", "LUGAR"))
    assert score(nlp, TEXT)["deid_clean_documents"] == 1.0


def test_documents_without_annotation_are_not_scored():
    nlp = make_nlp(("Ana", "NOMBRE"))
    doc = nlp.make_doc(TEXT)
    assert nlp.evaluate([Example(nlp.make_doc(TEXT), doc)])["deid_r"] is None
