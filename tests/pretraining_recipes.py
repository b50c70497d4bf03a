"""A pretraining recipe that takes a second or two, and text for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confection import Config

from spacy_biomed.language_models.recipe import PretrainingRecipe, read_recipe
from spacy_biomed.language_models.run_folders import read_rows

RECIPE = """
[paths]
text = null
output = null

[text]
paths = ${paths.text}
validation = 6

[vocabulary]
kind = "wordpiece"
size = 150

[encoder]
type = "bert"
layers = 2
width = 16
heads = 2
feed_forward = 32
positions = 256
dropout = 0.1

[packing]
length = 24
across_documents = true

[masking]
probability = 0.15
whole_words = false

[training]
batch = 8
device_batch = 4
steps = 6
learning_rate = 0.01
warmup = 0.1
precision = "fp32"
evaluate_every = 3

[training.arguments]

[output]
directory = ${paths.output}
"""

SENTENCE = "aspirin reduced the risk of lung cancer in patients with diabetes and fever"


def make_text(documents: int = 40) -> list[str]:
    """Different documents of different lengths."""
    words = SENTENCE.split()
    count = len(words)
    return [
        " ".join(words[(i * (j + 3) + j) % count] for j in range(4 + i % 17)) + f" {i}."
        for i in range(documents)
    ]


def write_text(path: Path, documents: list[str] | None = None) -> Path:
    path.write_text("\n".join(documents or make_text()) + "\n", encoding="utf8")
    return path


def make_recipe(folder: Path, **settings: Any) -> PretrainingRecipe:
    """Write the recipe to a folder, and read it.

    Args:
        settings: changed settings, with "__" for dots in names; None leaves out a whole section.
    """
    return read_recipe(write_recipe(folder, **settings), PretrainingRecipe)


def write_recipe(folder: Path, **settings: Any) -> Path:
    config = Config().from_str(RECIPE, interpolate=False)
    text = folder / "text.txt"
    if not text.exists():
        write_text(text)
    settings = {"paths__text": str(text), "paths__output": str(folder / "output"), **settings}
    for name, value in settings.items():
        *sections, key = name.split("__")
        place: Any = config
        for section in sections:
            place = place.setdefault(section, {})
        if value is None:
            place.pop(key)
        else:
            place[key] = value
    path = folder / "recipe.cfg"
    config.to_disk(path, interpolate=False)
    return path


PROGRAM = """
import sys
from pathlib import Path
from rich.console import Console
from spacy_biomed.language_models.pretraining import pretrain
from spacy_biomed.language_models.recipe import PretrainingRecipe, read_recipe
pretrain(read_recipe(Path(sys.argv[1]), PretrainingRecipe), Console())
"""


@contextmanager
def running(recipe: Path, *launcher: str) -> Iterator[subprocess.Popen[str]]:
    """Pretrain in a separate process, or in those of a launcher; they are killed at the end."""
    program = recipe.with_name("program.py")
    program.write_text(PROGRAM, encoding="utf8")
    process = subprocess.Popen(
        [sys.executable, *launcher, str(program), str(recipe)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def losses(recipe):
    """Training and validation losses by step."""
    rows = read_rows(recipe.output.work / "log.jsonl")
    return {
        name: {row["step"]: row[name] for row in rows if name in row}
        for name in ("loss", "validation_loss")
    }
