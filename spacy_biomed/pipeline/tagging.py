"""Entities as one tag a token: tag schemes, gold tags, and decoding that cannot go wrong.

Everything here works on the whole batch in arrays; Python only touches the entities themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from thinc.types import Floats2d, Ints1d

from ..encoders.alignment import ranges

Scheme = Literal["biluo", "bio"]
MISSING = -1


@dataclass(frozen=True, slots=True)
class Spans:
    """Labelled spans of a batch: all are (spans,).

    start, end: tokens, half-open, counted from the beginning of the batch.
    label: place of the label in the scheme's list.
    """

    start: Ints1d
    end: Ints1d
    label: Ints1d


class TagScheme:
    """The tags of a label set: tag 0 is outside; each label then has its block of tags.

    scheme: "bio" (begin, inside) or "biluo" (begin, inside, last, unit), which Ratinov and Roth
        (2009), "Design Challenges and Misconceptions in Named Entity Recognition", call BILOU.
    labels: entity labels, in the order of their blocks.
    """

    def __init__(self, scheme: Scheme, labels: list[str]):
        self.scheme = scheme
        self.labels = labels
        self.parts = "BILU" if scheme == "biluo" else "BI"
        self.size = 1 + len(self.parts) * len(labels)
        part, label = np.full(self.size, -1), np.full(self.size, -1)
        part[1:] = np.tile(np.arange(len(self.parts)), len(labels))
        label[1:] = np.repeat(np.arange(len(labels)), len(self.parts))
        self.label_of_tag = label
        letters = np.array(["O", *self.parts])[part + 1]
        continues = np.isin(letters, ["I", "L"])
        opens = np.isin(letters, ["B", "I"])
        must_continue = opens if scheme == "biluo" else np.zeros(self.size, dtype=bool)
        same_label = label[:, None] == label[None, :]
        # allowed[a, b]: tag b may follow tag a.
        self.allowed = np.where(
            continues[None, :], opens[:, None] & same_label, ~must_continue[:, None]
        )
        self.may_start = ~continues
        self.may_end = ~must_continue
        self.begins_span = np.isin(letters, ["B", "U"])
        self.continues_span = continues
        # Tags of a token that is known to be the first or the last of its span.
        self.is_edge = np.isin(letters, ["B", "L", "U"])

    def tag_names(self) -> list[str]:
        names = [f"{part}-{label}" for label in self.labels for part in self.parts]
        return ["O", *names]

    def encode(self, length: int, spans: Spans) -> Ints1d:
        """Tags of `length` tokens that hold the spans, none of which overlap: (length,)."""
        tags = np.zeros(length, dtype="int64")
        first = 1 + spans.label * len(self.parts)
        single = spans.end - spans.start == 1
        inside = spans.end - spans.start - 1
        tags[ranges(spans.start + 1, inside)] = np.repeat(first + 1, inside)
        tags[spans.start] = first
        if self.scheme == "biluo":
            tags[spans.end[~single] - 1] = first[~single] + 2
            tags[spans.start[single]] = first[single] + 3
        return tags

    def decode(self, tags: Ints1d, lengths: Ints1d) -> Spans:
        """Spans of a valid tag sequence for each document, laid one after the other."""
        starts = np.flatnonzero(self.begins_span[tags])
        # A span reaches to the next tag that does not continue it; documents end with one.
        stops = np.flatnonzero(~self.continues_span[tags])
        borders = np.concatenate([stops, np.cumsum(lengths)])
        borders.sort()
        ends = borders[np.searchsorted(borders, starts, side="right")]
        return Spans(starts, ends, self.label_of_tag[tags[starts]])

    def viterbi(self, log_probs: Floats2d, lengths: Ints1d) -> Ints1d:
        """The most probable tag sequence of each document among the valid ones.

        Tags are independent given the encoder, so the most probable sequence of all is the best tag
        of each token; only documents where that is invalid need the dynamic programme.

        log_probs: (tokens, tags), documents laid one after the other.
        lengths: (docs,) tokens in each document.
        RETURNS: (tokens,) tags.
        """
        tags = log_probs.argmax(axis=1)
        borders = np.concatenate([[0], np.cumsum(lengths)])
        invalid = self._invalid_documents(tags, borders)
        if len(invalid):
            self._search(log_probs, borders[invalid], lengths[invalid], tags)
        return tags

    def _invalid_documents(self, tags: Ints1d, borders: Ints1d) -> Ints1d:
        if len(tags) == 0:
            return np.zeros(0, dtype="int64")
        is_bad = np.zeros(len(tags), dtype=bool)
        is_bad[1:] = ~self.allowed[tags[:-1], tags[1:]]
        filled = borders[1:] > borders[:-1]
        starts, ends = borders[:-1][filled], borders[1:][filled]
        is_bad[starts] = ~self.may_start[tags[starts]]
        is_bad[ends - 1] |= ~self.may_end[tags[ends - 1]]
        bad = np.flatnonzero(is_bad)
        return np.unique(np.searchsorted(borders, bad, side="right") - 1)

    def _search(self, log_probs: Floats2d, starts: Ints1d, lengths: Ints1d, tags: Ints1d) -> None:
        """The dynamic programme, over some documents at once; sets their tags.

        log_probs: (tokens, tags) of all documents.
        starts, lengths: (docs,) first token and number of tokens of each document to search.
        tags: (tokens,) of all documents.
        """
        order = np.argsort(-lengths, kind="stable")
        starts, lengths = starts[order], lengths[order]
        # How many documents, the longest first, have a token at each place.
        reach = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
        penalty = np.where(self.allowed, 0.0, -np.inf)
        back = np.empty(log_probs.shape, dtype="int64")
        scores = log_probs[starts] + np.where(self.may_start, 0.0, -np.inf)
        for place in range(1, lengths[0]):
            rows = starts[: reach[place]] + place
            through = scores[: reach[place], :, None] + penalty
            back[rows] = through.argmax(axis=1)
            scores[: reach[place]] = through.max(axis=1) + log_probs[rows]
        tags[starts + lengths - 1] = (scores + np.where(self.may_end, 0.0, -np.inf)).argmax(axis=1)
        for place in range(lengths[0] - 1, 0, -1):
            rows = starts[: reach[place]] + place
            tags[rows - 1] = back[rows, tags[rows]]
