"""Pipelines with the small encoders of the shared fixtures."""

from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.language import Language

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
