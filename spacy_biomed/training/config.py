"""A training config for one corpus and one encoder, out of a template in `configs/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spacy.tokens import DocBin
from spacy.training.batchers import minibatch_by_words
from spacy.util import load_config
from spacy.vocab import Vocab
from thinc.api import Config

from ..errors import BiomedError

# What of the training the learning rate takes to rise; then it falls in a line, to 0 at the end.
WARMUP_SHARE = 0.1


def fill_config(
    template: Path,
    corpus: Path,
    *,
    encoder: str,
    epochs: int,
    batch_words: int | None = None,
    learn_rate: float | None = None,
    seed: int = 0,
) -> Config:
    """Fill a template's `[paths]`, `[vars]` and language.

    template: config with `[vars]` encoder, seed, learn_rate, batch_words, max_steps, warmup_steps
        and eval_frequency.
    corpus: folder that `spacy biomed convert` wrote.
    encoder: a catalogue name, a hub id or a directory.
    epochs: passes over the training part; the development part is scored after each.
    batch_words: tokens in a batch; by default the template's.
    learn_rate: highest learning rate; by default the template's.
    seed: of the initial weights, the order of the examples and dropout.
    RAISES BiomedError: if the template or the corpus is not there.
    """
    if not template.is_file():
        raise BiomedError(f"{template}: no such config; the templates are in configs/")
    description = read_description(corpus)
    config = load_config(template, interpolate=False)
    variables: dict[str, Any] = config["vars"]
    variables["encoder"] = encoder
    variables["seed"] = seed
    if batch_words is not None:
        variables["batch_words"] = batch_words
    if learn_rate is not None:
        variables["learn_rate"] = learn_rate
    train, dev = corpus / "train.spacy", corpus / "dev.spacy"
    steps = count_batches(train, variables["batch_words"])
    variables["max_steps"] = epochs * steps
    variables["warmup_steps"] = max(round(WARMUP_SHARE * epochs * steps), 1)
    variables["eval_frequency"] = steps
    config["paths"]["train"], config["paths"]["dev"] = train.as_posix(), dev.as_posix()
    config["nlp"]["lang"] = description["language"]
    return config


def read_description(corpus: Path) -> dict[str, Any]:
    """Read the `corpus.json` of a converted corpus."""
    path = corpus / "corpus.json"
    if not path.is_file():
        raise BiomedError(f"{path}: not there; `python -m spacy biomed convert` writes it")
    return json.loads(path.read_text(encoding="utf8"))


def count_batches(train: Path, batch_words: int) -> int:
    """Batches that `spacy.batch_by_words.v1` makes of a training part, in the file's order."""
    docs = DocBin().from_disk(train).get_docs(Vocab())
    batches = minibatch_by_words(docs, batch_words, tolerance=0.2, get_length=len)
    return max(sum(1 for _ in batches), 1)
