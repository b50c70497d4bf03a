"""The component `biomed_similarity`: how similar two texts are, over a shared encoder."""

from collections.abc import Callable, Iterable
from typing import ClassVar

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, to_numpy
from thinc.types import Floats1d, Floats2d

from ..annotations.pairs import mark_pair
from ..errors import BiomedError, quote
from .encoder_head import CatsHead, own_arguments, quote_text
from .factories import configure_head, register_factory

FACTORY = "biomed_similarity"


def similarity_scorer_v1() -> Callable:
    """`spacy_biomed.similarity_scorer.v1`: see `score_similarity`."""
    return score_similarity


class BiomedSimilarity(CatsHead):
    """Predict the similarity of two texts from the encoder's vector of their first position.

    The architecture is a linear layer over the vector of [CLS] or <s> of the pair, trained with
    mean squared error, as for sentence similarity in MT-BlueBERT (Peng et al. 2020, "An Empirical
    Study of Multi-Task Learning on BERT for Biomedical Text Mining", section 3). Internally numbers
    are in standard deviations from the mean of the training part, so that one learning rate fits
    corpora annotated from 0 to 5 and from 0 to 1. With `standardize = false` they are as annotated,
    as in the papers. Predictions are in the corpus's units.

    The number is stored in `doc.cats` under `label`; other entries are kept. A document without the
    label in its reference is not annotated: it has no loss and is not scored. The two texts are set
    as `doc.spans["pair"]`. A document that is not a pair gets a number too, so a number can also be
    learned for single texts.

    `score_similarity` describes the scores.

    Attributes:
        model: `spacy_biomed.TextClassifier.v1`, or any model that returns numbers, (docs, 1).
        label: key of the number in `doc.cats`.
        standardize: whether the model's scores are in standard deviations from the mean.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> similarity = nlp.add_pipe("biomed_similarity", config={"label": "relatedness"})
        >>> similarity.labels
        ('relatedness',)
    """

    default_name, task_name = FACTORY, "similarity of sentences"
    score_prefix, main = "similarity", "pearson"
    score_titles: ClassVar = {
        "Pearson's correlation": "pearson",
        "Spearman's rank correlation": "spearman",
    }
    learns: ClassVar = {"similarity": {}}
    config_templates: ClassVar = {"similarity": "similarity"}
    recognised_by: ClassVar = {"similarity": {"means": True, "pairs": True}}

    @classmethod
    def class_settings(cls, classes: list[str]) -> tuple[dict[str, object], dict[str, object]]:
        if len(classes) > 1:
            raise BiomedError(
                "a similarity task has one number in doc.cats, but this corpus has "
                f"{', '.join(classes)}: keep one"
            )
        return {"label": classes[0]}, {}

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Floats2d],
        name: str = FACTORY,
        *,
        label: str = "similarity",
        standardize: bool = True,
        learn_rate_factor: float = 1.0,
        scorer: Callable | None = None,
    ):
        settings = own_arguments(locals())
        del settings["label"]
        super().__init__(**settings, mean=0.0, deviation=1.0)
        super().add_label(label)

    @property
    def label(self) -> str:
        """The key of the number in `doc.cats`."""
        return self.labels[0]

    def add_label(self, label: str) -> int:
        """Return 0: the only label is a setting; raise BiomedError if it is another label."""
        if label != self.label:
            raise BiomedError(
                f"'{self.name}' has one label, '{self.label}': set [components.{self.name}] label"
            )
        return 0

    def predict(self, docs: Iterable[Doc]) -> Floats1d:
        """The number for each document, (docs,), in the corpus's units and in main memory.

        For a document without text it depends only on the model's bias.
        """
        docs = list(docs)
        if not docs:
            return np.zeros(0, dtype="float32")
        scores = to_numpy(self.predict_scores(docs))[:, 0]
        return self.cfg["mean"] + self.cfg["deviation"] * scores

    def set_annotations(self, docs: Iterable[Doc], numbers: Floats1d) -> None:
        """Write the numbers to `doc.cats`, and the two texts to `doc.spans["pair"]`."""
        for doc, number in zip(docs, numbers.tolist(), strict=True):
            mark_pair(doc).cats[self.label] = number

    def tally(self, examples: Iterable[Example]) -> list[dict[str, list[float]]]:
        """The predicted and the gold number of each annotated document."""
        return [
            {self.label: [example.predicted.cats[self.label], example.reference.cats[self.label]]}
            for example in examples
            if self.label in example.reference.cats and self.label in example.predicted.cats
        ]

    def has_annotation(self, example: Example) -> bool:
        return self.label in example.reference.cats

    def get_loss(self, examples: Iterable[Example], scores: Floats2d) -> tuple[float, Floats2d]:
        """Mean squared error over the annotated documents of the batch, and its gradient.

        The scores, (docs, 1), and the loss are in standard deviations unless `standardize` is
        false.
        """
        xp = self.model.ops.xp
        gold = np.array([self._target(example) for example in examples], dtype="float32")
        targets = xp.asarray((gold - self.cfg["mean"]) / self.cfg["deviation"])[:, None]
        known = ~xp.isnan(targets)
        errors = xp.where(known, scores - targets, 0.0)
        count = max(int(known.sum()), 1)
        return float((errors**2).sum()) / count, (2 * errors / count).astype(scores.dtype)

    def _target(self, example: Example) -> float:
        """The gold number; NaN if it is not annotated."""
        if len(example.predicted) == 0:  # nothing was encoded
            return np.nan
        return gold_number(example.reference, self.label)

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Size the model, and set mean and standard deviation if the numbers are standardized.

        Raises:
            BiomedError: if no example has the number, if a number is not finite, or if another head
                has the same label.
        """
        validate_get_examples(get_examples, "BiomedSimilarity.initialize")
        self.refuse_shared_labels(nlp)
        numbers = np.array([self._target(example) for example in get_examples()])
        numbers = numbers[~np.isnan(numbers)]
        if len(numbers) == 0:
            raise BiomedError(
                f"no document of the training corpus has the number '{self.label}' of "
                f"'{self.name}' (doc.cats): check the corpus, or set [components.{self.name}] label"
            )
        if self.cfg["standardize"]:
            self.cfg["mean"] = float(numbers.mean())
            # If all numbers are the same, as in a toy corpus, the deviation would divide by 0.
            self.cfg["deviation"] = float(numbers.std()) if np.ptp(numbers) else 1.0
        self.size_model(get_examples(), 1)


make_biomed_similarity = register_factory(
    FACTORY,
    BiomedSimilarity,
    configure_head("TextClassifier", "similarity_scorer", "cls", hidden_width=0, dropout=0.1),
    assigns=["doc.cats"],
    default_score_weights={"similarity_pearson": 1.0, "similarity_spearman": None},
)


def gold_number(reference: Doc, label: str) -> float:
    """The number in `doc.cats`, which must be finite; NaN if it is not annotated."""
    number = float(reference.cats.get(label, np.nan))
    if label in reference.cats and not np.isfinite(number):
        text = quote_text(reference)
        raise BiomedError(f"{quote(label)} of {text} is {number}: use a finite number")
    return number


def score_similarity(
    examples: Iterable[Example], *, labels: Iterable[str], **cfg: object
) -> dict[str, float | None]:
    """Correlations of the predicted and the gold numbers of one label, where both are there.

    Returns:
        `similarity_pearson`, which papers report for sentence similarity, and
        `similarity_spearman`; None with fewer than two documents, or if all gold numbers are the
        same.
    """
    [label] = labels
    found = [
        (example.predicted.cats[label], gold_number(example.reference, label))
        for example in examples
        if label in example.reference.cats and label in example.predicted.cats
    ]
    predicted, gold = np.array(found, dtype="float64").reshape(-1, 2).T
    return {
        "similarity_pearson": correlate(predicted, gold),
        "similarity_spearman": correlate(rank(predicted), rank(gold)),
    }


def correlate(predicted: Floats1d, gold: Floats1d) -> float | None:
    """Pearson's correlation coefficient of two series, (n,) each; None if it is undefined.

    It is 0 if all predictions are the same, or one is not finite (of a model that diverged).
    """
    if len(gold) < 2 or np.ptp(gold) == 0.0:
        return None
    if not 0.0 < np.ptp(predicted) < np.inf:
        return 0.0
    return float(np.corrcoef(predicted, gold)[0, 1])


def rank(values: Floats1d) -> Floats1d:
    """(n,) the rank of each number, from 1; equal numbers get the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
