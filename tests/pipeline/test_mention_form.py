import pytest
import spacy
from spacy.tokens import Span

from spacy_biomed.pipeline.ner.component import form_spans


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("|-----|", []),
        ("*** \n ---", []),
        ("NHC 331\nMadre sana", ["NHC 331", "Madre sana"]),
        ("cáncer de\npulmón", ["cáncer de\npulmón"]),
        (
            "Two of their sons had metachromatic\nleukodystrophy : no other",
            ["Two of their sons had metachromatic\nleukodystrophy : no other"],
        ),
        ("diabetes", ["diabetes"]),
    ],
)
def test_a_mention_has_letters_or_digits_and_ends_with_its_line(text, parts):
    doc = spacy.blank("es")(text)
    spans = list(form_spans(Span(doc, 0, len(doc), label="X")))
    assert [span.text for span in spans] == parts
    assert all(span.label_ == "X" for span in spans)
