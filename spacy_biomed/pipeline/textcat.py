"""The component `biomed_textcat`: classes of a text over a shared encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, ClassVar, cast

import numpy as np
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model, get_array_module, to_numpy
from thinc.types import Floats1d, Floats2d

from ..annotations.document_keys import PART_OF
from ..annotations.pairs import mark_pair
from ..annotations.soft_labels import get_soft_labels, soft_label_classes
from ..errors import BiomedError, quote
from .described import ShownScores
from .encoder_head import (
    CatsHead,
    Compared,
    check_has_labels,
    check_share,
    quote_text,
    validate_source,
)
from .factories import configure_head, register_factory

FACTORY = "biomed_textcat"

# Tolerance for the sum of the values of exclusive classes, since people round: 0.33 three times.
SUM_TOLERANCE = 0.02

# The scores besides `cats_score`.
OTHER_SCORES = (
    *("cats_score_desc", "cats_acc", "cats_micro_p", "cats_micro_r", "cats_micro_f"),
    *("cats_macro_p", "cats_macro_r", "cats_macro_f", "cats_macro_auc"),
    *("cats_f_per_type", "cats_auc_per_type"),
    *("cats_example_p", "cats_example_r", "cats_example_f"),
    *("cats_text_macro_p", "cats_text_macro_r", "cats_text_macro_f"),
)


def classification_scorer_v1() -> Callable:
    """`spacy_biomed.classification_scorer.v1`: see `score_classes`."""
    return score_classes


class BiomedTextCategorizer(CatsHead):
    """Classify documents by the encoder's vector of their first position.

    The architecture is a linear layer over the vector of [CLS] or <s>, as in the fine-tuning of
    BERT. Exclusive classes have a softmax, trained with cross-entropy; other classes have a sigmoid
    each, trained with binary cross-entropy. Probabilities are in `doc.cats`. A pair of texts
    (`spacy_biomed.pair`) is classified like any document, by the encoder's vector for both.

    The component reads and writes only its labels in `doc.cats`, so that a pipeline can have
    several. A label that is not in a reference's `cats` is not annotated: it has no loss and is not
    scored. Exclusive classes are annotated only if a document has values for all of them. Values
    between 0 and 1 are learned as the probability of the label.

    Scores are spaCy's `cats_score`, `cats_macro_f`, ... and, if classes are not exclusive, the
    example-based `cats_example_f` and the scores of whole texts `cats_text_macro_f`, which differ
    if documents are parts of texts, such as sentences of abstracts (`score_classes`). If the
    component's name is not the factory's, the scores include it, as in `cats_{name}_score`, to
    distinguish several components. Then `training.score_weights` has to list these names.

    Attributes:
        model: `spacy_biomed.TextClassifier.v1`, or any model that returns scores, (docs, labels).
        exclusive: whether exactly one label applies to a document.
        threshold: minimum probability of a non-exclusive label to count as predicted in the scores.
        teacher_share: weight of the teacher's probability in the target of an annotated label, from
            0 to 1, if the corpus has a teacher's probabilities (`spacy biomed teach`).

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> textcat = nlp.add_pipe("biomed_textcat", config={"exclusive": True})
        >>> [textcat.add_label(label) for label in ("entailment", "neutral", "contradiction")]
        [1, 1, 1]
        >>> textcat.labels
        ('entailment', 'neutral', 'contradiction')
    """

    default_name, task_name = FACTORY, "document classification"
    score_prefix = "cats"
    learns: ClassVar = {
        "textcat_multilabel": {"exclusive": False},
        "pair_classification": {"exclusive": True},
    }
    config_templates: ClassVar = {"textcat_multilabel": "textcat", "pair_classification": "pair"}

    @classmethod
    def main_score(cls, name: str, settings: Mapping[str, object]) -> str:
        """Accuracy for exclusive classes, as papers report it for inference; else macro F1."""
        main = "acc" if settings.get("exclusive") else "score"
        return f"{cls.begin_scores(name, settings)}_{main}"

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
        begin = cls.begin_scores(name, settings)
        return ShownScores(
            macro={"macro average over classes": f"{begin}_score"},
            numbers={"accuracy": f"{begin}_acc"} if settings.get("exclusive") else {},
            per_type=f"{begin}_f_per_type",
        )

    @classmethod
    def recognise(cls, part: Mapping[str, object]) -> str | None:
        """Documents that have mentions or relations too are for the heads of these."""
        if not part.get("classes") or part.get("mentions") or part.get("relations"):
            return None
        return "pair_classification" if part.get("pairs") else "textcat_multilabel"

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Floats2d],
        name: str = FACTORY,
        *,
        exclusive: bool = False,
        threshold: float = 0.5,
        learn_rate_factor: float = 1.0,
        teacher_share: float = 0.5,
        scorer: Callable | None = None,
    ):
        check_share(name, "threshold", threshold)
        check_share(name, "teacher_share", teacher_share)
        super().__init__(
            vocab,
            model,
            name,
            scorer,
            exclusive=exclusive,
            threshold=threshold,
            positive_label=None,
            learn_rate_factor=learn_rate_factor,
            teacher_share=teacher_share,
        )

    def predict(self, docs: Iterable[Doc]) -> Floats2d:
        """The probability of each label for each document, (docs, labels), in main memory.

        For a document without text it depends only on the labels' biases.
        """
        docs = list(docs)
        if not docs:
            return np.zeros((0, len(self.labels)), dtype="float32")
        scores = to_numpy(self.predict_scores(docs))
        return np.exp(scores - log_normalizer(scores, self.cfg["exclusive"]))

    def classes(self) -> list[str]:
        """The labels, in the order of the columns of `probabilities`."""
        return list(self.labels)

    def probabilities(self, docs: Iterable[Doc]) -> list[Floats2d]:
        """For each document the probability of each label, (1, labels).

        A student learns from these if this component is its teacher.
        """
        return list(self.predict(docs)[:, None])

    def set_annotations(self, docs: Iterable[Doc], probabilities: Floats2d) -> None:
        """Write the probabilities to `doc.cats`; labels of other components are kept.

        Also set the texts of a pair as `doc.spans["pair"]`.
        """
        for doc, row in zip(docs, probabilities.tolist(), strict=True):
            mark_pair(doc).cats.update(zip(self.labels, row, strict=True))

    def compare(self, example: Example) -> Compared | None:
        exclusive, threshold = self.cfg["exclusive"], self.cfg["threshold"]
        gold = _gold_classes(example.reference, list(self.labels), exclusive)
        if not gold:
            return None
        values = {label: example.predicted.cats.get(label, 0.0) for label in self.labels}
        best = max(values, key=values.__getitem__)
        found = {best} if exclusive else {x for x in gold if values[x] >= threshold}
        return {(x,) for x, value in gold.items() if value}, {(x,) for x in found}, ()

    def has_annotation(self, example: Example) -> bool:
        reference = example.reference
        is_gold = not reference.cats.keys().isdisjoint(self.labels)
        return is_gold or bool(soft_label_classes(reference, self.name))

    def get_loss(self, examples: Iterable[Example], scores: Floats2d) -> tuple[float, Floats2d]:
        """Mean cross-entropy over the annotated labels of the batch, and its gradient.

        For exclusive classes it is the mean over annotated documents, else the mean binary
        cross-entropy over annotated labels of documents. The target is the gold value, a teacher's
        probability, or a mixture of the two (Hinton et al. 2015, "Distilling the Knowledge in a
        Neural Network", at temperature 1).

        Args:
            scores: (docs, labels).

        Returns:
            the loss, and its gradient with respect to the scores.
        """
        xp = self.model.ops.xp
        targets = xp.asarray(np.stack([self._targets(example) for example in examples]))
        known = ~xp.isnan(targets)
        targets[~known] = 0.0
        exclusive = self.cfg["exclusive"]
        losses, d_scores = cross_entropy(scores, targets, exclusive)
        count = max(int((known.all(axis=1) if exclusive else known).sum()), 1)
        return float((known * losses).sum()) / count, known * d_scores / count

    def _targets(self, example: Example) -> Floats1d:
        """The target probability of each label: (labels,); NaN where nothing is known."""
        exclusive = self.cfg["exclusive"]
        if len(example.predicted) == 0:  # nothing was encoded
            return np.full(len(self.labels), np.nan, dtype="float32")
        gold = gold_probabilities(example.reference, self.labels, exclusive)
        rows = get_soft_labels(example.reference, self.name, self.classes())
        if rows is None:
            return gold
        (taught,) = rows
        if exclusive:
            total = taught.sum()
            if abs(total - 1.0) > SUM_TOLERANCE:
                raise BiomedError(
                    f"the teacher's classes of '{self.name}' do not exclude each other, and the "
                    "student's do: give both the same setting `exclusive`"
                )
            taught = taught / total
        share = self.cfg["teacher_share"]
        return np.where(np.isnan(gold), taught, share * taught + (1.0 - share) * gold)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: list[str] | None = None,
        positive_label: str | None = None,
    ) -> None:
        """Size the model for the labels.

        The biases of the model's "output_layer", if it has one, start with the shares of the labels
        in the examples, so that the frequencies need not be learned first (Lin et al. 2017, "Focal
        Loss for Dense Object Detection", section 3.3).

        Args:
            labels: the labels; by default those of all training examples, sorted.
            positive_label: one of two exclusive labels, whose F1 becomes `cats_score`.

        Raises:
            BiomedError: if there are no labels, if they do not fit the settings, if a value of an
                example is invalid, or if the examples do not annotate all labels.
        """
        validate_source(get_examples, "BiomedTextCategorizer.initialize")
        for label in self.find_labels(get_examples()) if labels is None else labels:
            self.add_label(label)
        self._check_labels(positive_label)
        self.cfg["positive_label"] = positive_label
        # Checked before training: an error during training would make spaCy save a partial model.
        shares = self._find_shares(get_examples())
        self.size_model(get_examples(), len(self.labels))
        output = self.model.maybe_get_ref("output_layer")
        if output is not None and output.has_param("b"):
            # The scores that correspond to these probabilities.
            biases = np.log(shares if self.cfg["exclusive"] else shares / (1.0 - shares))
            output.set_param("b", self.model.ops.asarray1f(biases))

    def find_labels(self, examples: Iterable[Example]) -> list[str]:
        found: set[str] = set()
        for example in examples:
            found.update(example.reference.cats)
            found.update(soft_label_classes(example.reference, self.name))
        return sorted(found)

    def _check_labels(self, positive_label: str | None) -> None:
        labels, setting = self.labels, f"initialize.components.{self.name}"
        check_has_labels(self, f"class for '{self.name}' to learn (doc.cats)")
        if self.cfg["exclusive"] and len(labels) == 1:
            raise BiomedError(
                f"'{self.name}' has only the label '{labels[0]}', but exclusive classes need at "
                f"least two: give {setting}.labels, or set exclusive = false"
            )
        if positive_label is None:
            return
        if positive_label not in labels or len(labels) != 2 or not self.cfg["exclusive"]:
            raise BiomedError(
                f"{setting}.positive_label = '{positive_label}': it has to be one of two labels "
                f"that exclude each other; '{self.name}' has {', '.join(labels)}"
            )

    def _find_shares(self, examples: Iterable[Example]) -> Floats1d:
        """The share of each label among its annotations: (labels,), above 0 and below 1.

        A document with equal probabilities is added to the examples.

        Raises:
            BiomedError: if the examples annotate some labels and not others.
        """
        labels = self.labels
        unknown = 1.0 / len(labels) if self.cfg["exclusive"] else 0.5
        is_mentioned, sums, counts = False, np.zeros(len(labels)), np.zeros(len(labels))
        for example in examples:
            is_mentioned |= not example.reference.cats.keys().isdisjoint(labels)
            targets = self._targets(example)
            sums += np.nan_to_num(targets)
            counts += ~np.isnan(targets)
        if is_mentioned:
            self._check_known(counts > 0)
        return (sums + unknown) / (counts + 1)

    def _check_known(self, is_known: np.ndarray) -> None:
        """Check that the examples annotate all labels.

        Args:
            is_known: (labels,) whether the examples annotate the label.

        Raises:
            BiomedError: if they do not.
        """
        labels = self.labels
        if is_known.all():
            return
        if self.cfg["exclusive"]:
            raise BiomedError(
                f"no document of the training corpus has all labels of '{self.name}' "
                f"({', '.join(labels)}), as it must if they exclude each other: give it 0.0 for "
                f"those that do not apply, or give initialize.components.{self.name}.labels"
            )
        label = labels[int(np.flatnonzero(~is_known)[0])]
        raise BiomedError(
            f"no document of the training corpus tells whether '{label}' of '{self.name}' applies: "
            f"give it 0.0 or 1.0 in doc.cats, or take it out of "
            f"initialize.components.{self.name}.labels"
        )


make_biomed_textcat = register_factory(
    FACTORY,
    BiomedTextCategorizer,
    configure_head(
        "TextClassifier", "classification_scorer", pooling="cls", hidden_width=0, dropout=0.1
    ),
    assigns=["doc.cats"],
    default_score_weights={"cats_score": 1.0, **dict.fromkeys(OTHER_SCORES)},
)


def log_normalizer(scores: Floats2d, exclusive: bool) -> Floats2d:
    """The numbers to subtract from scores to get log probabilities, without overflow.

    Args:
        scores: (docs, labels).

    Returns:
        (docs, 1) for a softmax over the labels, or (docs, labels) for a sigmoid of each.
    """
    xp = get_array_module(scores)
    if exclusive:
        largest = scores.max(axis=1, keepdims=True)
        return largest + xp.log(xp.exp(scores - largest).sum(axis=1, keepdims=True))
    return xp.maximum(scores, 0.0) + xp.log1p(xp.exp(-xp.abs(scores)))


def cross_entropy(
    scores: Floats2d, targets: Floats2d, exclusive: bool
) -> tuple[Floats2d, Floats2d]:
    """The cross-entropy of each label, and the gradient of their sum: (docs, labels) each.

    Args:
        targets: (docs, labels) the probabilities to learn.
        exclusive: whether the scores are of a softmax over the labels, or each of a sigmoid.
    """
    normalizer = log_normalizer(scores, exclusive)
    losses = targets * (normalizer - scores) if exclusive else normalizer - targets * scores
    return losses, get_array_module(scores).exp(scores - normalizer) - targets


def gold_probabilities(reference: Doc, labels: Iterable[str], exclusive: bool) -> Floats1d:
    """The gold value of each label: (labels,); NaN where it is not annotated.

    Exclusive labels are annotated only if all of them have a value. Their values are scaled to add
    up to exactly 1.

    Raises:
        BiomedError: if a value is not between 0 and 1, or if the values of exclusive labels do not
            add up to 1, within `SUM_TOLERANCE`.
    """
    labels = list(labels)
    values = [reference.cats.get(label, np.nan) for label in labels]
    gold = np.array(values, dtype="float32")
    for label, value in zip(labels, gold.tolist(), strict=True):
        if value < 0.0 or value > 1.0:
            raise BiomedError(
                f"{quote(label)} of {quote_text(reference)} is {value:g}: use a number from 0 to 1"
            )
    if not exclusive:
        return gold
    if np.isnan(gold).any():
        return np.full_like(gold, np.nan)
    total = gold.sum()
    if abs(total - 1.0) > SUM_TOLERANCE:
        applying = [f"{quote(label)} {values[i]:g}" for i, label in enumerate(labels) if values[i]]
        raise BiomedError(
            f"of {len(labels)} labels that exclude each other, {quote_text(reference)} has "
            f"{' and '.join(applying) or 'none'}: let them add up to 1, or set exclusive = false"
        )
    return gold / total


def score_classes(
    examples: Iterable[Example],
    *,
    labels: Iterable[str],
    exclusive: bool = False,
    threshold: float = 0.5,
    positive_label: str | None = None,
    **cfg: object,
) -> dict[str, object]:
    """spaCy's scores of classes, over the given labels, where they are annotated.

    `cats_score` is macro F1 over the classes, which Lewis et al. (2020, "Pretrained Language Models
    for Biomedical and Clinical Tasks", table 1) report for Hallmarks of Cancer, or the positive
    label's F1 if there is one. Exclusive classes also have accuracy, as papers report it for
    inference. Gold values between 0 and 1 count as positive from 0.5 on; of exclusive classes, the
    class with the largest value is positive.

    Classes that are not exclusive have two further groups of scores. Both are of whole texts:
    documents that are parts of one text, such as the sentences of an abstract, count as one
    document, whose classes are those of any of its parts (`doc.user_data["part_of"]`).

    `cats_text_macro_p`, `_r`, `_f`: as `cats_macro_p`, `_r`, `_f`, of whole texts.

    `cats_example_p`, `_r`, `_f`: precision and recall of the classes of each text, averaged over
    the texts, and the harmonic mean of the two averages. The evaluation script of the BLUE
    benchmark (Peng et al. 2019, "Transfer Learning in Biomedical Natural Language Processing")
    computes these for Hallmarks of Cancer, and prints precision and recall under each other's name.
    A text for which nothing is predicted has precision 0. A text without a gold class has no recall
    and is left out; BLUE's corpus has none.

    Returns:
        spaCy's `cats_*` scores, and `cats_acc`, which is None if the classes are not exclusive;
        the scores of whole texts are None if they are. If no document is annotated, all are None
        except `cats_score_desc`.
    """
    labels = list(labels)
    documents: list[_Scored] = []
    texts: dict[str, _Scored] = {}
    for example in examples:
        gold = _gold_classes(example.reference, labels, exclusive)
        if not gold:
            continue
        predicted = {label: example.predicted.cats.get(label, 0.0) for label in labels}
        documents.append(_Scored(predicted, gold))
        text = example.reference.user_data.get(PART_OF)
        whole = texts.setdefault(
            f"part {len(texts)}" if text is None else f"text {text}", _Scored()
        )
        whole.join(documents[-1])
    settings: dict[str, Any] = {
        "getter": lambda cats, attr: cats,
        "labels": labels,
        "multi_label": not exclusive,
        "positive_label": positive_label,
        "threshold": threshold,
    }
    scores = Scorer.score_cats(cast(Any, documents), "cats", **settings)
    # With exactly one predicted and one gold class per document, micro-averaged F1 is accuracy.
    scores["cats_acc"] = scores["cats_micro_f"] if exclusive else None
    whole_texts = list(texts.values())
    of_texts = Scorer.score_cats(cast(Any, whole_texts), "cats", **settings)
    for letter, value in zip("prf", score_by_example(whole_texts, threshold), strict=True):
        scores[f"cats_text_macro_{letter}"] = (
            None if exclusive else of_texts[f"cats_macro_{letter}"]
        )
        scores[f"cats_example_{letter}"] = None if exclusive else value
    if not exclusive:
        scores["cats_score"] = scores["cats_macro_f"]
        scores["cats_score_desc"] = "macro F"
    if not documents:  # `spacy evaluate` prints the description all the same
        return {**dict.fromkeys(scores), "cats_score_desc": scores["cats_score_desc"]}
    return scores


@dataclass(slots=True)
class _Scored:
    """The classes of a document, or of a text of several; spaCy's scorer reads the attributes.

    Attributes:
        predicted: the probability of each label.
        reference: 0.0 or 1.0 for each annotated label.
    """

    predicted: dict[str, float] = field(default_factory=dict)
    reference: dict[str, float] = field(default_factory=dict)

    def join(self, part: _Scored) -> None:
        """Add a part of the text: of two values of a label, the larger counts."""
        for own, added in ((self.predicted, part.predicted), (self.reference, part.reference)):
            for label, value in added.items():
                own[label] = max(own.get(label, 0.0), value)


def score_by_example(
    texts: Iterable[_Scored], threshold: float
) -> tuple[float | None, float | None, float | None]:
    """Precision and recall averaged over texts, and the harmonic mean of the averages.

    Args:
        texts: those without a gold class are left out, and predictions of labels that are not
            annotated are ignored.
        threshold: minimum probability of a predicted class.

    Returns:
        precision, recall and F1; None if no text has a gold class.
    """
    precisions, recalls = [], []
    for text in texts:
        gold = {label for label, value in text.reference.items() if value}
        found = {label for label in text.reference if text.predicted[label] >= threshold}
        if gold:
            precisions.append(len(found & gold) / max(len(found), 1))
            recalls.append(len(found & gold) / len(gold))
    if not recalls:
        return None, None, None
    precision, recall = fmean(precisions), fmean(recalls)
    return precision, recall, 2 * precision * recall / ((precision + recall) or 1.0)


def _gold_classes(reference: Doc, labels: list[str], exclusive: bool) -> dict[str, float]:
    """Each annotated label, with 1.0 if it applies and 0.0 if not."""
    gold = gold_probabilities(reference, labels, exclusive)
    if exclusive and not np.isnan(gold).any():
        gold = np.eye(len(gold))[gold.argmax()]
    values = zip(labels, gold.tolist(), strict=True)
    return {label: float(value >= 0.5) for label, value in values if not np.isnan(value)}
