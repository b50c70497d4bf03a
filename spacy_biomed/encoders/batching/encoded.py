"""What an encoder passes to the components that listen to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import srsly
from spacy.tokens import Doc
from thinc.api import get_array_module, to_numpy

from ...arrays import Floats2d, Ints1d
from .ragged import borders, split_at

# Where a document keeps its encodings, by the encoder's name, until their last listeners have read.
ENCODING_KEY = "spacy_biomed_encoding"
# The name for whichever encoder was the last.
LAST = "*"
ENCODED_ARRAYS = ("hidden", "ids", "indices", "piece_counts")


@dataclass(slots=True)
class EncodedDoc:
    """The encoding of one document.

    Attributes:
        hidden: (rows, width) vectors of the special tokens before the text, its word pieces, and
            the special tokens after it; for a pair, both texts with the special tokens between
            them.
        ids: (rows,) vocabulary ids.
        indices: (aligned,) the rows of the first token's word pieces, then of the second's, ...
        piece_counts: (tokens,) word pieces of each token.
        id_to_token: gives a vocabulary id's word piece.
        listeners: how many listeners still have to read it; the document drops it after the last.
    """

    hidden: Floats2d
    ids: Ints1d
    indices: Ints1d
    piece_counts: Ints1d
    id_to_token: Callable[[int], str]
    listeners: int = 0

    def __deepcopy__(self, memo: dict) -> EncodedDoc:
        """A copy that does not keep the arrays of the whole batch alive."""
        arrays = {name: getattr(self, name).copy() for name in ENCODED_ARRAYS}
        return EncodedDoc(**arrays, id_to_token=self.id_to_token, listeners=self.listeners)


@dataclass(slots=True)
class EncodedBatch:
    """The encodings of a batch of documents, concatenated in the same arrays.

    hidden (rows, width), ids (rows,), indices (aligned,) and piece_counts (tokens,) are as in
    `EncodedDoc`; indices count from the beginning of their document.

    Attributes:
        row_counts, token_counts: (docs,) rows and tokens of each document.
    """

    hidden: Floats2d
    ids: Ints1d
    indices: Ints1d
    piece_counts: Ints1d
    row_counts: Ints1d
    token_counts: Ints1d
    id_to_token: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.row_counts)

    @classmethod
    def from_docs(cls, docs: list[EncodedDoc]) -> EncodedBatch:
        """The batch of these documents."""
        xp = get_array_module(docs[0].hidden)
        return cls(
            hidden=xp.concatenate([doc.hidden for doc in docs]),
            ids=np.concatenate([doc.ids for doc in docs]),
            indices=np.concatenate([doc.indices for doc in docs]),
            piece_counts=np.concatenate([doc.piece_counts for doc in docs]),
            row_counts=np.array([len(doc.ids) for doc in docs], dtype="int64"),
            token_counts=np.array([len(doc.piece_counts) for doc in docs], dtype="int64"),
            id_to_token=docs[0].id_to_token,
        )

    def split(self, listeners: int = 0) -> list[EncodedDoc]:
        """One `EncodedDoc` per document, viewing this batch's arrays."""
        rows = borders(self.row_counts)
        tokens = borders(self.token_counts)
        parts = zip(
            split_at(self.hidden, rows),
            split_at(self.ids, rows),
            split_at(self.indices, borders(self.piece_counts)[tokens]),
            split_at(self.piece_counts, tokens),
            strict=True,
        )
        return [EncodedDoc(*arrays, self.id_to_token, listeners) for arrays in parts]

    def aligned_rows(self) -> Ints1d:
        """(aligned,) as `indices`, counted from the beginning of the batch."""
        tokens = borders(self.token_counts)
        aligned = np.diff(borders(self.piece_counts)[tokens])
        return self.indices + np.repeat(borders(self.row_counts)[:-1], aligned)

    def first_rows(self) -> Ints1d:
        """(tokens,) the row of each token's first word piece in the batch; -1 where it has none."""
        has_pieces = self.piece_counts > 0
        first = np.cumsum(self.piece_counts) - self.piece_counts
        rows = np.repeat(borders(self.row_counts)[:-1], self.token_counts)
        rows[has_pieces] += self.indices[first[has_pieces]]
        rows[~has_pieces] = -1
        return rows


# Allows a document that keeps its encoding to be written, and to be passed between the processes
# of `nlp.pipe`. Not an entry point: spaCy would import this module whenever it writes anything.
@srsly.msgpack_encoders("spacy_biomed.EncodedDoc.v1")
def encode_encoding(obj: object, chain: Callable | None = None) -> object:
    if not isinstance(obj, EncodedDoc):
        return obj if chain is None else chain(obj)
    values = {name: to_numpy(getattr(obj, name)) for name in ENCODED_ARRAYS}
    known = {str(i): obj.id_to_token(i) for i in set(obj.ids.tolist())}
    return {"__encoded_doc__": True, "readers": obj.listeners, "known": known, **values}


@srsly.msgpack_decoders("spacy_biomed.EncodedDoc.v1")
def decode_encoding(obj: object, chain: Callable | None = None) -> object:
    if not (isinstance(obj, dict) and "__encoded_doc__" in obj):
        return obj if chain is None else chain(obj)
    known = {int(i): piece for i, piece in obj["known"].items()}
    arrays = {name: obj[name] for name in ENCODED_ARRAYS}
    return EncodedDoc(**arrays, id_to_token=known.__getitem__, listeners=obj["readers"])


# Takes the gradient with respect to `EncodedBatch.hidden`, (rows, width); None stands for zeros.
EncodedBackprop = Callable[[Floats2d | None], object]


def get_encoding(doc: Doc, encoder: str = LAST) -> EncodedDoc | None:
    """Get the encoding of a document by the encoder of this name, or by the last one.

    None before the encoder and after the last reader, and if the tokens are no longer the same.
    """
    kept = _list_encodings(doc)
    found = next(reversed(kept.values()), None) if encoder == LAST else kept.get(encoder)
    return found if found is not None and len(found.piece_counts) == len(doc) else None


def set_encoding(doc: Doc, encoding: EncodedDoc, encoder: str = LAST) -> None:
    """Give a document its encoding, which stays until so many listeners have read it."""
    kept = _list_encodings(doc)
    kept.pop(encoder, None)  # so that the new one is the last
    doc.user_data[ENCODING_KEY] = {**kept, encoder: encoding}


def release_encoding(doc: Doc, encoder: str = LAST) -> None:
    """Decrement the number of listeners; after the last, the document drops the encoding.

    Each encoder counts those that listen to the last encoder, whichever that is.
    """
    kept = _list_encodings(doc)
    for name, encoding in [*kept.items()]:
        if encoder in (LAST, name) and encoding.listeners > 0:
            encoding.listeners -= 1
            if encoding.listeners == 0:
                del kept[name]
    if not kept:
        doc.user_data.pop(ENCODING_KEY, None)


def _list_encodings(doc: Doc) -> dict[str, EncodedDoc]:
    kept = doc.user_data.get(ENCODING_KEY, {})
    if isinstance(kept, EncodedDoc):  # a document that version 0.1 has stored
        kept = doc.user_data[ENCODING_KEY] = {LAST: kept}
    return kept
