"""`biomed_transformer` and `biomed_onnx_transformer`: one encoding of a document for many heads."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import srsly
from spacy import util
from spacy.errors import Errors
from spacy.language import Language
from spacy.pipeline.pipe import deserialize_config
from spacy.pipeline.tok2vec import Tok2Vec
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import CupyOps, Model, Optimizer, get_array_module, set_dropout_rate
from thinc.types import Floats2d

from ..encoders.batching.concurrency import map_ahead
from ..encoders.batching.encoded import EncodedBackprop, EncodedBatch, set_encoding
from ..encoders.casing import share_of_unknown
from ..encoders.listener import EncoderListener
from ..encoders.stock import forget_stock, install_extensions, to_stock
from .checksums import check_component, forget_checksums
from .doc_batches import MAX_TOKENS, BatchLearner, batch_docs
from .factories import register_factory

# The share of words that an encoder may not know without a warning, and the number of documents
# whose words are counted.
MOST_UNKNOWN, _SAMPLE = 0.01, 200

if TYPE_CHECKING:
    from spacy_transformers.layers import TransformerListener

    Listener: TypeAlias = EncoderListener | TransformerListener


class EncoderPipe(BatchLearner, Tok2Vec):
    """Base class of `biomed_transformer` and `biomed_onnx_transformer`.

    Listeners are `spacy_biomed.EncoderListener.v1` and, if spacy-transformers is installed, its
    listener. For the latter `doc._.trf_data` is declared: a `TransformerData` of one sequence that
    covers the whole document at any length, special tokens included. It is built at first access.

    A document keeps its encoding only until the last listener has read it. It keeps it for good if
    `keep_encodings` is set, if there is no listener, or if a listener is from spacy-transformers.

    Attributes:
        model: computes an `EncodedBatch` for documents.
        max_batch_words: tokens that `pipe` encodes at a time, to limit memory. Heads annotate up to
            8,192 tokens at a time, and put smaller batches of the encoder together.
        keep_encodings: whether documents keep their encodings.
    """

    reads_words = False  # as in `Described`

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], EncodedBatch],
        name: str,
        *,
        max_batch_words: int = MAX_TOKENS,
        keep_encodings: bool = False,
    ):
        if find_spec("spacy_transformers") is not None:
            install_extensions()
        super().__init__(vocab, model, name)
        self.cfg = {"max_batch_words": max_batch_words, "keep_encodings": keep_encodings}
        self._heads: dict[str, Model] = {}

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Load the encoder named in the model's settings, and link heads that are not linked yet.

        Warn if it does not know many words of the examples.
        """
        self.model.initialize()
        self._warn_of_unknown(islice(get_examples(), _SAMPLE))
        for _, component in nlp.pipeline if nlp is not None else ():
            if component is not self:
                self.find_listeners(component)
        self.tell_width()

    def forget_words(self) -> None:
        """Let go of the words of the texts that were encoded, which make the next ones faster."""
        tokenizer = self.model.shims[0].tokenizer
        if tokenizer is not None:
            tokenizer.forget_words()

    def _warn_of_unknown(self, examples: Iterable[Example]) -> None:
        docs = (example.reference for example in examples)
        words = Counter(token.text for doc in docs for token in doc if not token.is_space)
        share = share_of_unknown(self.model.shims[0].tokenizer.tokenizer, words)
        if share > MOST_UNKNOWN:
            warnings.warn(
                f"the encoder of '{self.name}' does not know {100 * share:.1f}% of the words of "
                "the training corpus and reads them all as the same token: is it an encoder for "
                "texts of this language, with capitals as here?",
                stacklevel=3,
            )

    def add_listener(self, listener: Listener, component_name: str) -> None:
        super().add_listener(listener, component_name)
        if isinstance(listener, EncoderListener):
            listener.encoder = self.model
        if self.model.has_dim("nO"):
            self.tell_width()

    def find_listeners(self, component: Any) -> None:
        """Register the listeners in a component's model that listen to this encoder."""
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            # spacy-transformers may not be installed.
            is_stock = type(node).__name__ == "TransformerListener"
            is_listener = is_stock or isinstance(node, EncoderListener)
            if is_listener and node.upstream_name in ("*", self.name):
                self.add_listener(node, component.name)
                self._heads[component.name] = model

    @property
    def heads(self) -> list[Model]:
        """The models of the components with these listeners."""
        return [model for name, model in self._heads.items() if name in self.listener_map]

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Encode a stream of documents, in batches of `batch_size`, or fewer if they are long.

        On the CPU a batch is encoded while the components before this one prepare the next batch
        and the components after it annotate the last, so three batches are in memory. With a batch
        size of 1 nothing is read ahead, because the caller may wait for each document.
        """
        batches = batch_docs(stream, batch_size, self.cfg["max_batch_words"])
        is_ahead = batch_size > 1 and not isinstance(self.model.ops, CupyOps)
        mapping = map_ahead if is_ahead else map
        for docs, predictions in mapping(lambda docs: (docs, self.predict(docs)), batches):
            self.set_annotations(docs, predictions)
            yield from docs

    def predict(self, docs: Iterable[Doc]) -> EncodedBatch:
        """Encode a batch of documents, without modifying them."""
        return self.model.predict(list(docs))

    def set_annotations(self, docs: Iterable[Doc], predictions: EncodedBatch) -> None:
        """Store each document's encoding for the listeners."""
        listeners = self.listeners
        stays = self.cfg["keep_encodings"] or not all(
            isinstance(listener, EncoderListener) for listener in listeners
        )
        encodings = predictions.split(listeners=0 if stays else len(listeners))
        for doc, encoding in zip(docs, encodings, strict=True):
            set_encoding(doc, encoding, self.name)
            forget_stock(doc)

    def feed_listeners(
        self, docs: list[Doc], batch: EncodedBatch, backprop: EncodedBackprop
    ) -> None:
        """Pass a training batch to all listeners, which pass their gradients to `backprop`."""
        stock_data = None
        for listener in self.listeners:
            if isinstance(listener, EncoderListener):
                listener.receive(docs, batch, backprop)
                continue
            stock_data = stock_data or [to_stock(encoding) for encoding in batch.split()]
            listener.receive(listener.get_batch_id(docs), stock_data, _from_stock(backprop))

    def tell_width(self) -> None:
        """Set the width of the vectors in the listeners that do not know it."""
        for listener in self.listeners:
            if listener.has_dim("nO") is None:
                listener.set_dim("nO", self.model.get_dim("nO"))

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the component: its settings, and the encoder as a directory `encoder/`.

        Raises:
            ValueError: if the encoder was not loaded yet (`nlp.initialize`).
        """
        if not self.model.has_dim("nO"):
            raise ValueError(Errors.E109.format(name=self.name))
        forget_checksums(Path(path).parent)
        serialize = {
            "cfg": lambda p: srsly.write_json(p, self.cfg),
            "encoder": self.model.shims[0].save,
        }
        util.to_disk(path, serialize, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> EncoderPipe:
        """Load what `to_disk` saved.

        Raises:
            DamagedPipelineError: if the files of the pipeline are not as they were written.
        """
        check_component(Path(path))

        def load_encoder(encoder_path: Path) -> None:
            self.model.shims[0].load(encoder_path)
            self.model.initialize()
            self.tell_width()

        deserialize = {
            "cfg": lambda p: self.cfg.update(deserialize_config(p)),
            "encoder": load_encoder,
        }
        util.from_disk(path, deserialize, exclude)
        return self

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> EncoderPipe:
        super().from_bytes(bytes_data, exclude=exclude)
        self.tell_width()
        return self


@dataclass(slots=True)
class _PendingBackprop:
    """A training batch whose backward pass waits for the heads' gradients."""

    gradient: Floats2d
    backprop: Callable[[Floats2d], object]
    sgd: Optimizer | None
    received: int = 0


