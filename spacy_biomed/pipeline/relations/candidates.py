"""Pairs of mentions that may be related, the texts that show them, and what is true of them."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, cast

import numpy as np
from spacy.attrs import IDX, LENGTH, SENT_START
from spacy.tokens import Doc, Span
from thinc.types import Floats2d, Ints1d

from ...annotations.marked_arguments import Argument, Style, find_marked_arguments, mark_arguments
from ...annotations.pairs import PAIR_SEPARATOR
from ...annotations.relation_layer import SpanRelation
from ...encoders.batching.ragged import ranges
from ...encoders.batching.windows import batch_by_length
from ...errors import BiomedError, quote

_WORD = re.compile(r"\S+")


class Candidate(NamedTuple):
    """Two mentions of a document that may be related.

    Attributes:
        doc: the document's place in its batch.
        window: half-open character offsets of the text that the encoder reads; None if it reads the
            whole document, in which the two mentions are marked.
        words: tokens in the window.
    """

    doc: int
    head: Argument
    tail: Argument
    window: tuple[int, int] | None
    words: int

    def text(self, doc_text: str, style: Style) -> str:
        """The text that the encoder reads for a candidate with a window."""
        window = cast("tuple[int, int]", self.window)
        text = mark_arguments(doc_text, self.head, self.tail, style, window)
        return text.replace(PAIR_SEPARATOR, " ")  # the window of a pair is one text

    def narrow(self, doc_text: str, words: int) -> "Candidate":
        """The candidate with at most so many words between its arguments and each window's end."""
        start, end = cast("tuple[int, int]", self.window)
        first, last = min(self.head.start, self.tail.start), max(self.head.end, self.tail.end)
        before = [word.start() for word in _WORD.finditer(doc_text, start, first)]
        after = [word.end() for word in _WORD.finditer(doc_text, last, end)]
        begin = [start, *before, first][max(len(before) + 1 - words, 0)]
        stop = [last, *after, end][min(words, len(after) + 1)]
        return self._replace(window=(begin, stop))


def get_argument(span: Span) -> Argument:
    return Argument(span.start_char, span.end_char, span.label_)


def get_arguments(relation: SpanRelation, directed: bool) -> tuple[Argument, Argument]:
    return order_arguments(get_argument(relation.head), get_argument(relation.tail), directed)


def order_arguments(head: Argument, tail: Argument, directed: bool) -> tuple[Argument, Argument]:
    """Put two arguments in text order if the direction does not matter."""
    return (head, tail) if directed or head <= tail else (tail, head)


def find_marked(reference: Doc) -> tuple[Argument, Argument] | None:
    """The arguments that an annotated document marks in its text; None if it marks none."""
    # Where entities are annotated, the same signs are a part of the text.
    if reference.has_annotation("ENT_IOB") or reference.spans:
        return None
    return find_marked_arguments(reference.text)


def find_candidates(
    place: int,
    doc: Doc,
    mentions: Collection[Argument],
    *,
    pairs: Collection[tuple[str, str]],
    directed: bool,
    max_distance: int,
    reference: Doc | None = None,
    reads_marks: bool = True,
) -> list[Candidate]:
    """Find the pairs of mentions that may be related.

    With `reads_marks` a document whose text marks two arguments is a single candidate. Otherwise
    two mentions are a candidate if their types are an allowed pair, they share no character, at
    most `max_distance` tokens lie between them, and they begin in the same sentence. The window is
    their sentence, but at most `max_distance` tokens on each side.

    Args:
        place: the document's place in its batch.
        mentions: of the document, in any order.
        pairs: allowed types of head and tail.
        directed: whether two mentions are two candidates if both orders are allowed. Otherwise they
            are one candidate, and the first in the text is the head.
        max_distance: in tokens.
        reference: the annotated document, whose sentences count if `doc` has none.
    """
    marked = find_marked_arguments(doc.text) if reads_marks else None
    if marked is not None:
        return [Candidate(place, *marked, None, len(doc))]
    ordered = sorted(set(mentions))
    if len(ordered) < 2 or not pairs or not len(doc):
        return []
    starts, lengths = doc.to_array([IDX, LENGTH]).astype("int64").T
    sentences = _find_sentences(doc, reference, starts)
    places = np.array([mention[:2] for mention in ordered])
    first, last = np.maximum(np.searchsorted(starts, places - [0, 1], side="right") - 1, 0).T
    sentence = np.searchsorted(sentences, first, side="right") - 1
    left, right = find_near(first, last + 1, max_distance, sentence)
    is_apart = places[right, 0] >= places[left, 1]
    left, right = left[is_apart], right[is_apart]
    allowed = set(map(tuple, pairs))
    chosen = []
    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        types = ordered[one].label, ordered[other].label
        if types in allowed:
            chosen.append((one, other))
        if types[::-1] in allowed and (directed or types not in allowed):
            chosen.append((other, one))
    heads, tails = np.array(sorted(chosen), dtype="int64").reshape(-1, 2).T
    begin, end = np.minimum(first[heads], first[tails]), np.maximum(last[heads], last[tails])
    borders = np.append(sentences, len(starts))
    sentence_begin = borders[np.searchsorted(sentences, begin, side="right") - 1]
    sentence_end = borders[np.searchsorted(sentences, end, side="right")]
    begin = np.maximum(sentence_begin, begin - max_distance)
    end = np.minimum(sentence_end, end + 1 + max_distance)
    windows = zip(starts[begin].tolist(), (starts + lengths)[end - 1].tolist(), strict=True)
    found = zip(heads.tolist(), tails.tolist(), windows, (end - begin).tolist(), strict=True)
    return [
        Candidate(place, ordered[head], ordered[tail], window, words)
        for head, tail, window, words in found
    ]


