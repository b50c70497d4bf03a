"""The component `biomed_onnx_transformer`: an exported encoder, shared by the heads after it."""

from __future__ import annotations

from spacy.training import Example
from thinc.api import Optimizer

from .encoder_pipe import EncoderPipe
from .factories import register_factory


class OnnxEncoder(EncoderPipe):
    """Encode each document once with ONNX Runtime or OpenVINO, for all heads after it that listen.

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

    @property
    def engine(self) -> str | None:
        """The library that runs the encoder; None before one is loaded."""
        return self.model.shims[0].choice

    def update_batch(
        self, examples: list[Example], losses: dict[str, float], drop: float, sgd: Optimizer | None
    ) -> None:
        """Encode a batch for the heads that are trained; their gradients are discarded."""
        losses.setdefault(self.name, 0.0)
        docs = [example.predicted for example in examples]
        if any(len(doc) for doc in docs):
            self.feed_listeners(docs, self.predict(docs), lambda d_hidden: [])

    def finish_update(self, sgd: Optimizer) -> None:
        """Do nothing: the encoder is not trained."""


make_biomed_onnx_transformer = register_factory(
    "biomed_onnx_transformer",
    OnnxEncoder,
    {"model": {"@architectures": "spacy_biomed.OnnxTransformerModel.v1"}},
    assigns=["doc._.trf_data"],
)
