"""Score a pipeline of several tasks, each task on its corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spacy.language import Language
from spacy.util import registry

from ..corpora.splits import PARTS
from ..errors import BiomedError, list_choices
from ..packaging.compression import weighted_scores
from ..training.multitask import MultiTaskCorpus

if TYPE_CHECKING:
    from thinc.api import Config


def score_tasks(nlp: Language, part: str = "test") -> dict[str, float]:
    """Score each component on the corpus it was trained on.

    Args:
        nlp: a pipeline trained with `spacy_biomed.MultiTaskCorpus.v1`, whose config has the paths
            of the development parts, or of the training parts if there were none.
        part: "train", "dev" or "test"; read from the folder of these.

    Returns:
        the scores with a weight in the config's score weights, 0 to 1, by name.

    Raises:
        BiomedError: if the pipeline was trained on one corpus, or a part does not exist.
    """
    return weighted_scores(nlp, list(read_part(nlp.config.interpolate(), part)(nlp)))


def read_part(config: Config, part: str) -> MultiTaskCorpus:
    """Create the corpora of another part from a config's development parts.

    If the training had none, from its training parts.
    """
    corpora = config.get("corpora", {})
    readers = [corpora.get(name, {}) for name in ("dev", "train")]
    found = [one for one in readers if one.get("@readers") == "spacy_biomed.MultiTaskCorpus.v1"]
    if not found:
        raise BiomedError(
            "the pipeline's config has no spacy_biomed.MultiTaskCorpus.v1 in corpora.dev: "
            "`python -m spacy evaluate` scores a pipeline of one task"
        )
    if part not in PARTS:
        raise BiomedError(f"--part {part}: {list_choices(part, PARTS)}")
    settings = found[0]
    paths = {
        name: str(Path(path[0] if isinstance(path, list) else path).with_name(f"{part}.spacy"))
        for name, path in settings["paths"].items()
    }
    # A limit is only for faster evaluation during training, and sub-sentences only for learning.
    whole = {**settings, "paths": paths, "limit": 0, "max_words": {}}
    return registry.resolve({"corpus": whole})["corpus"]
