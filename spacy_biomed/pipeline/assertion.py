"""The component `biomed_assertion`: what a text says of its mentions, learned from examples."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from spacy.attrs import SENT_START
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model, to_numpy
from thinc.types import Floats2d, Ints2d

from ..annotations import assertions
from ..annotations.seen_mentions import mentions_of
from ..encoders.batching.ragged import borders
from ..errors import BiomedError, list_choices
from ..models.span_classifiers import MentionPlaces
from . import encoder_head
from .encoder_head import CalibratedHead, Compared, LabelHead, Predictions
from .factories import configure_head, register_factory
from .label_scores import LabelScores
from .losses import cross_entropy, find_probabilities

FACTORY = "biomed_assertion"


def assertion_scorer_v1() -> Callable:
    """`spacy_biomed.assertion_scorer.v1`: see `score_assertions`."""
    return score_assertions


class BiomedAssertion(CalibratedHead, LabelHead):
    """Learn whether entities are negated, uncertain, past, hypothetical, or of a relative.

    It writes what `biomed_context` does by rules: `span._.is_negated`, `is_uncertain`,
    `is_historical`, `is_hypothetical` and `is_family`, and `span._.assertion_probabilities`. Its
    labels are those of the five that it learns. Others that a component before it has set stay.

    Each label has a sigmoid over a hidden layer, which reads the mean rows of the entity, and of
    the tokens before and after it in its sentence. So a component that sets sentences is best
    before it.

    In training, entities are the places of the reference that have assertions, and need not be in
    `doc.ents`. A label without a value there is not annotated: it gives no loss and no score.
    Values between 0 and 1 are learned as the probability.

    Scores are `assertion_micro_p`, `_r`, `_f` and `assertion_per_type`. A component with another
    name than the factory's has its name in its scores: `assertion_{name}_micro_f`, ..., which
    `training.score_weights` then has to name.

    Attributes:
        model: `spacy_biomed.MentionClassifier.v1`.
        entity_labels: labels of the entities to look at; None for all.
        spans_key: span group of the entities; None for `doc.ents`.
        window: largest number of tokens that are read on each side of an entity.
        rules_share: weight, from 0 to 1, of the probability that a component before it has set,
            such as `biomed_context`. It has no part in training.
    """

    default_name, task_name = FACTORY, "assertion of entities"
    usage_line = "print([(ent.text, ent._.is_negated) for ent in doc.ents])"
    layer_name = "span._.is_negated and the other assertions"
    annotates, score_prefix, main = "assertion", "assertion", "micro_f"
    averages: ClassVar = {"micro average over assertions": "micro"}
    learns: ClassVar = {"assertion": {}}
    config_templates: ClassVar = {"assertion": "assertion"}
    annotation_keys = (assertions.ASSERTIONS_KEY,)
    reads_entities = True

    @classmethod
    def copy_layer(cls, reader: TrainablePipe, source: Doc, target: Doc, prefix: str = "") -> bool:
        """Copy the places that have assertions, but no entities, which others would learn."""
        return assertions.copy_assertions(source, target)

    def __init__(
        self,
        vocab: Vocab,
        model: Model[MentionPlaces, Floats2d],
        name: str = FACTORY,
        *,
        entity_labels: list[str] | None = None,
        spans_key: str | None = None,
        window: int = 8,
        rules_share: float = 0.0,
        learn_rate_factor: float = 1.0,
        scorer: Callable | None = None,
    ):
        super().__init__(**encoder_head.own_arguments(locals()), calibration=None)
        encoder_head.check_share(name, "rules_share", rules_share)
        encoder_head.check_least(name, "window", window, 0)
        assertions.install_assertions()

    def add_label(self, label: str) -> int:
        if label not in assertions.ASSERTIONS:
            advice = list_choices(label, assertions.ASSERTIONS)
            raise BiomedError(f"[components.{self.name}] labels = '{label}': {advice}")
        return super().add_label(label)

    def predict(self, docs: Iterable[Doc]) -> Predictions:
        """Find the entities of all documents, and the probabilities of their assertions."""
        docs = list(docs)
        spans = [self._find_entities(doc) for doc in docs]
        return Predictions(spans, self._predict_probabilities(docs, spans))

    def judge(self, examples: Sequence[Example]) -> tuple[Floats2d, Floats2d]:
        """The probabilities of gold entities, and the gold values, which may be NaN, by label."""
        spans, targets = self._gold(examples)
        docs = [example.predicted for example in examples]
        return self._predict_probabilities(docs, spans), targets

    def _predict_probabilities(self, docs: list[Doc], spans: list[list[Span]]) -> Floats2d:
        scores = np.zeros((0, len(self.labels)), dtype="float32")
        if docs:  # a listener reads every document, so that the document releases its encoding
            scores = to_numpy(self.predict_scores(self._place(docs, spans)))
        own = find_probabilities(scores, False)
        label = np.tile(np.arange(len(self.labels)), len(own))
        return self.calibrate(own.ravel(), label).reshape(own.shape)

    def set_annotations(self, docs: Iterable[Doc], predictions: Predictions) -> None:
        """Set the assertions of the entities; those that are not among the labels stay."""
        rows, share = iter(predictions.probabilities.tolist()), self.cfg["rules_share"]
        for spans in predictions.compared:
            for span in spans:
                found = dict(assertions.get_probabilities(span))
                for label, value in zip(self.labels, next(rows), strict=True):
                    found[label] = share * found.get(label, value) + (1.0 - share) * value
                assertions.set_assertions(span, found)

    def compare(self, example: Example) -> Compared | None:
        return compare_assertions(example, self.labels)

    def has_annotation(self, example: Example) -> bool:
        return any(
            not stored.keys().isdisjoint(self.labels)
            for _, _, stored in assertions.list_assertions(example.reference)
        )

    def learn(self, examples: list[Example], docs: list[Doc]) -> float:
        """Add the gradients of a batch: of the mean binary cross-entropy over annotated labels."""
        spans, targets = self._gold(examples)
        known = ~np.isnan(targets)
        if not known.any() and encoder_head.skip_batch(self.model, docs):
            return 0.0
        self._has_gradient |= bool(known.any())
        scores, backprop = self.model.begin_update(self._place(docs, spans))
        ops = self.model.ops
        losses, d_scores = cross_entropy(scores, ops.asarray2f(np.nan_to_num(targets)), False)
        weights = ops.asarray2f(known.astype("float32") / max(int(known.sum()), 1))
        backprop(weights * d_scores)
        return float((weights * losses).sum())

    def prepare(self, get_examples: Callable[[], Iterable[Example]], found: list[str]) -> None:
        for example in get_examples():
            self._gold([example])
        super().prepare(get_examples, found)

    def make_input(self, docs: list[Doc]) -> MentionPlaces:
        return self._place(docs, [[] for _ in docs])

    def find_labels(self, examples: Iterable[Example]) -> list[str]:
        found: set[str] = set()
        for example in examples:
            for _, _, stored in assertions.list_assertions(example.reference):
                found.update(stored)
        return [label for label in assertions.ASSERTIONS if label in found]

    def _find_entities(self, doc: Doc) -> list[Span]:
        labels = self.cfg["entity_labels"]
        spans = mentions_of(doc, self.cfg["spans_key"])
        return [span for span in spans if labels is None or span.label_ in labels]

    def _gold(self, examples: Iterable[Example]) -> tuple[list[list[Span]], Floats2d]:
        """The spans with gold assertions of each document, and (spans of all, labels) values.

        They are NaN where nothing is annotated.
        """
        found: list[list[Span]] = []
        targets: list[list[float]] = []
        for example in examples:
            doc = example.predicted
            found.append([])
            for start, end, stored in assertions.list_assertions(example.reference):
                values = [stored.get(label, np.nan) for label in self.labels]
                encoder_head.check_probabilities(doc, self.labels, values, of="a mention in ")
                span = doc.char_span(start, end, alignment_mode="expand")
                if span is not None and len(span):
                    found[-1].append(span)
                    targets.append(values)
        return found, np.array(targets, dtype="float32").reshape(len(targets), len(self.labels))

    def _place(self, docs: list[Doc], spans: list[list[Span]]) -> MentionPlaces:
        """What the model reads: the spans of each document, in rows of all documents."""
        starts = borders([len(doc) for doc in docs])[:-1].tolist()
        places = [
            find_windows(doc, of_doc, self.cfg["window"]) + start
            for doc, of_doc, start in zip(docs, spans, starts, strict=True)
        ]
        joined = np.concatenate([np.zeros((3, 0, 2), dtype="int64"), *places], axis=1)
        return MentionPlaces(docs, list(joined))


make_biomed_assertion = register_factory(
    FACTORY,
    BiomedAssertion,
    configure_head("MentionClassifier", "assertion_scorer", "mean", hidden_width=128, dropout=0.1),
    assigns=[f"span._.{name}" for name in assertions.ASSERTIONS],
    default_score_weights={
        "assertion_micro_f": 1.0,
        "assertion_micro_p": 0.0,
        "assertion_micro_r": 0.0,
        "assertion_per_type": None,
    },
)


def find_windows(doc: Doc, spans: Sequence[Span], window: int) -> Ints2d:
    """(3, spans, 2) the first token, and the one after the last, of spans, before and after them.

    At most `window` tokens are read on each side, in the sentence if there are any.
    """
    starts = np.flatnonzero(doc.to_array([SENT_START]).ravel() == 1)
    edges = np.unique([0, *starts.tolist(), len(doc)])
    own = np.array([(span.start, span.end) for span in spans], dtype="int64").reshape(-1, 2)
    first, last = own.T
    lowest = edges[np.searchsorted(edges, first, side="right") - 1]
    highest = edges[np.searchsorted(edges, last, side="left")]
    before = np.stack([np.maximum(first - window, lowest), first], axis=1)
    after = np.stack([last, np.minimum(last + window, highest)], axis=1)
    return np.stack([own, before, after])


def score_assertions(
    examples: Iterable[Example], *, labels: Iterable[str], **cfg: object
) -> dict[str, Any]:
    """Precision, recall and F1 of assertions that are true, of the annotated mentions.

    Mentions that are found elsewhere do not count. What is true of an annotated mention that is not
    found is missed. Each of the `labels` is scored where it is annotated.

    Returns:
        `assertion_micro_p`, `_r`, `_f` and `assertion_per_type`; None if nothing is annotated.
    """
    labels = list(labels)
    scores = LabelScores.count((compare_assertions(one, labels) for one in examples), labels)
    return scores.scores("assertion_micro", "assertion_per_type")


def compare_assertions(example: Example, labels: Collection[str]) -> Compared | None:
    """The gold and predicted assertions that `score_assertions` counts; None without any gold."""
    gold, predicted = (
        {
            (start, end, label): value >= assertions.THRESHOLD
            for start, end, stored in assertions.list_assertions(doc)
            for label, value in stored.items()
            if label in labels
        }
        for doc in (example.reference, example.predicted)
    )
    if not gold:
        return None
    true, found = ({fact for fact in gold if one.get(fact)} for one in (gold, predicted))
    return true, found, ()
