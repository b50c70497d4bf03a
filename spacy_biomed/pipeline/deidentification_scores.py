"""Scores of de-identification: what stays readable, and in how many documents nothing does."""

from collections import Counter, defaultdict
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
    """Counts of documents and of letters and digits, and by label of mentions and replacements."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.by_label: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, text: str, gold: Iterable[Gold], replacements: Sequence[Replacement]) -> None:
        """Count a document, by its original text and the mentions that identify somebody.

        Only letters and digits count. What was replaced by itself, as a low age, was found.
        """
        gold = set(gold)
        counts = np.fromiter(map(str.isalnum, text), dtype=bool, count=len(text))
        is_gold = _cover(len(text), gold)
        is_replaced = _cover(len(text), [(one.start, one.end, one.label) for one in replacements])
        left = counts & is_gold & ~is_replaced
        self.counts.update(
            documents=1,
            clean=int(not left.any()),
            gold=int((counts & is_gold).sum()),
            readable=int(left.sum()),
            replaced=int((counts & is_replaced).sum()),
            needless=int((counts & is_replaced & ~is_gold).sum()),
        )
        for start, end, label in gold:
            self.by_label[label]["missed" if left[start:end].any() else "found"] += 1
        for one in replacements:
            is_right = is_gold[one.start : one.end].any()
            self.by_label[one.label]["right" if is_right else "wrong"] += 1

    def scores(self) -> dict[str, Any]:
        """The scores by name; None if there are no documents. See `score_deidentification`."""
        counts, every = self.counts, sum(self.by_label.values(), Counter[str]())
        scores: dict[str, object] = {
            **{f"deid_{letter}": rate for letter, rate in _rates(every).items()},
            "deid_clean_documents": _share(counts["clean"], counts["documents"]),
            "deid_readable_characters": _share(counts["readable"], counts["gold"]),
            "deid_needless_characters": _share(counts["needless"], counts["replaced"]),
            "deid_per_type": {label: _rates(one) for label, one in sorted(self.by_label.items())},
        }
        return scores if counts["documents"] else dict.fromkeys(scores)


def score_deidentification(
    examples: Iterable[Example],
    *,
    is_identifying: Callable[[str], bool] = lambda label: True,
    spans_key: str | None = None,
    **cfg: object,
) -> dict[str, object]:
    """Score de-identified documents against the gold mentions of the source.

    A gold mention is found if all of its letters and digits are in replacements, whatever their
    labels. Documents whose mentions are not annotated, or that were not de-identified, are not
    scored. Mentions of labels that are not `is_identifying` are ignored.

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
        every = [*map(locate_span, spans), *get_unaligned(example.reference)]
        gold = [one for one in every if is_identifying(one[2])]
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


def _rates(counts: Counter[str]) -> dict[str, float]:
    """Precision of replacements, recall of gold mentions, and F1; 0 where nothing counts."""
    precision = _share(counts["right"], counts["right"] + counts["wrong"])
    recall = _share(counts["found"], counts["found"] + counts["missed"])
    total = precision + recall
    return {"p": precision, "r": recall, "f": 2 * precision * recall / total if total else 0.0}


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