def _find_sentences(doc: Doc, reference: Doc | None, starts: Ints1d) -> Ints1d:
    """(sentences,) the first token of each; a document without sentences counts as one."""
    for divided in (doc, reference):
        if divided and divided.has_annotation("SENT_START"):
            offsets, is_start = divided.to_array([IDX, SENT_START]).astype("int64").T
            first = np.searchsorted(starts, offsets[is_start == 1])
            return np.unique(np.concatenate([[0], first[first < len(starts)]]))
    return np.zeros(1, dtype="int64")


def find_near(
    first: Ints1d, end: Ints1d, max_distance: int, sentence: Ints1d | None = None
) -> tuple[Ints1d, Ints1d]:
    """(pairs,) left and right mentions in one sentence, at most `max_distance` tokens apart.

    `first`, `end` and `sentence` are (mentions,), in order. Mentions of a pair may overlap.
    """
    mention = np.arange(len(first))
    beyond = np.searchsorted(first, end + max_distance, side="right")
    if sentence is not None:
        beyond = np.minimum(beyond, np.searchsorted(sentence, sentence, side="right"))
    counts = np.maximum(beyond - mention - 1, 0)
    return np.repeat(mention, counts), ranges(mention + 1, counts)


def group_windows(candidates: Sequence[Candidate], most_words: int) -> list[Ints1d]:
    """The candidates whose windows are encoded together, as indices."""
    windows = np.flatnonzero([candidate.window is not None for candidate in candidates])
    words = np.array([candidates[i].words for i in windows.tolist()], dtype="int64")
    return [windows[chosen] for chosen in batch_by_length(words, most_words)]


def find_gold_labels(
    candidates: Sequence[Candidate], relations: Iterable[SpanRelation], directed: bool
) -> list[set[str]]:
    """Find the gold labels of each candidate of one document."""
    if candidates and candidates[0].window is None:
        return [{relation.label for relation in relations}]
    labels_of: dict[tuple[Argument, ...], set[str]] = {}
    for relation in relations:
        labels_of.setdefault(get_arguments(relation, directed), set()).add(relation.label)
    return [
        labels_of.get(order_arguments(candidate.head, candidate.tail, directed), set())
        for candidate in candidates
    ]


def create_targets(
    gold: Sequence[set[str]], labels: Sequence[str], *, exclusive: bool, name: str
) -> Floats2d:
    """1.0 for what is true, else 0.0, (candidates, scores); exclusive labels end with none.

    `name` is the component's, for messages.
    """
    targets = np.zeros((len(gold), len(labels) + exclusive), dtype="float32")
    for row, found in enumerate(gold):
        if exclusive and len(found) > 1:
            raise BiomedError(
                f"a pair of the corpus has the relations {' and '.join(map(quote, sorted(found)))},"
                f" and those of '{name}' exclude each other: keep one, or set exclusive = false"
            )
        targets[row, [labels.index(label) for label in found]] = 1.0
    if exclusive:
        targets[:, -1] = ~targets.any(axis=1)
    return targets
