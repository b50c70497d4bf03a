"""`spacy_biomed.RelationClassifier.v1`: a score for every relation of each candidate."""

from __future__ import annotations

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain, list2array

from ..arrays import Floats2d
from ..encoders.listener import EncoderListener
from ..errors import BiomedError

ARCHITECTURE = "spacy_biomed.RelationClassifier.v1"


def RelationClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d]], dropout: float = 0.1, nO: int | None = None
) -> Model[list[Doc], Floats2d]:
    """A linear layer over the vector of the first position of a text with two marked arguments.

    The head of BlueBERT and MT-BlueBERT (Peng et al. 2020, section 3.2). The listener gives the
    vectors of texts that are whole documents. Texts that are made from documents are encoded by the
    model that the listener listens to, and only the layer "classifier" reads their vectors. The
    model has references to both layers: "tok2vec" and "classifier".

    Args:
        tok2vec: `spacy_biomed.EncoderListener.v1` with pooling "cls".
        dropout: applied to the vector in training; `training.dropout` of the config overrides it.
        nO: number of scores; set on initialisation.

    Returns:
        a model that returns scores, (docs, nO).

    Raises:
        BiomedError: if `tok2vec` is another layer, or has another pooling.
    """
    if not isinstance(tok2vec, EncoderListener):
        raise BiomedError(
            f"[model.tok2vec] of {ARCHITECTURE} is '{tok2vec.name}', which knows no encoder for "
            "texts that are not documents: use spacy_biomed.EncoderListener.v1"
        )
    if tok2vec.attrs["pooling"] != "cls":
        raise BiomedError(
            f"[model.tok2vec] pooling = '{tok2vec.attrs['pooling']}' gives rows for tokens, and "
            f"{ARCHITECTURE} takes one for the document: use 'cls'"
        )
    classifier: Model[Floats2d, Floats2d] = chain(Dropout(dropout), Linear(nO=nO))
    model = chain(tok2vec, list2array(), classifier)
    model.set_ref("tok2vec", tok2vec)
    model.set_ref("classifier", classifier)
    return model
