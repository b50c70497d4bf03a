"""What every reader yields: a text and annotations at character offsets."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mention:
    """An annotated mention: one or more fragments of the text under one label.

    fragments: half-open `(start, end)` pairs in Unicode code points, in text order. A mention of
    more than one fragment is discontinuous.
    id: the identifier that the source file gives it (brat's `T1`), or "".
    attributes: what the source says of it beyond the label (negation, normalisation, note).
    """

    label: str
    fragments: tuple[tuple[int, int], ...]
    id: str = ""
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def start(self) -> int:
        return self.fragments[0][0]

    @property
    def end(self) -> int:
        return self.fragments[-1][1]

    @property
    def is_discontinuous(self) -> bool:
        return len(self.fragments) > 1


@dataclass(frozen=True, slots=True)
class Relation:
    """A labelled relation between two mentions, named by their `Mention.id`."""

    label: str
    head: str
    tail: str
    id: str = ""


@dataclass(slots=True)
class Document:
    """A text with its annotations, all at character offsets.

    mentions: None where the source does not annotate mentions at all; an empty list where it does
        and this text has none.
    cats: class label to 0.0 or 1.0; None where the source does not annotate classes.
    tokens, sentences: `(start, end)` offsets where the source is published already split, else None.
    source: file (and line) that it was read from, for messages.
    """

    id: str
    text: str
    mentions: list[Mention] | None = None
    relations: list[Relation] | None = None
    cats: dict[str, float] | None = None
    tokens: list[tuple[int, int]] | None = None
    sentences: list[tuple[int, int]] | None = None
    source: str = ""
