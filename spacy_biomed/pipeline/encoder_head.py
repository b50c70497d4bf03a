"""What heads on an encoder share: labels, and learning that leaves other tasks alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from spacy.errors import Errors
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate
from thinc.types import Ragged

from ..encoders.listener import EncoderListener, sizing
from ..errors import BiomedError, quote
from .described import Described, ShownScores
from .doc_batches import batch_docs

# The layer of heads that share `doc.cats`, each with classes or a number of its own there.
CATS = "doc.cats"

# Examples that are looked at to see whether they are examples, and those a model is sized by.
_SAMPLE, _SIZING = 16, 4


class EncoderHead(Described, TrainablePipe):
    """A component with labels whose model ends in an encoder's listener.

    A class of it has `predict`, `set_annotations`, `get_loss` and `initialize`. What else tells one
    head from another stands in the class too, and nowhere else: what it is called and how its
    scores are named, which corpora it learns from, and the layer that it reads (`copy_layer`).

    Attributes:
        vocab: the pipeline's vocabulary.
        model: gives scores for documents.
        name: name of the component in the pipeline.
        scorer: scoring method.
        settings: kept in `cfg` and written with the component; among them learn_rate_factor, which
            multiplies the learning rate of the head, not of the encoder.
        score_prefix: what the names of its scores begin with. A component of another name than
            `default_name` has its name in its scores, as in `cats_hallmarks_score`, so that several
            stand in a pipeline.
        main: what the name of its main score ends in.
        learns: kinds of corpora that it learns from, as the catalogue or `corpus.json` call their
            tasks, with the settings that each needs where these are not the factory's.
        annotation_keys: keys of `doc.user_data` that belong to its layer.
        encoder_settings: of the encoder's model, where its task needs others than the defaults.
    """

    score_prefix: ClassVar[str] = ""
    main: ClassVar[str] = ""
    learns: ClassVar[Mapping[str, dict[str, Any]]] = {}
    annotation_keys: ClassVar[tuple[str, ...]] = ()
    encoder_settings: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def begin_scores(cls, name: str, settings: Mapping[str, Any]) -> str:
        """What the names of a component's scores begin with."""
        return cls.score_prefix if name == cls.default_name else f"{cls.score_prefix}_{name}"

    @classmethod
    def main_score(cls, name: str, settings: Mapping[str, Any]) -> str:
        """The name of a component's main score."""
        return f"{cls.begin_scores(name, settings)}_{cls.main}"

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, Any]) -> ShownScores:
        return ShownScores(numbers={cls.main: cls.main_score(name, settings)})

    @classmethod
    def layer(cls, settings: Mapping[str, Any]) -> str:
        """Where on a document the annotation is that a component reads, as messages call it."""
        raise NotImplementedError

    @classmethod
    def copy_layer(
        cls, reader: TrainablePipe, source: Doc, target: Doc, *, prefix: str = ""
    ) -> bool:
        """Copy what a component reads of a document, to learn from and to be scored by.

        Args:
            reader: the component, of this class or spaCy's own that reads the same.
            target: a document of the same tokens without annotation.
            prefix: of heads that share `doc.cats`, what their classes get before their names.

        Returns:
            whether the document is annotated for it.
        """
        raise NotImplementedError

    @classmethod
    def corpus_settings(cls, description: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that follow from what a corpus holds.

        Args:
            description: its `corpus.json`.
        """
        return {}

    @classmethod
    def place_settings(cls, name: str) -> dict[str, Any]:
        """The settings by which a component of this name writes to a place of its own."""
        return {}

    @classmethod
    def class_settings(cls, classes: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings by which a component takes these classes of `doc.cats` and no others.

        Returns:
            those of the component, and those of its section of `initialize.components`.

        Raises:
            BiomedError: if it cannot take so many.
        """
        return {}, {"labels": classes}

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Any],
        name: str,
        scorer: Callable | None,
        **settings: Any,
    ):
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.cfg = {"labels": [], **settings}
        self._has_gradient = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of their scores."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> list[str] | None:
        """The labels, for `spacy init labels` and `initialize.components.NAME.labels`."""
        return list(self.cfg["labels"])

    def add_label(self, label: str) -> int:
        """Add a label; 1 if it is new, 0 if it was there.

        Raises:
            ValueError: if the model's output is already sized.
        """
        if label in self.cfg["labels"]:
            return 0
        if self.model.has_dim("nO"):
            raise ValueError(Errors.E922.format(name=self.name, nO=self.model.get_dim("nO")))
        self.cfg["labels"] = [*self.cfg["labels"], label]
        self.vocab.strings.add(label)
        return 1

    def add_labels_of(self, examples: Iterable[Example]) -> list[str]:
        """Add the labels of examples that this head, which is trained, does not know yet.

        Returns:
            the new labels, in the order of their scores, which come after those of the others.

        Raises:
            BiomedError: if there are any, and the head is of a kind that cannot grow.
        """
        known = set(self.cfg["labels"])
        new = [label for label in self.find_labels(examples) if label not in known]
        if new:
            self.grow(new)
            self.cfg["labels"] = [*self.cfg["labels"], *new]
            for label in new:
                self.vocab.strings.add(label)
        return new

    def find_labels(self, examples: Iterable[Example]) -> list[str]:
        """The labels that examples have for this head, sorted; none for one that learns none."""
        return []

    def grow(self, labels: list[str]) -> None:
        """Make place in the trained model for labels after those that it has.

        Raises:
            BiomedError: if the head is of a kind that cannot grow.
        """
        raise BiomedError(
            f"the corpus has labels that '{self.name}' does not know "
            f"({', '.join(map(quote, labels))}), and a trained head of its kind takes no further "
            "ones: leave them out, or train anew (`spacy biomed init-config --encoder`)"
        )

    def size_model(self, examples: Iterable[Example], columns: int | None = None) -> None:
        """Initialise the model by the first few examples, which the encoder need not read.

        Args:
            columns: scores of a document; None where the model has been told, or needs not be.
        """
        sample = [example.predicted for example in islice(examples, _SIZING)]
        output = None if columns is None else self.model.ops.alloc2f(len(sample), columns)
        with sizing(self.model):
            self.model.initialize(X=sample, Y=output)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of documents, in the encoder's batches.

        Args:
            batch_size: documents in a batch, fewer where they are long.
        """
        handle_error = self.get_error_handler()
        for docs in batch_docs(stream, batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
                yield from docs
            except Exception as error:
                handle_error(self.name, self, docs, error)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch; examples without annotation cost nothing and teach nothing."""
        examples = list(examples)
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, f"{type(self).__name__}.update")
        docs = [example.predicted for example in examples]
        if not any(len(doc) for doc in docs):
            return losses
        set_dropout_rate(self.model, drop)
        losses[self.name] += self.learn(examples, docs)
        if sgd is not None:
            self.finish_update(sgd)
        return losses

    def learn(self, examples: list[Example], docs: list[Doc]) -> float:
        """Add up the gradients of a batch, of the head and of its encoder.

        Args:
            docs: those of the examples that the pipeline sees.

        Returns:
            the loss.
        """
        if not any(map(self.has_annotation, examples)) and self.skip(docs):
            return 0.0
        scores, backprop = self.model.begin_update(docs)
        loss, d_scores = self.get_loss(examples, scores)
        self._has_gradient |= bool(d_scores.any())
        backprop(Ragged(d_scores, scores.lengths) if isinstance(scores, Ragged) else d_scores)
        return loss

    def has_annotation(self, example: Example) -> bool:
        """Whether there may be something for this component to learn from an example."""
        return True

    def skip(self, docs: list[Doc]) -> bool:
        """Let a batch without annotation go: nothing is computed, and the encoder, which waits for
        this head's gradient, is told that there is none.

        Returns:
            whether that could be done; not where the model listens to something else too, which is
            to be sent zeros.
        """
        listeners = [node for node in self.model.walk() if hasattr(node, "upstream_name")]
        if not all(isinstance(listener, EncoderListener) for listener in listeners):
            return False
        for listener in listeners:
            listener.skip(docs)
        return True

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """The scorer's scores, with the component's name in theirs if it is not the factory's."""
        scores = super().score(examples, **kwargs)
        default = self.begin_scores(self.default_name, self.cfg)
        own = self.begin_scores(self.name, self.cfg)
        if own == default:
            return scores
        return {own + key.removeprefix(default): score for key, score in scores.items()}

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> EncoderHead:
        """Load what `to_disk` saved; weights in half precision are computed with in fp32."""
        super().from_disk(path, exclude=exclude)
        _use_single_precision(self.model)
        return self

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> EncoderHead:
        """Load what `to_bytes` gave; weights in half precision are computed with in fp32."""
        super().from_bytes(bytes_data, exclude=exclude)
        _use_single_precision(self.model)
        return self

    def finish_update(self, sgd: Optimizer) -> None:
        """Step the head's own parameters, at its own learning rate.

        After batches without annotation they stay as they are: neither the optimizer's momentum nor
        its weight decay moves them.
        """
        if not self._has_gradient:
            return
        self._has_gradient = False
        self.model.finish_update(partial(sgd, lr_scale=self.cfg["learn_rate_factor"]))


def _use_single_precision(model: Model) -> None:
    for node in model.walk():
        for name in node.param_names:
            if node.has_param(name) and node.get_param(name).dtype == "float16":
                node.set_param(name, node.get_param(name).astype("float32"))


def check_share(component: str, setting: str, value: float) -> None:
    """RAISES BiomedError: if a component's setting is not between 0 and 1."""
    if not 0.0 <= value <= 1.0:
        raise BiomedError(f"[components.{component}] {setting} = {value}: use a number from 0 to 1")


def validate_source(get_examples: Callable[[], Iterable[Example]], method: str) -> None:
    """See that what a component is initialised with gives examples.

    As spaCy's `validate_get_examples`, which reads the whole corpus once more for it.

    Args:
        method: as error messages call it.

    Raises:
        TypeError: if it is no function, or gives something else.
    """
    if callable(get_examples):
        validate_get_examples(lambda: islice(get_examples(), _SAMPLE), method)
    else:
        validate_get_examples(get_examples, method)
