"""The class behind `biomed_transformer`. Needs torch and spacy-transformers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import srsly
from spacy import util
from spacy.pipeline.pipe import deserialize_config
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import minibatch
from spacy.vocab import Vocab
from spacy_transformers import Transformer
from spacy_transformers.data_classes import TransformerData, WordpieceBatch
from spacy_transformers.layers import TransformerListener
from thinc.api import Model, Optimizer, get_array_module, set_dropout_rate
from thinc.types import Floats2d, Ragged
from transformers.file_utils import ModelOutput

from ..encoders.encoded import (
    EncodedBatch,
    EncodedDoc,
    get_encoding,
    set_encoding,
)
from ..encoders.listener import EncoderListener
from ..encoders.windows import batch_by_length

STOCK_DATA_KEY = ("._.", "trf_data", None, None)


@dataclass(slots=True)
class _PendingBackprop:
    """A training batch whose backward pass waits for the heads' gradients."""

    gradient: Floats2d
    backprop: Callable[[Floats2d], object]
    waiting_for: int
    sgd: Optimizer | None
    received: int = 0


class SharedEncoder(Transformer):
    """Encode each document once, for all components after it that listen.

    Listeners are `spacy_biomed.EncoderListener.v1` and, unchanged, spacy-transformers' own
    `spacy-transformers.TransformerListener.v1`, so spaCy's `ner`, `textcat`, `spancat`, tagger and
    parser train on it as they do on the component `transformer`.

    Extension that it declares: `doc._.trf_data`, a `TransformerData` of one sequence that covers
    the whole document however long, special tokens included. It is built when it is first asked
    for. A document keeps its encoding only until the last listener has read it, or for good where
    `keep_encodings` is set or nothing listens.

    vocab: the pipeline's vocabulary.
    model: `spacy_biomed.TransformerModel.v1`.
    name: name of the component in the pipeline.
    max_batch_words: tokens that `pipe` encodes at a time; bounds memory.
    keep_encodings: whether documents keep their encodings.

    >>> import spacy
    >>> nlp = spacy.blank("en")
    >>> encoder = nlp.add_pipe("biomed_transformer")
    >>> nlp.pipe_names
    ['biomed_transformer']
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], EncodedBatch],
        *,
        name: str = "biomed_transformer",
        max_batch_words: int = 8192,
        keep_encodings: bool = False,
    ):
        install_extensions()
        super().__init__(vocab, model, name=name)
        self.cfg = {"max_batch_words": max_batch_words, "keep_encodings": keep_encodings}
        self._pending: _PendingBackprop | None = None

    def find_listeners(self, component: object) -> None:
        """Register the listeners in a component's model that listen to this encoder."""
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            is_listener = isinstance(node, TransformerListener | EncoderListener)
            if is_listener and node.upstream_name in ("*", self.name):
                self.add_listener(node, component.name)

    def __call__(self, doc: Doc) -> Doc:
        self.set_annotations([doc], self.predict([doc]))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Encode a stream of documents, those of similar length together."""
        for outer in minibatch(stream, batch_size):
            docs = list(outer)
            lengths = np.array([len(doc) for doc in docs], dtype="int64")
            for chosen in batch_by_length(lengths, self.cfg["max_batch_words"]):
                batch = [docs[i] for i in chosen]
                self.set_annotations(batch, self.predict(batch))
            yield from docs

    def predict(self, docs: Iterable[Doc]) -> EncodedBatch:
        """Encode a batch of documents, without modifying them."""
        return self.model.predict(list(docs))

    def set_annotations(self, docs: Iterable[Doc], predictions: EncodedBatch) -> None:
        """Leave each document its encoding, for the listeners."""
        listeners = self.listeners
        stays = self.cfg["keep_encodings"] or not all(
            isinstance(listener, EncoderListener) for listener in listeners
        )
        encodings = predictions.split(readers=0 if stays else len(listeners))
        for doc, encoding in zip(docs, encodings, strict=True):
            set_encoding(doc, encoding)
            doc.user_data.pop(STOCK_DATA_KEY, None)  # built from an earlier encoding

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Encode a batch and hand it to the listeners, whose gradients come back.

        The last listener's gradient starts the backward pass; every listener must send one for
        each batch, zeros where it has nothing to learn from it.
        """
        examples = list(examples)
        validate_examples(examples, "SharedEncoder.update")
        losses = {} if losses is None else losses
        docs = [example.predicted for example in examples]
        if not any(len(doc) for doc in docs):
            return losses
        self._finish_pending()
        set_dropout_rate(self.model, drop)
        losses.setdefault(self.name, 0.0)
        batch, backprop_model = self.model.begin_update(docs)
        listeners = self.listeners
        pending = _PendingBackprop(
            gradient=self.model.ops.alloc2f(*batch.hidden.shape),
            backprop=backprop_model,
            waiting_for=len(listeners),
            sgd=sgd,
        )
        self._pending = pending

        def backprop(d_hidden: Floats2d) -> None:
            losses[self.name] += float((d_hidden**2).sum())
            pending.gradient += d_hidden
            pending.received += 1
            if pending.received == pending.waiting_for:
                self._finish_pending()

        stock_data = None
        for listener in listeners:
            if isinstance(listener, EncoderListener):
                listener.receive(docs, batch, backprop)
                continue
            if stock_data is None:
                stock_data = [to_stock(encoding) for encoding in batch.split()]
            batch_id = TransformerListener.get_batch_id(docs)
            listener.receive(batch_id, stock_data, _from_stock(backprop))
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Step the optimizer; while heads still have to send gradients, once they have."""
        if self._pending is not None and self._pending.received == 0:
            self._pending.sgd = sgd
            return
        self._finish_pending()
        self.model.finish_update(sgd)

    def _finish_pending(self) -> None:
        """Run the backward pass of the last batch with what the heads sent.

        A frozen head sends nothing, so this cannot wait for all of them.
        """
        pending, self._pending = self._pending, None
        if pending is None or pending.received == 0:
            return
        pending.backprop(pending.gradient)
        if pending.sgd is not None:
            self.model.finish_update(pending.sgd)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save the component; `encoder/` is a directory that `AutoModel` loads as well."""
        serialize = {
            "cfg": lambda p: srsly.write_json(p, self.cfg),
            "encoder": self.model.shims[0].save,
        }
        util.to_disk(path, serialize, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> SharedEncoder:
        """Load what `to_disk` saved."""

        def load_encoder(encoder_path: Path) -> None:
            self.model.shims[0].load(encoder_path)
            self.model.initialize()
            self._tell_width()

        deserialize = {
            "cfg": lambda p: self.cfg.update(deserialize_config(p)),
            "encoder": load_encoder,
        }
        util.from_disk(path, deserialize, exclude)
        return self

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> SharedEncoder:
        super().from_bytes(bytes_data, exclude=exclude)
        self._tell_width()
        return self

    def _tell_width(self) -> None:
        for listener in self.listeners:
            if listener.has_dim("nO") is None:
                listener.set_dim("nO", self.model.get_dim("nO"))


def to_stock(encoding: EncodedDoc) -> TransformerData:
    """The same encoding in spacy-transformers' terms: one sequence for the whole document."""
    rows = len(encoding.ids)
    if rows == 0:
        return TransformerData.empty()
    return TransformerData(
        wordpieces=WordpieceBatch(
            strings=[[encoding.id_to_token(i) for i in encoding.ids.tolist()]],
            input_ids=encoding.ids[None],
            attention_mask=np.ones((1, rows), dtype="float32"),
            lengths=[rows],
            token_type_ids=None,
        ),
        model_output=ModelOutput(last_hidden_state=encoding.hidden[None]),
        align=Ragged(encoding.indices.astype("int32"), encoding.piece_counts.astype("int32")),
    )


def _from_stock(
    backprop: Callable[[Floats2d], None],
) -> Callable[[list[TransformerData]], list]:
    """Take the gradient that a stock listener sends: it leaves out documents without tokens."""

    def backprop_stock(d_datas: list[TransformerData]) -> list:
        parts = [data.model_output.last_hidden_state[0] for data in d_datas]
        backprop(get_array_module(parts[0]).concatenate(parts))
        return []

    return backprop_stock


def install_extensions() -> None:
    """Declare `doc._.trf_data`, built from the encoding when it is first read."""
    Doc.set_extension("trf_data", getter=_get_trf_data, setter=_set_trf_data, force=True)


def _get_trf_data(doc: Doc) -> TransformerData | None:
    data = doc.user_data.get(STOCK_DATA_KEY)
    if data is None:
        encoding = get_encoding(doc)
        if encoding is not None:
            data = to_stock(encoding)
            doc.user_data[STOCK_DATA_KEY] = data
    return data


def _set_trf_data(doc: Doc, data: TransformerData | None) -> None:
    doc.user_data[STOCK_DATA_KEY] = data
