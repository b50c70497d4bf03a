"""Entities as one tag per token: tag schemes, gold tags, and decoding to valid sequences only.

All functions work on arrays of the whole batch; Python code runs only for the entities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from thinc.types import Floats1d, Floats2d, Ints1d

from ..encoders.batching.alignment import ranges

Scheme = Literal["biluo", "bio"]
MISSING = -1


@dataclass(frozen=True, slots=True)
class Spans:
    """Labelled spans of a batch: all are (spans,).

    Attributes:
        start, end: tokens, half-open, counted from the beginning of the batch.
        label: index of the label in the scheme's list.
    """

    start: Ints1d
    end: Ints1d
    label: Ints1d


class TagScheme:
    """The tags of a label set: tag 0 is outside, and a block of tags for each label follows.

    Attributes:
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
        """Tags of `length` tokens for these spans, which must not overlap: (length,)."""
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
        """The spans of valid tag sequences, one for each document, concatenated."""
        starts = np.flatnonzero(self.begins_span[tags])
        # A span ends before the next tag that does not continue it, or with its document.
        stops = np.flatnonzero(~self.continues_span[tags])
        borders = np.concatenate([stops, np.cumsum(lengths)])
        borders.sort()
        ends = borders[np.searchsorted(borders, starts, side="right")]
        return Spans(starts, ends, self.label_of_tag[tags[starts]])

    def viterbi(self, log_probs: Floats2d, lengths: Ints1d) -> Ints1d:
        """The most probable valid tag sequence of each document.

        Tags are independent given the encoder, so the best tag of each token gives the best
        sequence overall. If that sequence is invalid, dropping its invalid spans gives a valid
        sequence at some cost, and the best valid sequence costs no more. A token whose second-best
        tag costs more keeps its best tag. The dynamic programme runs on the stretches between such
        tokens.

        Args:
            log_probs: (tokens, tags), all documents concatenated.
            lengths: (docs,) number of tokens in each document.

        Returns:
            (tokens,) tags.
        """
        tags = log_probs.argmax(axis=1)
        borders = np.concatenate([[0], np.cumsum(lengths)])
        is_bad = self._invalid_transitions(tags, borders)
        if is_bad.any():
            starts, ends = self._stretches(log_probs, tags, is_bad, borders)
            self._search(log_probs, tags, starts, ends, borders)
        return tags

    def _invalid_transitions(self, tags: Ints1d, borders: Ints1d) -> np.ndarray:
        """(tokens + 1,) whether a tag must not follow the tag before it.

        A tag with which a document must not end counts at the next index.
        """
        is_bad = np.zeros(len(tags) + 1, dtype=bool)
        is_bad[1:-1] = ~self.allowed[tags[:-1], tags[1:]]
        edges = np.unique(borders)  # without documents that have no tokens
        is_bad[edges[:-1]] = ~self.may_start[tags[edges[:-1]]]
        is_bad[edges[1:]] |= ~self.may_end[tags[edges[1:] - 1]]
        return is_bad

    def _stretches(
        self, log_probs: Floats2d, tags: Ints1d, is_bad: np.ndarray, borders: Ints1d
    ) -> tuple[Ints1d, Ints1d]:
        """First tokens and ends of the stretches to search again, both (stretches,)."""
        lengths = np.diff(borders)
        # The spans of the best tags, valid or not. Each token outside counts as a span.
        begins_span = ~self.continues_span[tags]
        begins_span[borders[:-1][lengths > 0]] = True
        span = np.cumsum(begins_span) - 1
        bad = np.flatnonzero(is_bad)
        left = bad[bad > 0] - 1
        right = bad[bad < len(tags)]
        is_invalid = np.zeros(span[-1] + 1, dtype=bool)
        is_invalid[span[left[~self.may_end[tags[left]]]]] = True
        is_invalid[span[right[self.continues_span[tags[right]]]]] = True
        dropped = np.flatnonzero(is_invalid[span])
        document = np.repeat(np.arange(len(lengths)), lengths)
        # What each document loses if its invalid spans are dropped: a bound for the best sequence.
        best = log_probs[dropped, tags[dropped]].astype("float64")
        lost = best - log_probs[dropped, 0]
        cost: Floats1d = np.bincount(document[dropped], lost, minlength=len(lengths))
        cost += 1e-5 * (1.0 + cost)  # sums are rounded
        to_search = np.zeros(len(lengths), dtype=bool)
        to_search[document[dropped]] = True
        tokens = np.flatnonzero(to_search[document])
        second, best = np.partition(log_probs[tokens], -2, axis=1)[:, -2:].T
        # One element before and one after all tokens, to find where free runs begin and end.
        is_free = np.zeros(len(tags) + 2, dtype=bool)
        is_free[tokens + 1] = ~(best - second > cost[document[tokens]])
        is_border = np.zeros(len(tags) + 1, dtype=bool)
        is_border[borders] = True
        starts = np.flatnonzero(is_free[1:] & (~is_free[:-1] | is_border))
        ends = np.flatnonzero(is_free[:-1] & (~is_free[1:] | is_border))
        bad_before = np.concatenate([[0], np.cumsum(is_bad)])
        has_bad = bad_before[ends + 1] > bad_before[starts]
        return starts[has_bad], ends[has_bad]

    def _search(
        self, log_probs: Floats2d, tags: Ints1d, starts: Ints1d, ends: Ints1d, borders: Ints1d
    ) -> None:
        """Run the dynamic programme over several stretches of tokens at once, and set their tags.

        Args:
            log_probs, tags: (tokens, tags) and (tokens,) of all documents. The tags outside the
                stretches are not changed.
            starts, ends: (stretches,) first token, and the token after the last.
        """
        lengths = ends - starts
        order = np.argsort(-lengths, kind="stable")
        starts, ends, lengths = starts[order], ends[order], lengths[order]
        before, after = np.maximum(starts - 1, 0), np.minimum(ends, len(tags) - 1)
        is_first, is_last = np.isin(starts, borders)[:, None], np.isin(ends, borders)[:, None]
        may_start = np.where(is_first, self.may_start, self.allowed[tags[before]])
        may_end = np.where(is_last, self.may_end, self.allowed.T[tags[after]])
        # The number of stretches, longest first, that have a token at each place.
        reach = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
        penalty = np.where(self.allowed, 0.0, -np.inf)
        back = np.empty((lengths[0], len(starts), self.size), dtype="int64")
        scores = np.where(may_start, log_probs[starts], -np.inf)
        for place in range(1, lengths[0]):
            count = reach[place]
            through = scores[:count, :, None] + penalty
            back[place, :count] = through.argmax(axis=1)
            scores[:count] = through.max(axis=1) + log_probs[starts[:count] + place]
        tags[ends - 1] = np.where(may_end, scores, -np.inf).argmax(axis=1)
        for place in range(lengths[0] - 1, 0, -1):
            stretches = np.arange(reach[place])
            tokens = starts[stretches] + place
            tags[tokens - 1] = back[place, stretches, tags[tokens]]
