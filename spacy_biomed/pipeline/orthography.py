"""`spacy_biomed.Orthography.v1`: how a token is written, which uncased encoders do not see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from spacy.attrs import IS_ALPHA, IS_DIGIT, IS_LOWER, IS_PUNCT, IS_TITLE, IS_UPPER, LENGTH
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

ATTRIBUTES = [IS_LOWER, IS_UPPER, IS_TITLE, IS_ALPHA, IS_DIGIT, IS_PUNCT, LENGTH]
LENGTH_STEPS = (1, 2, 3, 4, 6, 9)
WIDTH = 8 + len(LENGTH_STEPS)


def Orthography_v1() -> Model[list[Doc], list[Floats2d]]:
    """Ones and zeros that tell how each token is written, (tokens, 14) for each document.

    Lower case, upper case, title case, other letters (mixed case or without case), letters only,
    digits only, letters and digits together, punctuation; and whether the token has more than 1, 2,
    3, 4, 6 and 9 characters. An encoder that folds case cannot tell `AT`, the disease, from `at`.
    Nothing is learned.
    """
    return Model("orthography", forward, dims={"nO": WIDTH})


def forward(
    model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[list[Floats2d]], list]]:
    table = np.concatenate([doc.to_array(ATTRIBUTES).reshape(-1, len(ATTRIBUTES)) for doc in docs])
    is_lower, is_upper, is_title, is_alpha, is_digit, is_punct = table[:, :6].astype(bool).T
    columns = [
        is_lower,
        is_upper,
        is_title,
        is_alpha & ~(is_lower | is_upper | is_title),
        is_alpha,
        is_digit,
        ~(is_alpha | is_digit | is_punct),
        is_punct,
        *(table[:, 6] > step for step in LENGTH_STEPS),
    ]
    features = model.ops.asarray2f(np.stack(columns, axis=1).astype("float32"))
    borders = np.cumsum([len(doc) for doc in docs])[:-1].tolist()
    return model.ops.xp.split(features, borders), lambda d_features: []
