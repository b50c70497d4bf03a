"""The form of mentions, whatever a model says: letters or digits, on one line."""

from __future__ import annotations

from collections.abc import Iterator

from spacy.tokens import Span

from ...deidentification.plain_text import PlainText
from ...normalization import join_wrapped


def form_spans(span: Span) -> Iterator[Span]:
    """The parts of a mention between line ends, without those that have no letter or digit.

    A line end counts only if the line was finished there, and not where a text was wrapped
    (`join_wrapped`, `PlainText`). A rule of a table ("|-----|") has no part.
    """
    text = span.text
    if not any(map(str.isalnum, text)):
        return
    if "\n" not in text.strip() and "\r" not in text.strip():
        yield span
        return
    doc = span.doc
    plain, joined = PlainText(doc.text), join_wrapped(doc.text)
    start, end = plain.to_plain(span.start_char, span.end_char)
    lines = "".join(
        " " if sign == "\n" and "\n" not in joined[slice(*plain.to_original(i, i + 1))] else sign
        for i, sign in enumerate(plain.text[start:end], start)
    )
    for line in lines.split("\n"):
        stripped = line.strip()
        if any(map(str.isalnum, stripped)):
            first = start + line.index(stripped)
            place = plain.to_original(first, first + len(stripped))
            part = doc.char_span(*place, label=span.label, alignment_mode="contract")
            if part is not None:
                yield part
        start += len(line) + 1
