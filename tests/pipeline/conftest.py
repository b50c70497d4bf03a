"""Pipelines with the small encoders of the shared fixtures."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.training import Example
from thinc.api import Adam

from spacy_biomed.training.optimizer import AdamW_v1

# A package that `test_new_head.py` puts on the path of a separate process.
collect_ignore = ["new_head"]


@pytest.fixture
def make_pipeline(tiny_bert: Path) -> Callable[..., Language]:
    """A function that builds a pipeline of `biomed_transformer` and heads.

    Its argument maps the name of each head to its config; the factory is the part of the name
    before a "-".
    """

    def make(heads: dict[str, dict], encoder: Path = tiny_bert, **transformer) -> Language:
        spacy.util.fix_random_seed(0)
        nlp = spacy.blank("en")
        model = {"name": str(encoder), "precision": "fp32"}
        nlp.add_pipe("biomed_transformer", config={"model": model, **transformer})
        for name, config in heads.items():
            nlp.add_pipe(name.split("-")[0], name, config=config)
        return nlp

    return make


@pytest.fixture(params=[AdamW_v1, Adam])
def learns_nothing_from(request, weights: Callable) -> Callable[..., None]:
    """A function that trains a head on examples, then on others that must leave it as it is."""

    def check(nlp: Language, name: str, examples: list[Example], absent: list[Example]) -> None:
        sgd = request.param(1e-2, L2=0.1)
        nlp.update(examples, sgd=sgd)  # so that the optimizer has momentum
        before = weights(nlp, name)
        for _ in range(2):
            assert nlp.update(absent, sgd=sgd, losses={})[name] == 0.0
        np.testing.assert_array_equal(weights(nlp, name), before)
        nlp.update(examples, sgd=sgd)
        assert not np.array_equal(weights(nlp, name), before)

    return check
