"""A tiny corpus, encoder and trained pipeline, made once."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from forked_commands import run_command

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.training.config import fill_config

SENTENCES = [
    "Lung\tB-D\ncancer\tI-D\n.\tO\n\n",
    "Aspirin\tB-C\nreduced\tO\nthe\tO\nrisk\tO\nof\tO\nstroke\tB-D\n.\tO\n\n",
    "No\tO\nsymptoms\tO\n.\tO\n\n",
    "Metformin\tB-C\nwas\tO\ngiven\tO\nfor\tO\ndiabetes\tB-D\n.\tO\n\n",
]


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A converted corpus: 20 sentences to train on, 4 each to develop and to test."""
    folder = tmp_path_factory.mktemp("tiny")
    source = folder / "source"
    source.mkdir()
    for part, times in (("train", 5), ("dev", 1), ("test", 1)):
        (source / f"{part}.tsv").write_text("".join(SENTENCES * times))
    convert_corpus("tiny", source, folder / "tiny", format="columns")
    return folder / "tiny"


@pytest.fixture(scope="session")
def tiny_config(tiny_corpus: Path, tiny_bert: Path) -> Path:
    """A config of three steps on that corpus, from the template `ner`."""
    config = fill_config(tiny_corpus, encoder=str(tiny_bert), epochs=1)
    config["vars"].update(max_steps=3, eval_frequency=3, warmup_steps=1, batch_words=40)
    path = tiny_corpus.parent / "tiny.cfg"
    config.to_disk(path)
    return path


@pytest.fixture(scope="session")
def tiny_pipeline(tiny_config: Path) -> Path:
    """What `spacy train` makes of that config."""
    from spacy.cli.train import train

    output = tiny_config.parent / "training"
    train(tiny_config, output)
    return output / "model-best"


@pytest.fixture(scope="module")
def finder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Spanish pipeline that finds the PATTERNS of a module's tests; it is loaded fast."""
    nlp = spacy.blank("es")
    nlp.add_pipe("entity_ruler").add_patterns(request.module.PATTERNS)
    path = tmp_path_factory.mktemp("pipelines") / "finder"
    nlp.to_disk(path)
    return path


@pytest.fixture(scope="session")
def run_spacy() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m spacy` with arguments, in a folder of the test's choice."""

    def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return run_command([sys.executable, "-m", "spacy", *map(str, arguments)], cwd=cwd)

    return run
