"""What the studies share: trainings with a log, and the results that finished runs leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spacy.training.initialize import init_nlp
from thinc.api import Config

from ..training.resumable import train

CONFIG, LOG = "config.cfg", "log.txt"

# Called with a description of the training that starts.
Progress = Callable[[str], None]


def train_in(place: Path, config: Config, gpu: int) -> None:
    """Train a config's pipeline in a folder, which also gets the config and a log.

    An interrupted training is resumed.

    Args:
        place: the folder; created if it does not exist.
        config: the training config.
        gpu: number of the GPU; -1 for none.
    """
    place.mkdir(parents=True, exist_ok=True)
    config.to_disk(place / CONFIG)
    nlp = init_nlp(config, use_gpu=gpu)
    with (place / LOG).open("a", encoding="utf8") as log:
        train(nlp, place, use_gpu=gpu, stdout=log, stderr=log)


def create_digest(*parts: str) -> str:
    """A hash of everything that determines a result."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_result(path: Path, digest: str) -> dict[str, Any] | None:
    """The result of a finished run; None if there is none, or the digest is different."""
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf8"))
    return content if content["run"] == digest else None
