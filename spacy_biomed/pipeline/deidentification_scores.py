"""Scores of de-identification: what stays readable, and in how many documents nothing does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from spacy.training import Example

from ..annotations.deidentified import Replacement
from ..annotations.document_keys import get_unaligned, locate_span
from .mention_layer import gold_spans

# A mention as (start, end, label), in characters, end exclusive.
Gold = tuple[int, int, str]


class DeidentificationScores:
    """Counts of what was replaced and what should have been, over documents.

    Only letters and digits count as characters: a comma that is left tells nothing.

    Attributes:
        clean: documents in which no character of a gold mention is readable.
        gold, readable: characters of gold mentions, and those of them that were not replaced.
        replaced, needless: characters that were replaced, and those of them in no gold mention.
        found, missed: gold mentions by their label.
        right, wrong: replacements by their label; a right one shares a character with a gold
            mention.
    """

    def __init__(self) -> None:
        self.documents = self.clean = 0
        self.gold = self.readable = self.replaced = self.needless = 0
        self.found, self.missed = Counter[str](), Counter[str]()
        self.right, self.wrong = Counter[str](), Counter[str]()

    def add(self, text: str, gold: Iterable[Gold], replacements: Sequence[Replacement]) -> None:
        """Count a document, by its original text and the mentions that identify somebody.

        A replacement may equal what it replaces, as an age below the limit. Such a mention was
        found, and stays on purpose.
        """
        gold = set(gold)
        counts = np.fromiter(map(str.isalnum, text), dtype=bool, count=len(text))
        is_gold = _cover(len(text), gold)
        is_replaced = _cover(len(text), [(one.start, one.end, one.label) for one in replacements])
        left = counts & is_gold & ~is_replaced
        self.documents += 1
        self.clean += not left.any()
        self.gold += int((counts & is_gold).sum())
        self.readable += int(left.sum())
        self.replaced += int((counts & is_replaced).sum())
        self.needless += int((counts & is_replaced & ~is_gold).sum())
        for start, end, label in gold:
            (self.missed if left[start:end].any() else self.found)[label] += 1
        for one in replacements:
            is_right = is_gold[one.start : one.end].any()
            (self.right if is_right else self.wrong)[one.label] += 1

    def rates(self, label: str | None = None) -> dict[str, float]:
        """Precision, recall and F1 of a label, or of all; 0 where nothing counts."""
        counts = (self.found, self.missed, self.right, self.wrong)
        found, missed, right, wrong = (
            one.total() if label is None else one[label] for one in counts
        )
        precision, recall = _share(right, right + wrong), _share(found, found + missed)
        total = precision + recall
        return {"p": precision, "r": recall, "f": 2 * precision * recall / total if total else 0.0}

    def scores(self) -> dict[str, Any]:
        """The scores by name; None if there are no documents. See `score_deidentification`."""
        every = self.rates()
        labels = {*self.found, *self.missed, *self.right, *self.wrong}
        scores: dict[str, object] = {
            "deid_p": every["p"],
            "deid_r": every["r"],
            "deid_f": every["f"],
            "deid_clean_documents": _share(self.clean, self.documents),
            "deid_readable_characters": _share(self.readable, self.gold),
            "deid_needless_characters": _share(self.needless, self.replaced),
            "deid_per_type": {label: self.rates(label) for label in sorted(labels)},
        }
        return scores if self.documents else dict.fromkeys(scores)


def score_deidentification(
    examples: Iterable[Example],
    *,
    is_identifying: Callable[[str], bool] = lambda label: True,
    spans_key: str | None = None,
    **cfg: object,
) -> dict[str, object]:
    """Score de-identified documents against the gold mentions of the source.

    A gold mention is found if all of its letters and digits are in replacements, whatever their
    labels. This includes gold mentions that do not fit token boundaries. Documents whose mentions
    are not annotated, or that were not de-identified, are not scored.

    Args:
        examples: with `doc._.deidentified` in the predicted document.
        is_identifying: whether mentions of a label have to be removed; the others are ignored.
        spans_key: span group of the gold mentions; None for `doc.ents`.

    Returns:
        the scores by name:

        - `deid_r`: share of the gold mentions that were found.
        - `deid_p`: share of the replacements that share a character with a gold mention.
        - `deid_f`: the harmonic mean of both.
        - `deid_per_type`: these three for each label, recall by the gold label, precision by the
          replacement's.
        - `deid_clean_documents`: share of the documents in which all gold mentions were found.
        - `deid_readable_characters`: share of the letters and digits of gold mentions that were not
          replaced.
        - `deid_needless_characters`: share of the replaced letters and digits that are in no gold
          mention.
    """
    counts = DeidentificationScores()
    for example in examples:
        spans = gold_spans(example.reference, spans_key)
        deidentified = example.predicted._.deidentified
        if spans is None or deidentified is None:
            continue
        gold = [*map(locate_span, spans)]
        gold += get_unaligned(example.reference)
        gold = [one for one in gold if is_identifying(one[2])]
        counts.add(example.reference.text, gold, deidentified.replacements)
    return counts.scores()


def deidentification_scorer_v1() -> Callable:
    """`spacy_biomed.deidentification_scorer.v1`: see `score_deidentification`."""
    return score_deidentification


def _cover(length: int, spans: Iterable[Gold]) -> np.ndarray:
    is_covered = np.zeros(length, dtype=bool)
    for start, end, _ in spans:
        is_covered[start:end] = True
    return is_covered


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
