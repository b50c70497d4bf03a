"""`spacy_biomed.AnswerClassifier.v1`: scores for the start and the end of an answer."""

from __future__ import annotations

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Ragged

from ..arrays import Floats2d
from .token_classifier import TokenClassifier_v1


def AnswerClassifier_v1(
    tok2vec: Model[list[Doc], list[Floats2d] | list[Ragged]],
    hidden_width: int = 0,
    dropout: float = 0.1,
) -> Model[list[Doc], Ragged]:
    """A linear layer with two outputs, start and end, over each token's or word piece's vector.

    The head of BERT for SQuAD (Devlin et al. 2019, section 4.2), which BioBERT keeps for BioASQ.

    Args:
        tok2vec: usually `spacy_biomed.EncoderListener.v1`. With pooling "pieces" an answer starts
            at the first piece of its first word and ends at the last piece of its last word, as in
            BERT.
        hidden_width: width of a layer of rectified linear units before the scores; 0 for none, as
            in BERT.
        dropout: applied to the rows in training; `training.dropout` of the config overrides it.

    Returns:
        a model that returns one Ragged for the whole batch: data (rows, 2), the scores of start and
        end, and lengths (tokens,), the number of rows of each token.

    Raises:
        BiomedError: if `tok2vec` gives one row for each document.
    """
    return TokenClassifier_v1(tok2vec, hidden_width=hidden_width, dropout=dropout, nO=2)
