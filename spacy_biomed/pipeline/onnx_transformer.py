"""The component `biomed_onnx_transformer`: an exported encoder, shared by the heads after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Config, Model, Optimizer

from ..encoders.batching.encoded import EncodedBatch
from ..encoders.stock import install_extensions
from .encoder_pipe import EncoderPipe

DEFAULT_CONFIG = """
[biomed_onnx_transformer]
max_batch_words = 8192
keep_encodings = false

[biomed_onnx_transformer.model]
@architectures = "spacy_biomed.OnnxTransformerModel.v1"
path = null
threads = null
window = 512
context = 64
batch_pieces = 128
pair_overflow = "truncate"
"""


@Language.factory(
    "biomed_onnx_transformer",
    assigns=["doc._.trf_data"],
    default_config=Config().from_str(DEFAULT_CONFIG)["biomed_onnx_transformer"],
)
def make_biomed_onnx_transformer(
    nlp: Language,
    name: str,
    model: Model[list[Doc], EncodedBatch],
    max_batch_words: int,
    keep_encodings: bool,
) -> OnnxEncoder:
    """Create the component; see `OnnxEncoder` for the settings."""
    return OnnxEncoder(
        nlp.vocab,
        model,
        name,
        max_batch_words=max_batch_words,
        keep_encodings=keep_encodings,
    )


class OnnxEncoder(EncoderPipe):
    """Encode each document once with ONNX Runtime, for all components after it that listen.

    It takes the place of `biomed_transformer` in a finished pipeline (`spacy biomed compress`) and
    runs where neither torch, transformers nor spacy-transformers is installed. Where the last is,
    stock listeners hear it too, and `doc._.trf_data` is declared as by `biomed_transformer`. The
    encoder itself does not learn; heads can still be trained on it.

    vocab: the pipeline's vocabulary.
    model: `spacy_biomed.OnnxTransformerModel.v1`.
    name: name of the component in the pipeline.
    max_batch_words: tokens that `pipe` encodes at a time; bounds memory.
    keep_encodings: whether documents keep their encodings.

    >>> import spacy
    >>> nlp = spacy.blank("en")
    >>> encoder = nlp.add_pipe("biomed_onnx_transformer")
    >>> nlp.pipe_names
    ['biomed_onnx_transformer']
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], EncodedBatch],
        name: str = "biomed_onnx_transformer",
        *,
        max_batch_words: int = 8192,
        keep_encodings: bool = False,
    ):
        if find_spec("spacy_transformers") is not None:
            install_extensions()
        self.vocab = vocab
        self.model = model
        self.name = name
        self.cfg = {"max_batch_words": max_batch_words, "keep_encodings": keep_encodings}
        self.listener_map: dict[str, list] = {}

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
    ) -> None:
        """Load the encoder that the model's `path` names, unless it is there already."""
        self.model.initialize()
        self.tell_width()

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Encode a batch for the heads that learn on it; their gradients end here."""
        examples = list(examples)
        validate_examples(examples, "OnnxEncoder.update")
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        docs = [example.predicted for example in examples]
        if any(len(doc) for doc in docs):
            self.feed_listeners(docs, self.predict(docs), lambda d_hidden: [])
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Nothing is learned."""
