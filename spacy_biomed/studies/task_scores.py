"""The scores of a pipeline of several tasks, each on its own corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.util import registry

from ..corpora.convert import PARTS
from ..errors import BiomedError
from ..packaging.compression import weighted_scores
from ..training.multitask import MultiTaskCorpus


def score_tasks(nlp: Language, part: str = "test") -> dict[str, float]:
    """Score each component on the corpus that it was trained for.

    Args:
        nlp: a pipeline trained with `spacy_biomed.MultiTaskCorpus.v1`, whose config names the
            development parts.
        part: "train", "dev" or "test"; it lies beside the development part.

    Returns:
        the scores that the config's score weights count, 0 to 1, by name.

    Raises:
        BiomedError: if the pipeline is of one corpus, or a part is not there.
    """
    return weighted_scores(nlp, list(read_part(nlp.config.interpolate(), part)(nlp)))


def read_part(config: dict[str, Any], part: str) -> MultiTaskCorpus:
    """The corpora that a config names for development, in another part."""
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
    # A limit is there to evaluate faster during training.
    return registry.resolve({"corpus": {**settings, "paths": paths, "limit": 0}})["corpus"]
