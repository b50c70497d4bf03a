"""The component `biomed_textcat`: classes of a text over a shared encoder."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model, to_numpy
from thinc.types import Floats1d, Floats2d

from ...annotations.pairs import mark_pair
from ...annotations.soft_labels import get_soft_labels, soft_label_classes
from ...errors import BiomedError
from ..described import ShownScores
from ..encoder_head import CatsHead, Compared, LabelHead, check_share, own_arguments
from ..factories import configure_head, register_factory
from ..losses import find_probabilities, mean_cross_entropy
from .scores import SUM_TOLERANCE, gold_classes, gold_probabilities

FACTORY = "biomed_textcat"

# The scores besides `cats_score`.
OTHER_SCORES = (
    *("cats_score_desc", "cats_acc", "cats_micro_p", "cats_micro_r", "cats_micro_f"),
    *("cats_macro_p", "cats_macro_r", "cats_macro_f", "cats_macro_auc"),
    *("cats_f_per_type", "cats_auc_per_type"),
    *("cats_example_p", "cats_example_r", "cats_example_f"),
    *("cats_text_macro_p", "cats_text_macro_r", "cats_text_macro_f"),
)


class BiomedTextCategorizer(CatsHead, LabelHead):
    """Classify documents by the encoder's vector of their first position.

    The architecture is a linear layer over the vector of [CLS] or <s>, as in the fine-tuning of
    BERT. Exclusive classes have a softmax, trained with cross-entropy; other classes have a sigmoid
    each, trained with binary cross-entropy. Probabilities are in `doc.cats`. A pair of texts
    (`spacy_biomed.pair`) is classified like any document.

    The component reads and writes only its labels in `doc.cats`, so that a pipeline can have
    several. A label that is not in a reference's `cats` is not annotated: it has no loss and is not
    scored. Exclusive classes are annotated only if a document has values for all of them. Values
    between 0 and 1 are learned as the probability of the label.

    `score_classes` describes the scores. If the component's name is not the factory's, their names
    include it, as in `cats_{name}_score`, and `training.score_weights` has to list these.

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
    annotates, score_prefix = "class", "cats"
    learns: ClassVar = {
        "textcat_multilabel": {"exclusive": False},
        "pair_classification": {"exclusive": True},
    }
    config_templates: ClassVar = {"textcat_multilabel": "textcat", "pair_classification": "pair"}
    # Documents that have mentions or relations too are for the heads of these.
    recognised_by: ClassVar = {
        task: {"classes": True, "pairs": is_pair, "mentions": False, "relations": False}
        for task, is_pair in (("textcat_multilabel", False), ("pair_classification", True))
    }

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
        super().__init__(**own_arguments(locals()), positive_label=None)
        check_share(name, "threshold", threshold)
        check_share(name, "teacher_share", teacher_share)

    def predict(self, docs: Iterable[Doc]) -> Floats2d:
        """The probability of each label for each document, (docs, labels), in main memory.

        For a document without text it depends only on the labels' biases.
        """
        docs = list(docs)
        if not docs:
            return np.zeros((0, len(self.labels)), dtype="float32")
        scores = to_numpy(self.predict_scores(docs))
        return find_probabilities(scores, self.cfg["exclusive"])

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
        gold = gold_classes(example.reference, list(self.labels), exclusive)
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
        """Mean cross-entropy over what is annotated in the batch, and its gradient.

        For exclusive classes that are documents, else labels of documents. The target is the gold
        value, a teacher's probability, or a mixture of the two (Hinton et al. 2015, "Distilling the
        Knowledge in a Neural Network", at temperature 1). Scores are (docs, labels).
        """
        xp = self.model.ops.xp
        targets = xp.asarray(np.stack([self._targets(example) for example in examples]))
        return mean_cross_entropy(scores, targets, self.cfg["exclusive"])

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
        in the examples (Lin et al. 2017, "Focal Loss for Dense Object Detection", section 3.3).

        Args:
            labels: the labels; by default those of all training examples, sorted.
            positive_label: one of two exclusive labels, whose F1 becomes `cats_score`.

        Raises:
            BiomedError: if labels or values do not fit the settings, the labels are another head's,
                or the examples do not annotate all of them.
        """
        self.cfg["positive_label"] = positive_label
        super().initialize(get_examples, nlp=nlp, labels=labels)
        self.refuse_shared_labels(nlp)

    def prepare(self, get_examples: Callable[[], Iterable[Example]], found: list[str]) -> None:
        labels, setting = self.labels, f"initialize.components.{self.name}"
        is_binary = self.cfg["exclusive"] and len(labels) == 2
        positive_label = self.cfg["positive_label"]
        if self.cfg["exclusive"] and len(labels) == 1:
            raise BiomedError(
                f"'{self.name}' has only the label '{labels[0]}', but exclusive classes need at "
                f"least two: give {setting}.labels, or set exclusive = false"
            )
        if positive_label is not None and not (is_binary and positive_label in labels):
            raise BiomedError(
                f"{setting}.positive_label = '{positive_label}': it has to be one of two labels "
                f"that exclude each other; '{self.name}' has {', '.join(labels)}"
            )
        shares = self._find_shares(get_examples())
        super().prepare(get_examples, found)
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

    def _find_shares(self, examples: Iterable[Example]) -> Floats1d:
        """(labels,) the share of each among its annotations, with a document of equal shares."""
        labels = self.labels
        unknown = 1.0 / len(labels) if self.cfg["exclusive"] else 0.5
        is_mentioned, sums, counts = False, np.zeros(len(labels)), np.zeros(len(labels))
        for example in examples:
            is_mentioned |= not example.reference.cats.keys().isdisjoint(labels)
            targets = self._targets(example)
            sums += np.nan_to_num(targets)
            counts += ~np.isnan(targets)
        missing, always = (np.array(labels)[one] for one in (counts == 0, sums == counts))
        if is_mentioned and len(missing):
            each = "each of " if self.cfg["exclusive"] else ""
            raise BiomedError(
                f"no document of the training corpus has a value in doc.cats for {each}the labels "
                f"{', '.join(missing)} of '{self.name}': give 0.0 to one that does not apply, or "
                f"take it out of initialize.components.{self.name}.labels"
            )
        if is_mentioned and len(always):
            warnings.warn(
                f"all values of the training corpus in doc.cats for {', '.join(always)} of "
                f"'{self.name}' are 1.0: give 0.0 to the texts that it does not apply to",
                stacklevel=2,
            )
        return (sums + unknown) / (counts + 1)


make_biomed_textcat = register_factory(
    FACTORY,
    BiomedTextCategorizer,
    configure_head("TextClassifier", "classification_scorer", "cls", hidden_width=0, dropout=0.1),
    assigns=["doc.cats"],
    default_score_weights={"cats_score": 1.0, **dict.fromkeys(OTHER_SCORES)},
)
