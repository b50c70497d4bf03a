import pytest
import spacy
from spacy.tokens import Span

from spacy_biomed.pipeline.ner import component
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
    [spans] = form_spans(doc, [Span(doc, 0, len(doc), label="X")])
    assert [span.text for span in spans] == parts
    assert all(span.label_ == "X" for span in spans)


def test_the_lines_of_a_document_are_read_once_for_all_its_mentions(monkeypatch):
    read = []
    monkeypatch.setattr(component, "join_wrapped", lambda text: read.append(text) or text)
    doc = spacy.blank("es")(20 * "dolor\nfiebre ")
    mentions = [Span(doc, start, start + 3, label="X") for start in range(0, len(doc), 3)]
    assert [len(parts) for parts in form_spans(doc, mentions)] == 20 * [1]
    assert len(read) == 1
