"""Score a pipeline of several tasks, each task on its corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.util import registry

from ..corpora.splits import PARTS
from ..errors import BiomedError
from ..packaging.compression import weighted_scores
from ..training.multitask import MultiTaskCorpus


def score_tasks(nlp: Language, part: str = "test") -> dict[str, float]:
    """Score each component on the corpus it was trained on.

    Args:
        nlp: a pipeline trained with `spacy_biomed.MultiTaskCorpus.v1`, whose config has the paths
            of the development parts.
        part: "train", "dev" or "test"; read from the folder of the development part.

    Returns:
        the scores with a weight in the config's score weights, 0 to 1, by name.

    Raises:
        BiomedError: if the pipeline was trained on one corpus, or a part does not exist.
    """
    return weighted_scores(nlp, list(read_part(nlp.config.interpolate(), part)(nlp)))


def read_part(config: dict[str, Any], part: str) -> MultiTaskCorpus:
    """Create the corpora of another part from a config's development parts."""
    settings = config.get("corpora", {}).get("dev", {})
    if settings.get("@readers") != "spacy_biomed.MultiTaskCorpus.v1":
        raise BiomedError(
            "the pipeline's config has no spacy_biomed.MultiTaskCorpus.v1 in corpora.dev: "
            "`python -m spacy evaluate` scores a pipeline of one task"
        )
    if part not in PARTS:
        raise BiomedError(f"--part {part}: use {', '.join(PARTS)}")
    paths = {
        name: str(Path(path).with_name(f"{part}.spacy")) for name, path in settings["paths"].items()
    }
    # A limit is only for faster evaluation during training.
    return registry.resolve({"corpus": {**settings, "paths": paths, "limit": 0}})["corpus"]
