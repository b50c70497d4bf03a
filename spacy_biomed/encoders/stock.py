"""Encodings in spacy-transformers' format: `doc._.trf_data`, for stock listeners.

spacy-transformers is imported only when such an encoding is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from spacy.tokens import Doc
from thinc.types import Ragged

from ..annotations.document_keys import get_user_data
from .batching.encoded import EncodedDoc, get_encoding

if TYPE_CHECKING:
    from spacy_transformers.data_classes import TransformerData

# Such tuples are the keys of spaCy's extensions, though its types say str.
STOCK_DATA_KEY = ("._.", "trf_data", None, None)


def to_stock(encoding: EncodedDoc) -> TransformerData:
    """The same encoding as one sequence for the whole document."""
    from spacy_transformers.data_classes import TransformerData, WordpieceBatch
    from transformers.file_utils import ModelOutput

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


def install_extensions() -> None:
    """Declare `doc._.trf_data`, built from the encoding when it is first read."""
    Doc.set_extension("trf_data", getter=_get_trf_data, setter=_set_trf_data, force=True)


def forget_stock(doc: Doc) -> None:
    """Drop the value built from an earlier encoding."""
    get_user_data(doc).pop(STOCK_DATA_KEY, None)


def _get_trf_data(doc: Doc) -> TransformerData | None:
    data = get_user_data(doc).get(STOCK_DATA_KEY)
    if data is None:
        encoding = get_encoding(doc)
        if encoding is not None:
            data = to_stock(encoding)
            get_user_data(doc)[STOCK_DATA_KEY] = data
    return data


def _set_trf_data(doc: Doc, data: TransformerData | None) -> None:
    get_user_data(doc)[STOCK_DATA_KEY] = data
