"""The component `biomed_onnx_transformer`: an exported encoder, shared by the heads after it."""

from __future__ import annotations

from collections.abc import Iterable

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Config, Model, Optimizer

from ..encoders.batching.encoded import EncodedBatch
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
    """Encode each document once with ONNX Runtime, for all heads after it that listen.

    It replaces `biomed_transformer` in a finished pipeline (`spacy biomed compress`) and does not
    need torch, transformers or spacy-transformers. The encoder itself cannot be trained, but heads
    can still be trained on it.

    Its model is `spacy_biomed.OnnxTransformerModel.v1`. `EncoderPipe` describes the settings.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> encoder = nlp.add_pipe("biomed_onnx_transformer")
        >>> nlp.pipe_names
        ['biomed_onnx_transformer']
    """

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Encode a batch for the heads that are trained; their gradients are discarded."""
        examples = list(examples)
        validate_examples(examples, "OnnxEncoder.update")
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        docs = [example.predicted for example in examples]
        if any(len(doc) for doc in docs):
            self.feed_listeners(docs, self.predict(docs), lambda d_hidden: [])
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Do nothing: the encoder is not trained."""
