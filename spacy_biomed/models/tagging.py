"""Entities as one tag a token: tag schemes, gold tags, and decoding, in arrays of a whole batch."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..arrays import Floats1d, Floats2d, Ints1d
from ..encoders.batching.ragged import ranges

Scheme = Literal["biluo", "bio"]
Decoding = Literal["viterbi", "argmax"]
MISSING = -1


class Spans(NamedTuple):
    """Labelled spans of a batch: half-open in its tokens, all (spans,)."""

    start: Ints1d
    end: Ints1d
    label: Ints1d  # its place in the scheme's list


class TagScheme:
    """The tags of a label set: tag 0 is outside; each label then has its block of tags.

    The scheme is "bio" (begin, inside) or "biluo" (begin, inside, last, unit), which Ratinov and
    Roth (2009), "Design Challenges and Misconceptions in Named Entity Recognition", call BILOU.
    """

    def __init__(self, scheme: Scheme, labels: Sequence[str]):
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
        self.continues_span = continues
        # Tags of a token that is known to be the first or the last of its span.
        self.is_edge = np.isin(letters, ["B", "L", "U"])

    def tag_names(self) -> list[str]:
        names = [f"{part}-{label}" for label in self.labels for part in self.parts]
        return ["O", *names]

    def encode(self, length: int, spans: Spans) -> Ints1d:
        """The tags, (length,), of `length` tokens with these spans, which must not overlap."""
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
        """Spans of the tags, (tokens,), of documents with these numbers of tokens, (docs,).

        A tag that continues a span, with no such span before it, begins a span, as in the
        aggregation of transformers' pipeline.
        """
        continues = self.continues_span[tags]
        continues[1:] &= self.allowed[tags[:-1], tags[1:]]
        ends = np.cumsum(lengths)
        firsts = (ends - lengths)[lengths > 0]
        continues[firsts] = False
        starts = np.flatnonzero(~continues & (tags > 0))
        # A span reaches to the next tag that does not continue it; documents end with one.
        borders = np.concatenate([np.flatnonzero(~continues), ends])
        borders.sort()
        ends = borders[np.searchsorted(borders, starts, side="right")]
        return Spans(starts, ends, self.label_of_tag[tags[starts]])

    def viterbi(self, log_probs: Floats2d, lengths: Ints1d) -> Ints1d:
        """The most probable valid tag sequence of each document.

        The most probable sequence of all is the best tag of each token. Only runs of tokens where
        that sequence is invalid are searched.

        Args:
            log_probs: (tokens, tags), all documents concatenated.
            lengths: (docs,) number of tokens in each document.

        Returns:
            (tokens,) tags.
        """
        tags = log_probs.argmax(axis=1)
        ends = np.cumsum(lengths)
        has_tokens = lengths > 0
        if self._is_bad(tags, (ends - lengths)[has_tokens], ends[has_tokens]).any():
            starts, ends = _find_runs(log_probs, lengths)
            sizes = ends - starts
            is_bad = self._is_bad(tags, starts, ends)[ranges(starts, sizes)]
            invalid = np.unique(np.repeat(np.arange(len(starts)), sizes)[is_bad])
            if len(invalid):
                self._search(log_probs, tags, starts[invalid], sizes[invalid])
        return tags

    def find_more(
        self, log_probs: Floats2d, lengths: Ints1d, tags: Ints1d, offsets: Floats1d
    ) -> Ints1d:
        """The most probable tag sequence of each document with further spans, of less probability.

        The spans of the given tags, those of `viterbi`, stay as they are. Elsewhere the odds of
        each span are multiplied by the exponential of its label's offset, once for the whole span:
        with an offset for each token, spans would also become longer.

        Args:
            offsets: (labels,) of 0 or more; the others are as in `viterbi`.
        """
        of_tags = np.append(offsets, 0.0).astype(log_probs.dtype)[self.label_of_tag]
        found = log_probs + np.where(self.continues_span, 0.0, of_tags).astype(log_probs.dtype)
        kept = np.flatnonzero(tags)
        found[kept] = -np.inf
        found[kept, tags[kept]] = 0.0
        return self.viterbi(found, lengths)

    def _is_bad(self, tags: Ints1d, starts: Ints1d, ends: Ints1d) -> np.ndarray:
        """(tokens,) where the tags of runs of tokens are invalid; meaningless between the runs."""
        is_bad = np.zeros(len(tags), dtype=bool)
        is_bad[1:] = ~self.allowed[tags[:-1], tags[1:]]
        # The first token has no tag before it, and stands for the end of its run as well.
        is_bad[starts] = ~(self.may_start[tags[starts]] & self.may_end[tags[ends - 1]])
        return is_bad

    def _search(self, log_probs: Floats2d, tags: Ints1d, starts: Ints1d, lengths: Ints1d) -> None:
        """Set the tags of runs of tokens to their most probable valid sequence (Viterbi).

        A tag that continues a span follows B or I of its label. Every other tag follows the best of
        the tags that leave no span open. So not every pair of tags is compared.

        `starts` and `lengths`, (runs,), are the first token and the number of tokens of each run.
        """
        order = np.argsort(-lengths, kind="stable")
        starts, lengths = starts[order], lengths[order]
        # How many runs, the longest first, have a token at each place.
        reach = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
        left_open = np.where(self.may_end, 0.0, -np.inf)
        totals = np.where(self.may_start, log_probs[starts], -np.inf).astype("float64")
        begin = 1 + len(self.parts) * np.maximum(self.label_of_tag, 0)  # B of a tag's label, then I
        before = []  # for each place but the first, the best tag before each tag: (runs, tags)
        for place in range(1, lengths[0]):
            known = totals[: reach[place]]
            closed = (known + left_open).argmax(axis=1)
            opener = begin + (known[:, begin + 1] > known[:, begin])
            before.append(np.where(self.continues_span, opener, closed[:, None]))
            known[:] = np.take_along_axis(known, before[-1], axis=1)
            known += log_probs[starts[: reach[place]] + place]
        tags[starts + lengths - 1] = (totals + left_open).argmax(axis=1)
        for place in range(lengths[0] - 1, 0, -1):
            runs = np.arange(reach[place])
            tags[starts[runs] + place - 1] = before[place - 1][runs, tags[starts[runs] + place]]


def _find_runs(log_probs: Floats2d, lengths: Ints1d) -> tuple[Ints1d, Ints1d]:
    """The runs of tokens between those that are certainly outside in the best valid sequence.

    A valid sequence stays valid without one of its spans. A token is therefore outside if the tags
    of every span over it, each at its best, are less probable than "O" on the same tokens. Runs are
    the first token and the token after the last: (runs,) each.
    """
    gain = np.cumsum(log_probs[:, 0] - log_probs[:, 1:].max(axis=1), dtype="float64")
    gain = np.concatenate([[0.0], gain])  # of "O" on all tokens before each place
    least_after = np.minimum.accumulate(gain[:0:-1])[::-1]
    # Written so that all tokens are searched if a score is not a number.
    is_open = ~(least_after > np.maximum.accumulate(gain[:-1]))
    is_border = np.zeros(len(gain), dtype=bool)
    is_border[np.cumsum(lengths)] = True
    is_open = np.concatenate([[False], is_open, [False]])
    starts = np.flatnonzero(is_open[1:] & (~is_open[:-1] | is_border))
    ends = np.flatnonzero(is_open[:-1] & (~is_open[1:] | is_border))
    return starts, ends
