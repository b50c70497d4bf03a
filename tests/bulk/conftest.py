"""A pipeline of rules, which finds two kinds of words."""

from pathlib import Path

import pytest
import spacy


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
