"""A trained pipeline with the meta and the model card that its wheel carries."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any

from catalogue import RegistryError
from packaging.version import InvalidVersion, Version
from spacy.cli.package import get_third_party_dependencies
from spacy.vocab import Vocab
from thinc.api import Config

from ..annotations.pairs import get_pair
from ..encoders.encoder_catalogue import find_encoder
from ..errors import BiomedError, quote
from ..evaluation.tasks import Head, find_heads, read_scores
from ..files.outputs import MARKER
from ..formats.spacy_docs import read_docs
from ..pipeline.checksums import TRAINABLE, replacing_pipeline
from ..pipeline.ner import FACTORY as NER
from ..pipeline.pipeline_loading import load_pipeline
from ..pipeline.saved_words import find_strings, remove_words
from ..training.config import (
    check_sections,
    describe_corpus,
    describe_encoder,
    read_config,
    read_description,
    read_fields,
)
from .compression import exported_settings
from .model_card import DIAGRAMS, create_card

MADE_BY = "spacy biomed card"
ENCODER = "spacy_biomed.TransformerModel.v1"


def write_described_pipeline(
    pipeline: Path,
    output: Path,
    *,
    corpus: Path,
    metrics: Path,
    other_metrics: Mapping[str, Path] | None = None,
    robustness: Sequence[Path] = (),
    name: str | None = None,
    pipeline_version: str = "0.1.0",
) -> dict[str, object]:
    """Copy a trained pipeline and describe the copy, ready for `spacy package`.

    If the training continued from another pipeline (`spacy biomed init-config --source`), the
    description also names the sources of that one, as far as they are known.

    Args:
        pipeline: directory of a trained pipeline, such as `training/ncbi_disease/model-best`.
        output: directory to write; an earlier output is replaced.
        corpus: folder of the converted corpus that it was trained and tested on.
        metrics: JSON file that `spacy evaluate` wrote for the corpus's test part.
        other_metrics: the same for other test parts, by their names; the card shows them as well.
        robustness: JSON files that `spacy biomed benchmark --robustness` wrote.
        name: the package's name without its language; by default the corpus's.
        pipeline_version: the package's version.

    Returns:
        the meta.

    Raises:
        BiomedError: if the pipeline, the corpus or the metrics are missing or damaged, if the name
            or the version is not valid for a package, or if the output cannot be written.
    """
    others = other_metrics or {}
    sources = [pipeline, corpus, metrics, *others.values(), *robustness]
    if not (pipeline / "meta.json").is_file():
        raise BiomedError(f"{pipeline}: no pipeline there; `python -m spacy train` makes one")
    description = read_description(corpus)
    measured = [
        read_fields(path, ("corpus", "rows"), "python -m spacy biomed benchmark --robustness")
        for path in robustness
    ]
    meta = read_fields(pipeline / "meta.json", ("lang", "pipeline"), "python -m spacy train")
    if meta["lang"] != description["language"]:
        raise BiomedError(
            f"{corpus}: its language is {description['language']}, and that of {pipeline} is "
            f"{meta['lang']}; give the corpus that the pipeline was trained on"
        )
    config = read_pipeline_config(pipeline / "config.cfg")
    heads = find_heads(config)
    scores, *other_scores = (read_scores(path, heads) for path in (metrics, *others.values()))
    name = description["name"] if name is None else name
    pipeline_version = _check_package(name, pipeline_version)
    meta |= {
        "name": name,
        "version": pipeline_version,
        "description": _summarize(heads, description),
        "author": meta.get("author") or "trained with spacy-biomed",
        "performance": scores,
        **_describe_origin(pipeline, config, description),
        "requirements": _list_requirements(config),
    }
    with replacing_pipeline(output, MADE_BY, sources) as partial:
        # An earlier card may have had more diagrams.
        diagrams = (f"{kind}-*.svg" for kind in DIAGRAMS)
        left_out = shutil.ignore_patterns(MARKER, TRAINABLE, *diagrams)
        shutil.copytree(pipeline, partial, dirs_exist_ok=True, ignore=left_out)
        if _has_words(partial, meta):
            remove_words(load_pipeline(str(partial)), partial)
        content = json.dumps(meta, indent=2, ensure_ascii=False)
        (partial / "meta.json").write_text(content, encoding="utf8")
        card = create_card(
            meta,
            heads,
            others=dict(zip(others, other_scores, strict=True)),
            robustness=measured,
            of_pairs=any(map(get_pair, islice(read_docs(corpus / "train.spacy", Vocab()), 1))),
            confidences=_read_confidences(pipeline, config),
        )
        for file, content in {"README.md": card.text, **card.diagrams}.items():
            (partial / file).write_text(content, encoding="utf8")
    return meta


def _has_words(pipeline: Path, meta: dict[str, Any]) -> bool:
    """Whether the vocabulary has other strings than labels, as that of plain `spacy train` has."""
    labels = {label for own in meta.get("labels", {}).values() for label in own}
    files = filter(Path.is_file, find_strings(pipeline))
    return any(set(json.loads(file.read_text(encoding="utf8"))) - labels for file in files)


def _read_confidences(pipeline: Path, config: Config) -> dict[str, dict[str, Any]]:
    """Read what a calibration has fitted for each `biomed_ner` of a pipeline."""
    found: dict[str, dict[str, object]] = {}
    for name, component in config["components"].items():
        if component.get("factory") == NER:
            found[name] = {"calibration": None, "recall_offsets": {}}
            path = pipeline / name / "cfg"
            if path.is_file():
                found[name] |= read_fields(path, (), "python -m spacy train")
    return found


def _check_package(name: str, version: str) -> str:
    """Check the name and the version of a package; give the version as its files are named."""
    if not re.fullmatch(r"[A-Za-z0-9]\w{0,79}", name, re.ASCII):
        raise BiomedError(f"--name {name!r:.80}: use up to 80 letters, digits and underscores")
    try:
        return str(Version(version))
    except InvalidVersion:
        raise BiomedError(
            f"--version {version!r:.80}: no version of a package; use one such as 0.1.0"
        ) from None


def read_pipeline_config(path: Path) -> Config:
    """Read the config of a trained pipeline; raise BiomedError if it is not one."""
    if not path.is_file():
        raise BiomedError(f"{path}: not there; `python -m spacy train` writes it")
    config = read_config(path, interpolate=True)
    check_sections(path, config, ("nlp", "components", "training"))
    for name in config["nlp"].get("pipeline", ()):
        if name not in config["components"]:
            raise BiomedError(f"{path}: has no component {quote(name)}, which is in [nlp] pipeline")
    return config


def _summarize(heads: list[Head], description: dict[str, Any]) -> str:
    *first, last = dict.fromkeys(head.kind.task_name for head in heads) or ["pipeline"]
    tasks = " and ".join(filter(None, [", ".join(first), last]))
    return f"{tasks.capitalize()}, trained on {description['name']}."


def _describe_origin(
    pipeline: Path, config: Config, description: dict[str, Any]
) -> dict[str, object]:
    """The fields `sources`, `license` and `spacy_biomed` of the meta."""
    models = [component.get("model", {}) for component in config["components"].values()]
    trained = (one for one in models if one.get("@architectures") == ENCODER)
    known = chain(trained, exported_settings(pipeline))
    encoder_name = next((one["name"] for one in known), "none")
    encoder = find_encoder(encoder_name)
    if Path(encoder_name).is_absolute():  # where it is on this machine is nobody's business
        encoder_name = Path(encoder_name).name
    earlier = _read_earlier(config)
    taught = description.get("taught", {})
    teachers = taught.get("teachers", [])
    sources = list(map(describe_corpus, description.get("corpora") or [description]))
    sources.append(describe_encoder(encoder_name))
    for source in chain(earlier.get("sources", ()), *(one["sources"] for one in teachers)):
        if source["name"] not in {known["name"] for known in sources}:
            sources.append(source)
    licences = _join_licences(sources)
    if "spacy_biomed" not in earlier:  # else its sources have them
        licences.append(earlier.get("license", ""))
    for teacher in teachers:
        if all(one["name"].startswith("encoder: ") for one in teacher["sources"]):
            licences.append(f"{teacher['name']}: {teacher['license'] or 'not stated'}")
    training = {
        "corpus": description["name"],
        "documents": {part: counts["documents"] for part, counts in description["parts"].items()},
        "encoder": encoder.name if encoder else encoder_name,
        "seed": config["training"]["seed"],
        "unseen_test_mentions": description.get("unseen_share"),
    }
    if earlier:
        training["continues"] = earlier["name"]
    if teachers:
        training["teachers"] = list(dict.fromkeys(teacher["name"] for teacher in teachers))
        training["unlabelled_tokens"] = taught["unlabelled_tokens"]
    return {
        "sources": sources,
        "license": "; ".join(filter(None, licences)),
        "spacy_biomed": training,
    }


def _join_licences(sources: list[dict[str, str]]) -> list[str]:
    """A line for the corpora and one for the encoders, each with every licence once."""
    encoders = [one for one in sources if one["name"].startswith("encoder: ")]
    corpora = [one for one in sources if one not in encoders]
    kinds = {
        "corpora" if len(corpora) > 1 else "corpus": corpora,
        "encoder": [one for one in encoders if "license" in one],
    }
    return [
        f"{kind}: {', '.join(dict.fromkeys(one.get('license') or 'not stated' for one in named))}"
        for kind, named in kinds.items()
        if named
    ]


def _read_earlier(config: Config) -> dict[str, Any]:
    """Read the meta of the pipeline that the training continued from; {} if there was none."""
    source = config.get("vars", {}).get("source")
    if not isinstance(source, str):
        return {}
    try:
        meta = load_pipeline(source).meta
    except BiomedError:  # it no longer exists, so its sources and licences are unknown
        return {"name": Path(source).name, "license": f"{Path(source).name}: not stated"}
    return {**meta, "name": f"{meta['lang']}_{meta['name']}"}


def _list_requirements(config: Config) -> list[str]:
    """List what the wheel installs: spacy-biomed, and what `spacy package` finds in the config.

    spacy-biomed is from this version up to the next that may be incompatible.
    """
    current = version("spacy-biomed")
    major, minor, *_ = current.split(".")
    factories = {component["factory"] for component in config["components"].values()}
    extra = "[train]" if "biomed_transformer" in factories else ""  # which PyTorch is in
    requirements = [f"spacy-biomed{extra}>={current},<{major}.{int(minor) + 1}"]
    with suppress(RegistryError):  # of the user's code, which only `spacy package --code` imports
        requirements += sorted(get_third_party_dependencies(config, exclude=["spacy-biomed"]))
    return requirements
