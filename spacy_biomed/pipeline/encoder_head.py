"""The base class of heads on an encoder: labels, and updates that do not affect other tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from spacy.errors import Errors
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate, to_numpy
from thinc.types import Floats1d, Floats2d, Ints1d, Ragged

from ..annotations.layer_copies import copy_bare, copy_group, copy_soft_labels
from ..annotations.pairs import PAIR_KEY
from ..encoders.finite import check_layers, check_scores
from ..encoders.listener import EncoderListener, sizing
from ..errors import BiomedError, quote
from ..models.confidence_curves import apply_label_curves
from .checksums import check_component, forget_checksums
from .described import DescribedHead
from .doc_batches import BatchLearner, batch_docs
from .label_scores import LabelScores

# The layer of heads that share `doc.cats`, each with different classes or a number.
CATS = "doc.cats"

# Key of `doc.user_data` of a reference with the names of components that neither learn from it nor
# are scored by it: its corpus is another component's.
NOT_FOR = "spacy_biomed_not_for"

# Gold items, predicted items and gold items that cannot be predicted; items end with their label.
Compared = tuple[set[tuple], set[tuple], Collection[tuple]]

# What two encoders read to be compared, and the least cosine of their vectors: of a compressed
# encoder it was 0.99 or more, of others 0.4.
_PROBE, _LIKE = ["Aspirin", "75", "mg", "in", "diabetes", "."], 0.9


class Predictions(NamedTuple):
    """What a head compares in a batch of documents, and its probabilities, in main memory."""

    compared: list[Any]  # candidates, or for each document its entities or pairs of concepts
    probabilities: Floats2d  # (all that is compared, scores)


class EncoderHead(DescribedHead, BatchLearner):
    """A component with labels whose model starts with an encoder's listener.

    Subclasses implement `predict`, `set_annotations`, `get_loss` and `initialize`. All that
    distinguishes a head is in its class (`DescribedHead`).

    Attributes:
        settings: stored in `cfg` and saved with the component. They include learn_rate_factor,
            which multiplies the learning rate of the head, not of the encoder.
    """

    def tally(self, examples: Iterable[Example]) -> list[dict[str, list[float]]]:
        """What each annotated document contributes to the scores, for paired tests of pipelines.

        By label these are the numbers of what is found, wrong and missed; heads whose scores are
        not made of these have other numbers, or an empty list.
        """
        found = (LabelScores.count([one]) for one in map(self.compare, examples) if one is not None)
        return [
            {
                label: [float(score.tp), float(score.fp), float(score.fn)]
                for label, score in scores.by_label.items()
            }
            for scores in found
        ]

    def compare(self, example: Example) -> Compared | None:
        """The arguments of `LabelScores.add` for a document.

        None if it is not annotated, or the scores are not made of items.
        """
        return None

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], object],
        name: str,
        scorer: Callable | None,
        **settings: object,
    ):
        """Store the settings; subclasses give them with `own_arguments(locals())`."""
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"labels": [], **settings}
        self._has_gradient = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of their scores."""
        return tuple(self.cfg["labels"])

    def add_label(self, label: str) -> int:
        """Add a label, to a trained model by `grow`; return 1 if it is new, else 0.

        Raises:
            BiomedError: if a trained head of this kind cannot grow.
        """
        if label in self.cfg["labels"]:
            return 0
        if self.model.has_dim("nO"):
            self.grow([label])
        self.cfg["labels"] = [*self.cfg["labels"], label]
        self.vocab.strings.add(label)
        return 1

    def find_labels(self, examples: Iterable[Example]) -> list[str]:
        """The labels of examples for this head, sorted; none for a head without labels."""
        return []

    def grow(self, labels: list[str]) -> None:
        """Add outputs for further labels at the end of the trained model's outputs.

        Raises:
            BiomedError: if this kind of head cannot grow.
        """
        raise BiomedError(
            f"there are labels that '{self.name}' does not know "
            f"({', '.join(map(quote, labels))}), and trained heads of this kind cannot learn new "
            "labels: leave them out, or train from scratch (`spacy biomed init-config --encoder`)"
        )

    def size_model(self, examples: Iterable[Example], columns: int | None = None) -> None:
        """Initialise the model with the first four examples, without running the encoder.

        `columns` is the number of scores of a document; None if the model does not need it.
        """
        sample = [example.predicted for example in islice(examples, 4)]
        output = None if columns is None else self.model.ops.alloc2f(len(sample), columns)
        with sizing(self.model):
            self.model.initialize(X=self.make_input(sample), Y=output)

    def make_input(self, docs: list[Doc]) -> Any:
        """What the model reads of documents in which nothing was found yet."""
        return docs

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of documents, in the encoder's batches."""
        handle_error = self.get_error_handler()
        for docs in batch_docs(stream, batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
                yield from docs
            except Exception as error:
                handle_error(self.name, self, docs, error)

    def update_batch(
        self, examples: list[Example], losses: dict[str, float], drop: float, sgd: Optimizer | None
    ) -> None:
        """Learn from a batch; examples without annotation have no loss and no gradient."""
        set_dropout_rate(self.model, drop)
        examples = list(self.find_own(examples))
        losses[self.name] += self.learn(examples, [example.predicted for example in examples])
        if sgd is not None:
            self.finish_update(sgd)

    def learn(self, examples: list[Example], docs: list[Doc]) -> float:
        """Accumulate the gradients of a batch, for the head and its encoder; return the loss.

        `docs` are the predicted documents of the examples.
        """
        if not any(map(self.has_annotation, examples)) and skip_batch(self.model, docs):
            return 0.0
        scores, backprop = self.model.begin_update(docs)
        loss, d_scores = self.get_loss(examples, scores)
        self._has_gradient |= bool(d_scores.any())
        backprop(Ragged(d_scores, scores.lengths) if isinstance(scores, Ragged) else d_scores)
        return loss

    def find_own(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Yield examples, without annotation where it is another component's (`NOT_FOR`)."""
        for example in examples:
            if self.name in example.reference.user_data.get(NOT_FOR, ()):
                bare = copy_bare(example.reference, self.annotation_keys)
                yield Example(example.predicted, bare)
            else:
                yield example

    def has_annotation(self, example: Example) -> bool:
        """Whether this component may have something to learn from an example."""
        return True

    def score(self, examples: Iterable[Example], **kwargs: object) -> dict[str, Any]:
        """The scorer's scores, with the component's name in theirs if it is not the default."""
        scores = super().score(self.find_own(examples), **kwargs)
        default = self.begin_scores(self.default_name, self.cfg)
        prefix = self.begin_scores(self.name, self.cfg)
        if prefix == default:
            return scores
        return {prefix + key.removeprefix(default): score for key, score in scores.items()}

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the component: its settings and its weights."""
        self._check_encoder()
        forget_checksums(Path(path).parent)
        super().to_disk(path, exclude=exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> EncoderHead:
        """Load what `to_disk` saved; weights in half precision become fp32.

        Raises:
            DamagedPipelineError: if the files of the pipeline are not as they were written, or if a
                weight is missing or not a finite number.
        """
        check_component(Path(path))
        super().from_disk(path, exclude=exclude)
        return _finish_loading(self)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> EncoderHead:
        """Load what `to_bytes` returned; errors are as in `from_disk`."""
        super().from_bytes(bytes_data, exclude=exclude)
        return _finish_loading(self)

    def predict_scores(self, docs: Any) -> Any:
        """What the model gives for documents, or for what else it reads.

        Raises:
            DamagedPipelineError: if a score is not a finite number.
        """
        self._check_encoder()
        try:
            scores = self.model.predict(docs)
        except (KeyError, ValueError) as error:
            if has_weights(self.model):
                raise
            raise ValueError(Errors.E109.format(name=self.name)) from error
        check_scores(scores.dataXd if isinstance(scores, Ragged) else scores, self.name)
        return scores

    def _check_encoder(self) -> None:
        """Warn, once, if a head from another pipeline has an encoder that is unlike its own."""
        for listener in _list_listeners(self.model):
            own, listener.own_encoder = listener.own_encoder, listener.encoder
            if own and listener.encoder and not _are_alike(own, listener.encoder):
                warnings.warn(
                    f"'{self.name}' comes from another pipeline, and the encoder here is not the "
                    "one that it was trained with: its predictions may be of no use. Add its own "
                    "encoder before it, under another name: nlp.add_pipe(..., name=..., "
                    "source=...)",
                    stacklevel=3,
                )

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the head's parameters, at its learning rate, unless nothing was annotated."""
        if not self._has_gradient:
            return
        self._has_gradient = False
        self.model.finish_update(partial(sgd, lr_scale=self.cfg["learn_rate_factor"]))


class CalibratedHead(EncoderHead):
    """A head whose settings keep the curves of `calibrate`, until it is trained further."""

    @property
    def is_calibrated(self) -> bool:
        """Whether probabilities are calibrated, and not the model's own."""
        return self.cfg["calibration"] is not None

    def calibrate(self, probability: Floats1d, label: Ints1d) -> Floats1d:
        """Calibrate probabilities by the places of their labels: (predictions,) each."""
        fitted = self.cfg["calibration"]
        if fitted is None:
            return probability
        return apply_label_curves(fitted["curves"], probability, label, self.labels)

    def forget_calibration(self) -> None:
        """Drop what `calibrate` has fitted."""
        self.cfg["calibration"] = None

    def finish_update(self, sgd: Optimizer) -> None:
        if self._has_gradient:
            self.forget_calibration()
        super().finish_update(sgd)


class LabelHead(EncoderHead):
    """A head whose scores are of labels, which the training corpus or the config has."""

    annotates: ClassVar[str]  # what has a label, for messages: "mention", "relation"

    @property
    def label_data(self) -> list[str] | None:
        """The labels, for `spacy init labels` and `initialize.components.NAME.labels`, if any."""
        return list(self.cfg["labels"]) or None

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: list[str] | None = None,
    ) -> None:
        """Learn the labels, check that the examples can teach them, and size the model.

        Without `labels`, they are those of all training examples, sorted.
        """
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        found = self.find_labels(self.find_own(get_examples()))
        for label in found if labels is None else labels:
            self.add_label(label)
        if not self.labels:
            layer = self.layer(self.cfg).rpartition(" or ")[2]  # not what it is also copied from
            raise BiomedError(
                f"the training corpus has no {self.annotates} for '{self.name}' to learn "
                f"({layer}): check the corpus, or give "
                f"initialize.components.{self.name}.labels"
            )
        self.prepare(lambda: self.find_own(get_examples()), found)

    def prepare(self, get_examples: Callable[[], Iterable[Example]], found: list[str]) -> None:
        """Check that examples, with the labels `found`, teach the labels, and size the model.

        An error during training would make spaCy save a partial model.
        """
        self.size_model(get_examples(), len(self.labels))


class CatsHead(EncoderHead):
    """A head that reads and writes `doc.cats`."""

    usage_line, layer_name = "print(doc.cats)", CATS

    @classmethod
    def copy_layer(cls, reader: TrainablePipe, source: Doc, target: Doc, prefix: str = "") -> bool:
        """Copy classes or a number, a marked pair and a teacher's probabilities.

        If the component has labels, only these are copied.
        """
        copy_group(source, PAIR_KEY, target)
        is_taught = copy_soft_labels(reader.name, source, target)
        cats = {prefix + label: value for label, value in source.cats.items()}
        labels = set(reader.labels)
        target.cats = {label: cats[label] for label in cats if not labels or label in labels}
        return bool(target.cats) or is_taught

    def refuse_shared_labels(self, nlp: Language | None) -> None:
        """Raise BiomedError if another head writes the same labels, in place of this one's."""
        components: list[tuple[str, Any]] = [] if nlp is None else nlp.pipeline
        for name, other in components:
            if other is self or not isinstance(other, CatsHead):
                continue
            if shared := sorted(set(self.labels).intersection(other.labels)):
                raise BiomedError(
                    f"'{self.name}' and '{name}' both have the label {quote(shared[0])}, and in "
                    "doc.cats one would replace the other: give each its own labels "
                    f"(initialize.components.{self.name}.labels)"
                )


def add_labels(head: EncoderHead, examples: Iterable[Example]) -> list[str]:
    """Add the labels of examples that a trained head does not know yet, and return them.

    Raises:
        BiomedError: if there are any, and this kind of head cannot grow.
    """
    new = [label for label in head.find_labels(examples) if label not in head.labels]
    if new:
        head.grow(new)
        head.cfg["labels"] = [*head.labels, *new]
        for label in new:
            head.vocab.strings.add(label)
    return new


def _list_listeners(model: Model) -> list[EncoderListener]:
    return [node for node in model.walk() if isinstance(node, EncoderListener)]


def _are_alike(own: Model, encoder: Model) -> bool:
    """Whether two encoders give nearly the same vectors, as one and its compressed copy do."""
    if own is encoder or not encoder.has_dim("nO"):
        return True
    words = Doc(Vocab(), words=_PROBE)
    one, other = (to_numpy(model.predict([words]).hidden) for model in (own, encoder))
    if one.shape != other.shape:
        return False
    return np.vdot(one, other) > _LIKE * np.linalg.norm(one) * np.linalg.norm(other)


def _finish_loading(head: EncoderHead) -> EncoderHead:
    """Check the weights, make those in half precision fp32, and note the head's own encoder."""
    for listener in _list_listeners(head.model):
        listener.own_encoder = listener.encoder
    for node in head.model.walk():
        for name in node.param_names:
            if node.has_param(name) and node.get_param(name).dtype == "float16":
                node.set_param(name, node.get_param(name).astype("float32"))
    check_layers(head.model, head.name)
    return head


def has_weights(model: Model) -> bool:
    """Whether a model was initialised, or loaded."""
    return all(node.has_param(name) for node in model.walk() for name in node.param_names)


def skip_batch(model: Model, docs: list[Doc]) -> bool:
    """Tell the encoder that a batch without annotation has no gradient.

    Return False if the model also listens to another component, which expects zeros.
    """
    listeners = [node for node in model.walk() if hasattr(node, "upstream_name")]
    if not all(isinstance(listener, EncoderListener) for listener in listeners):
        return False
    for listener in listeners:
        listener.skip(docs)
    return True


def own_arguments(variables: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, from `locals()` at its beginning."""
    return {name: value for name, value in variables.items() if name not in ("self", "__class__")}


def check_share(component: str, setting: str, value: float) -> None:
    """Check a component's setting; raise BiomedError if it is not between 0 and 1."""
    if not 0.0 <= value <= 1.0:
        raise BiomedError(f"[components.{component}] {setting} = {value}: use a number from 0 to 1")


def check_probabilities(
    doc: Doc, labels: Iterable[str], values: Iterable[float], *, of: str = ""
) -> None:
    """Raise BiomedError if a value of a document is not between 0 and 1; NaN is a missing one."""
    for label, value in zip(labels, values, strict=True):
        if value < 0.0 or value > 1.0:
            raise BiomedError(
                f"{quote(label)} of {of}{quote_text(doc)} is {value:g}: use a number from 0 to 1"
            )


def check_least(component: str, setting: str, value: int, least: int) -> None:
    """Check a component's setting; raise BiomedError if it is too small."""
    if value < least:
        raise BiomedError(f"[components.{component}] {setting} = {value}: use {least} or more")


def quote_text(doc: Doc) -> str:
    """The beginning of a document's text, in one line, for messages."""
    return quote(" ".join(doc.text.split()))