class SharedEncoder(EncoderPipe):
    """Encode each document once with PyTorch, for all heads after it that listen.

    It learns from the gradients that the heads send back. spaCy's own components train on it as on
    spacy-transformers' component `transformer`, through the same
    `spacy-transformers.TransformerListener.v1`.

    Its model is `spacy_biomed.TransformerModel.v1`. `EncoderPipe` describes the settings.
    """

    _pending: _PendingBackprop | None = None

    def update_batch(
        self, examples: list[Example], losses: dict[str, float], drop: float, sgd: Optimizer | None
    ) -> None:
        """Encode a batch and pass it to the listeners, which send back their gradients.

        The last one's gradient starts the backward pass, so each must send one; None is zeros.
        """
        self._finish_pending()
        set_dropout_rate(self.model, drop)
        docs = [example.predicted for example in examples]
        batch, backprop_model = self.model.begin_update(docs)
        gradient = self.model.ops.alloc2f(*batch.hidden.shape)
        pending = self._pending = _PendingBackprop(gradient, backprop_model, sgd)
        listening = len(self.listeners)

        def backprop(d_hidden: Floats2d | None) -> None:
            if d_hidden is not None:
                losses[self.name] += float((d_hidden**2).sum())
                pending.gradient += d_hidden
            pending.received += 1
            if pending.received == listening:
                self._finish_pending()

        self.feed_listeners(docs, batch, backprop)

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the weights; if no head has sent a gradient yet, wait until all have."""
        if self._pending is not None and self._pending.received == 0:
            self._pending.sgd = sgd
            return
        self._finish_pending()
        if hasattr(sgd, "clip_with"):
            sgd.clip_with(self.heads)
        self.model.finish_update(sgd)

    def _finish_pending(self) -> None:
        """Run the backward pass of the last batch with the gradients received so far.

        A frozen head sends no gradient, so this cannot wait for all heads.
        """
        pending, self._pending = self._pending, None
        if pending is None or pending.received == 0:
            return
        pending.backprop(pending.gradient)
        if pending.sgd is not None:
            self.model.finish_update(pending.sgd)


make_biomed_transformer = register_factory(
    "biomed_transformer",
    SharedEncoder,
    {"model": {"@architectures": "spacy_biomed.TransformerModel.v1", "name": "roberta-base"}},
    assigns=["doc._.trf_data"],
)


class OnnxEncoder(EncoderPipe):
    """Encode each document once with ONNX Runtime or OpenVINO, for all heads after it that listen.

    It replaces `biomed_transformer` in a finished pipeline (`spacy biomed compress`) and does not
    need PyTorch. The encoder itself cannot be trained, but heads can be trained on it.

    Its model is `spacy_biomed.OnnxTransformerModel.v1`. `EncoderPipe` describes the settings.
    """

    @property
    def engine(self) -> str | None:
        """The library that runs the encoder; None before one is loaded."""
        return self.model.shims[0].choice

    def update_batch(
        self, examples: list[Example], losses: dict[str, float], drop: float, sgd: Optimizer | None
    ) -> None:
        """Encode a batch for the heads that are trained; their gradients are discarded."""
        docs = [example.predicted for example in examples]
        self.feed_listeners(docs, self.predict(docs), lambda d_hidden: [])

    def finish_update(self, sgd: Optimizer) -> None:
        """Do nothing: the encoder is not trained."""


make_biomed_onnx_transformer = register_factory(
    "biomed_onnx_transformer",
    OnnxEncoder,
    {"model": {"@architectures": "spacy_biomed.OnnxTransformerModel.v1"}},
    assigns=["doc._.trf_data"],
)


def reads_capitals(nlp: Language) -> bool:
    """Whether an encoder of a pipeline reads text in capitals as if it were in small letters."""
    encoders = (pipe for _, pipe in nlp.pipeline if isinstance(pipe, EncoderPipe))
    return any(encoder.model.attrs.get("normalize") for encoder in encoders)


def _from_stock(backprop: EncodedBackprop) -> Callable[[list], list]:
    """The callback for the gradient of a stock listener, which omits documents without tokens."""

    def backprop_stock(d_datas: list) -> list:
        parts = [data.model_output.last_hidden_state[0] for data in d_datas]
        if parts:
            backprop(get_array_module(parts[0]).concatenate(parts))
        return []

    return backprop_stock
