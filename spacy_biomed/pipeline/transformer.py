"""The component `biomed_transformer`: one PyTorch encoder, shared by the heads after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Config, Model

from ..encoders.batching.encoded import EncodedBatch
from ..errors import BiomedError

if TYPE_CHECKING:
    from .shared_encoder import SharedEncoder

DEFAULT_CONFIG = """
[biomed_transformer]
max_batch_words = 8192
keep_encodings = false

[biomed_transformer.model]
@architectures = "spacy_biomed.TransformerModel.v1"
name = "roberta-base"
revision = null
precision = "auto"
window = 512
context = 64
batch_pieces = null
gradient_checkpointing = false
dropout = null
word_piece_dropout = 0.0
pair_overflow = "truncate"
"""


@Language.factory(
    "biomed_transformer",
    assigns=["doc._.trf_data"],
    default_config=Config().from_str(DEFAULT_CONFIG)["biomed_transformer"],
)
def make_biomed_transformer(
    nlp: Language,
    name: str,
    model: Model[list[Doc], EncodedBatch],
    max_batch_words: int,
    keep_encodings: bool,
) -> SharedEncoder:
    """Create the component; see `spacy_biomed.pipeline.shared_encoder.SharedEncoder`.

    RAISES BiomedError: without the packages of the extra `train`.
    """
    try:
        from .shared_encoder import SharedEncoder
    except ImportError as error:
        raise BiomedError(
            f"'biomed_transformer' needs PyTorch and spacy-transformers ({error}): "
            "pip install 'spacy-biomed[train]'"
        ) from error
    return SharedEncoder(
        nlp.vocab,
        model,
        name=name,
        max_batch_words=max_batch_words,
        keep_encodings=keep_encodings,
    )
