"""Precision, recall and F1 of labelled annotation, over all labels and for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import fmean

from spacy.scorer import PRFScore


class LabelScores:
    """Counts of what is found, wrong and missed, overall and by label.

    All items are tuples that end with their label.
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        """Count nothing yet; these labels have a score even without items."""
        self.documents = 0
        self.overall = PRFScore()
        self.by_label = {label: PRFScore() for label in labels}

    def add(self, gold: set[tuple], predicted: set[tuple], lost: Collection[tuple] = ()) -> None:
        """Count the items of a document; `lost` gold items cannot be predicted, and are missed."""
        self.documents += 1
        self.overall.score_set(predicted, gold)
        self.overall.fn += len(lost)
        for label in {item[-1] for item in (*gold, *predicted, *lost)}:
            score = self.by_label.setdefault(label, PRFScore())
            score.score_set(
                {item for item in predicted if item[-1] == label},
                {item for item in gold if item[-1] == label},
            )
            score.fn += sum(item[-1] == label for item in lost)

    @classmethod
    def count(
        cls, compared: Iterable[tuple[set, set, Collection] | None], labels: Iterable[str] = ()
    ) -> LabelScores:
        """The counts of documents, each the arguments of `add`; None is left out."""
        scores = cls(labels)
        for one in compared:
            if one is not None:
                scores.add(*one)
        return scores

    def scores(self, average: str, per_type: str) -> dict[str, object]:
        """The scores over all labels, whose names begin with `average`, and those of each label.

        They are None if there are no documents.
        """
        by_label = {label: score.to_dict() for label, score in sorted(self.by_label.items())}
        scores = {
            f"{average}_p": self.overall.precision,
            f"{average}_r": self.overall.recall,
            f"{average}_f": self.overall.fscore,
            per_type: by_label,
        }
        return scores if self.documents else dict.fromkeys(scores)

    def macro_scores(self, average: str) -> dict[str, float | None]:
        """Precision, recall and F1, each the mean over the labels; None if there are no documents.

        Only labels with a gold or a predicted item count, as in scikit-learn: the others have no
        precision and no recall.
        """
        names = {"p": "precision", "r": "recall", "f": "fscore"}
        occurring = [score for score in self.by_label.values() if score.tp + score.fp + score.fn]
        return {
            f"{average}_{letter}": fmean([getattr(score, name) for score in occurring] or [0.0])
            if self.documents
            else None
            for letter, name in names.items()
        }
