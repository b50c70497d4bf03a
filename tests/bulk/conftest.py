"""A pipeline of rules, which finds two kinds of words, and documents in eight shards."""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import spacy
from fault_injection import snapshot
from spacy.language import Language

from spacy_biomed.bulk import BulkSettings, annotate_collection, shards
from spacy_biomed.pipeline.pipeline_loading import load_pipeline

load_once = cache(load_pipeline)


@pytest.fixture(scope="session")
def ruler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline that finds "aspirin" as DRUG, with the id D1, and "cancer" as DISEASE."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [
            {"label": "DRUG", "pattern": "aspirin", "id": "D1"},
            {"label": "DISEASE", "pattern": "cancer"},
        ]
    )
    path = tmp_path_factory.mktemp("pipelines") / "ruler"
    nlp.to_disk(path)
    return path


@pytest.fixture(autouse=True)
def loaded_once(ruler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the pipeline once, without code, on the CPU, and in this process."""
    process = os.getpid()

    def load(pipeline: str, *settings: Any) -> Language:
        is_plain = (pipeline, *settings) == (str(ruler), None, -1)
        is_loaded = is_plain and os.getpid() == process
        return (load_once if is_loaded else load_pipeline)(pipeline, *settings)

    monkeypatch.setattr(shards, "load_pipeline", load)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Forty documents: eight shards of five."""
    path = tmp_path / "notes.jsonl"
    texts = (f"aspirin {number} cancer" for number in range(40))
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture
def whole(ruler, notes, tmp_path) -> dict:
    """The files that one process writes of `notes`."""
    annotate_collection(str(ruler), notes, tmp_path / "whole", BulkSettings(shard_size=5))
    return snapshot(tmp_path / "whole")


@pytest.fixture
def check_written_again() -> Callable[..., None]:
    """Check that a shard that no record names is written again with the same bytes."""

    def check(write: Callable[[str], Path], name: str) -> None:
        output = write(name)
        files = snapshot(output)
        (output / "_finished.jsonl").unlink()
        write(name)
        assert snapshot(output) == files

    return check
