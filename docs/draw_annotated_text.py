"""Draw `docs/annotated_text.svg`: two sentences as the included pipelines annotate them.

Run it when a pipeline changes: python docs/draw_annotated_text.py
"""

from __future__ import annotations

from html import escape
from itertools import cycle
from pathlib import Path

import spacy
from spacy.tokens import Doc, Span

REPOSITORY = Path(__file__).parents[1]
PICTURE = REPOSITORY / "docs" / "annotated_text.svg"
SENTENCES = {
    "es_clinical_ner": "Paciente: Juana Robles Ortega, 64 años. Ingresó el 12/03/2019 con "
    "adenocarcinoma de colon; tratada con capecitabina.",
    "en_biomed_ner": "Gefitinib inhibits EGFR in patients with lung cancer, and in mice without "
    "the T790M mutation.",
}

# One for each label in turn. Black text on each has a contrast of 7 or more.
COLOURS = (
    "#9ad0f5",
    "#ffc48a",
    "#b5e3a1",
    "#f7a8b8",
    "#d5b8f5",
    "#ffe27a",
    "#8fe0d4",
    "#e3c4a8",
)

# In pixels. The letters of a text and of a label have fixed widths, whatever the font.
WIDTH, MARGIN, LINE, PADDING = 800, 24, 38, 5
LETTER, SMALL = 9.0, 6.2


def draw() -> str:
    """Draw the sentences below each other."""
    shapes: list[str] = []
    top = MARGIN
    for name, sentence in SENTENCES.items():
        nlp = spacy.load(REPOSITORY / "assets" / "pipelines" / name)
        labels = sorted(nlp.pipe_labels["biomed_ner"])
        colours = dict(zip(labels, cycle(COLOURS), strict=False))
        top = draw_doc(nlp(sentence), colours, top, shapes) + LINE + 3 * PADDING
    height = top - LINE // 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            ' font-family="monospace" font-size="15" fill="#1a1a1a">',
            "<title>Two sentences with the entities that the included pipelines find</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def draw_doc(doc: Doc, colours: dict[str, str], top: int, shapes: list[str]) -> int:
    """Append the shapes of a sentence, in lines from `top` on; return the top of its last line."""
    entities = {entity.start: entity for entity in doc.ents}
    left, start = float(MARGIN), 0
    while start < len(doc):
        piece = entities.get(start, doc[start : start + 1])
        label = escape(piece.label_)
        words = len(piece.text) * LETTER
        width = words + (len(label) * SMALL + 3 * PADDING if label else 0)
        if left + width > WIDTH - MARGIN:
            left, top = float(MARGIN), top + LINE
        shapes += draw_piece(piece, colours.get(piece.label_), left, top, words, width)
        start = piece.end
        left += width + len(doc[start - 1].whitespace_) * LETTER
    return top


def draw_piece(
    piece: Span, colour: str | None, left: float, top: int, words: float, width: float
) -> list[str]:
    """Draw a token, or an entity in a box with its label."""
    if colour is None:
        return [draw_text(piece.text, left, top, words)]
    small = 'font-size="10" font-weight="bold"'
    after, rest = left + words + 2 * PADDING, width - words - 3 * PADDING
    return [
        f'<rect x="{left:.1f}" y="{top - 18}" width="{width:.1f}" height="27" rx="5"'
        f' fill="{colour}"/>',
        draw_text(piece.text, left + PADDING, top, words),
        draw_text(piece.label_, after, top, rest, small),
    ]


def draw_text(text: str, left: float, top: int, width: float, style: str = "") -> str:
    return (
        f'<text x="{left:.1f}" y="{top}" textLength="{width:.1f}"'
        f"{f' {style}' if style else ''}>{escape(text)}</text>"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf8")
