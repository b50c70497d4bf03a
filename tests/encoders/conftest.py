"""Encoder models around the small encoders of the shared fixtures."""

from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from thinc.api import Model

from spacy_biomed.encoders.transformer_model import TransformerModel_v1


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Model]:
    """Initialise a `TransformerModel.v1` from a directory; fp32 unless told."""

    def make(path: Path, **settings) -> Model:
        return TransformerModel_v1(str(path), **{"precision": "fp32", **settings}).initialize()

    return make


@pytest.fixture(scope="session")
def nlp() -> Language:
    return spacy.blank("en")
