"""The meta and the model card that a wheel carries: what it does, how well, out of what."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version
from spacy.vocab import Vocab

from ..annotations.pairs import get_pair
from ..corpora.corpus_catalogue import find_corpus
from ..encoders.encoder_catalogue import EncoderEntry, find_encoder
from ..errors import BiomedError, quote
from ..evaluation.tasks import Head, find_heads
from ..outputs import MARKER, check_replaceable, replacing_directory
from ..pipeline.pipeline_loading import load_pipeline
from ..training.config import check_sections, read_config, read_description, read_fields
from ..training.corpus import read_docs
from .compression import exported_settings

MADE_BY = "spacy biomed card"


def write_described_pipeline(
    pipeline: Path,
    output: Path,
    *,
    corpus: Path,
    metrics: Path,
    other_metrics: Mapping[str, Path] | None = None,
    name: str | None = None,
    pipeline_version: str = "0.1.0",
) -> dict[str, Any]:
    """Copy a trained pipeline and describe the copy, ready for `spacy package`.

    Where the training went on from another pipeline (`spacy biomed init-config --source`) that is
    still there and described, what that was made of is named too.

    Args:
        pipeline: directory of a trained pipeline, such as `training/ncbi_disease/model-best`.
        output: directory to write; replaced if it is there.
        corpus: folder of the converted corpus that it was trained and tested on.
        metrics: JSON file that `spacy evaluate` wrote for the corpus's test part.
        other_metrics: the same for other test parts, by their names, which the card shows as well.
        name: the package's name without its language; by default the corpus's.
        pipeline_version: the package's version.

    Returns:
        the meta.

    Raises:
        BiomedError: if the pipeline, the corpus or the metrics are not there or damaged, if name or
            version cannot be a package's, or the output cannot be written.
    """
    _check_package(name, pipeline_version)
    others = other_metrics or {}
    sources = [pipeline, corpus, metrics, *others.values()]
    check_replaceable(output, MADE_BY, sources)
    if not (pipeline / "meta.json").is_file():
        raise BiomedError(f"{pipeline}: no pipeline there; `python -m spacy train` makes one")
    description = read_description(corpus)
    evaluate = "python -m spacy evaluate --output"
    scores = read_fields(metrics, (), evaluate)
    other_scores = {test: read_fields(path, (), evaluate) for test, path in others.items()}
    meta = read_fields(pipeline / "meta.json", ("lang", "pipeline"), "python -m spacy train")
    config = _read_pipeline_config(pipeline / "config.cfg")
    encoder_name = _encoder_name(config, pipeline)
    encoder = find_encoder(encoder_name)
    earlier = _read_earlier(config)
    meta["name"] = name or description["name"]
    _check_package(meta["name"], pipeline_version)
    meta["version"] = pipeline_version
    heads = find_heads(config)
    meta["description"] = _summary(heads, description)
    meta["author"] = meta.get("author") or "trained with spacy-biomed"
    meta["performance"] = scores
    meta["sources"] = [
        *_sources(description, encoder, encoder_name),
        *(
            {**one, "name": f"{earlier['name']}: {one['name']}"}
            for one in earlier.get("sources", ())
        ),
    ]
    licences = [*_licences(description, encoder), earlier.get("license", "")]
    meta["license"] = "; ".join(dict.fromkeys(filter(None, licences)))
    meta["requirements"] = [_requirement(config)]
    meta["spacy_biomed"] = {
        "corpus": description["name"],
        "documents": {part: counts["documents"] for part, counts in description["parts"].items()},
        "encoder": encoder.name if encoder else encoder_name,
        "seed": config["training"]["seed"],
        "unseen_test_mentions": description.get("unseen_share"),
    }
    if earlier:
        meta["spacy_biomed"]["continues"] = earlier["name"]
    with replacing_directory(output, MADE_BY, sources) as partial:
        shutil.copytree(
            pipeline, partial, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MARKER)
        )
        (partial / "meta.json").write_text(
            json.dumps(meta, indent=2, ensure_ascii=False), encoding="utf8"
        )
        card = create_card(
            meta, description, heads, others=other_scores, of_pairs=_has_pairs(corpus)
        )
        (partial / "README.md").write_text(card, encoding="utf8")
    return meta


def _read_pipeline_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise BiomedError(f"{path}: not there; `python -m spacy train` writes it")
    config = read_config(path, interpolate=True)
    check_sections(path, config, ("nlp", "components", "training"))
    for name in config["nlp"].get("pipeline", ()):
        if name not in config["components"]:
            raise BiomedError(f"{path}: has no component {quote(name)}, which is in [nlp] pipeline")
    return config


def _read_earlier(config: dict[str, Any]) -> dict[str, Any]:
    """What is known of the pipeline that a training went on from; nothing if there was none."""
    source = config.get("vars", {}).get("source")
    if not isinstance(source, str):
        return {}
    try:
        meta = load_pipeline(source).meta
    except BiomedError:  # not there any more, and what it was made of is not known
        return {"name": Path(source).name, "license": f"{Path(source).name}: not stated"}
    return {**meta, "name": f"{meta['lang']}_{meta['name']}"}


def _check_package(name: str | None, version: str) -> None:
    """The two become names of folders and files when the package is built."""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9]\w{0,79}", name, re.ASCII):
        raise BiomedError(f"--name {name!r:.80}: use up to 80 letters, digits and underscores")
    try:
        Version(version)
    except InvalidVersion:
        raise BiomedError(
            f"--version {version!r:.80}: no version of a package; use one such as 0.1.0"
        ) from None


def _encoder_name(config: dict[str, Any], pipeline: Path) -> str:
    for component in config["components"].values():
        model = component.get("model", {})
        if model.get("@architectures") == "spacy_biomed.TransformerModel.v1":
            return model["name"]
    for settings in exported_settings(pipeline):
        return settings["name"]
    return "none"


def _summary(heads: list[Head], description: dict[str, Any]) -> str:
    tasks = list(dict.fromkeys(head.kind.task_name for head in heads))
    return f"{_enumerate(tasks).capitalize() or 'Pipeline'}, trained on {description['name']}."


def _enumerate(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _licences(description: dict[str, Any], encoder: EncoderEntry | None) -> list[str]:
    corpora = description.get("corpora") or [description]
    stated = dict.fromkeys(one.get("licence") or "not stated" for one in corpora)
    licences = [f"{'corpora' if len(corpora) > 1 else 'corpus'}: {', '.join(stated)}"]
    if encoder is not None:
        licences.append(f"encoder: {encoder.licence or 'not stated'}")
    return licences


def _sources(
    description: dict[str, Any], encoder: EncoderEntry | None, encoder_name: str
) -> list[dict[str, str]]:
    corpora = [_corpus_source(one) for one in description.get("corpora") or [description]]
    if encoder is None:
        return [*corpora, {"name": f"encoder: {Path(encoder_name).name}"}]
    url = f"https://huggingface.co/{encoder.hub_id}" if encoder.hub_id else encoder.download or ""
    return [
        *corpora,
        {"name": f"encoder: {encoder.name}", "url": url, "license": encoder.licence or ""},
    ]


def _corpus_source(description: dict[str, Any]) -> dict[str, str]:
    """description: of a converted corpus, or of one of those that a combined one is made of."""
    source = {
        "name": description["name"],
        "url": description.get("source", ""),
        "license": description.get("licence", ""),
    }
    with suppress(BiomedError):  # a corpus of the user's own
        source["name"] = find_corpus(description["name"]).title
    return source


def _requirement(config: dict[str, Any]) -> str:
    """spacy-biomed from this version on, up to the next that may break it.

    A pipeline whose encoders are exported needs nothing of the extra `train`.
    """
    current = version("spacy-biomed")
    major, minor, *_ = current.split(".")
    factories = {component["factory"] for component in config["components"].values()}
    extra = "[train]" if "biomed_transformer" in factories else ""
    return f"spacy-biomed{extra}>={current},<{major}.{int(minor) + 1}"


def _has_pairs(corpus: Path) -> bool:
    """Whether the documents of a converted corpus are pairs of texts."""
    return any(get_pair(doc) for doc in islice(read_docs(corpus / "train.spacy", Vocab()), 1))


def create_card(
    meta: dict[str, Any],
    description: dict[str, Any],
    heads: list[Head],
    *,
    others: Mapping[str, dict[str, Any]] | None = None,
    of_pairs: bool = False,
) -> str:
    """Write the model card, in Markdown.

    Args:
        heads: the components that the card shows.
        others: scores on other test parts, by their names.
        of_pairs: whether they annotate pairs of texts.
    """
    package = f"{meta['lang']}_{meta['name']}"
    own = meta["spacy_biomed"]
    argument = 'spacy_biomed.pair(nlp, "...", "...")' if of_pairs else '"..."'
    lines = [
        f"# {package} {meta['version']}",
        "",
        meta["description"],
        "",
        "```python",
        "import spacy",
        *(["import spacy_biomed"] if of_pairs else []),
        "",
        f'nlp = spacy.load("{package}")',
        f"doc = nlp({argument})",
        *dict.fromkeys(head.usage for head in heads),
        "```",
        "",
        "## Made of",
        "",
        "| | |",
        "| --- | --- |",
        f"| Pipeline | {', '.join(meta['pipeline'])} |",
        f"| Encoder | {own['encoder']} |",
        *([f"| Goes on from | {own['continues']} |"] if "continues" in own else []),
        f"| Corpus | {own['corpus']} |",
        *(f"| Documents, {part} | {n:,} |" for part, n in own["documents"].items()),
        f"| Seed | {own['seed']} |",
        f"| Licence | {meta['license']} |",
        f"| Requires | {', '.join([*meta['requirements'], 'spaCy ' + meta['spacy_version']])} |",
        "",
        *_source_table(meta),
        "## Scores on the test part",
        "",
        *_score_tables(heads, meta["performance"]),
        *_score_notes(meta, description),
        *_other_tables(heads, others or {}),
        "## Limits",
        "",
        "It knows the kind of text that it was trained on. Measure it on your own before you rely "
        "on it; it is not a medical device.",
        "",
    ]
    return "\n".join(lines)


def _source_table(meta: dict[str, Any]) -> list[str]:
    """Where what it has learned comes from, where that is several corpora."""
    corpora = [one for one in meta["sources"] if "encoder: " not in one["name"]]
    if len(corpora) < 2:
        return []
    rows = [
        f"| {one['name']} | {one.get('license') or 'not stated'} | {one.get('url') or ''} |"
        for one in corpora
    ]
    return ["## Corpora", "", "| corpus | licence | source |", "| --- | --- | --- |", *rows, ""]


def _other_tables(heads: list[Head], others: Mapping[str, dict[str, Any]]) -> list[str]:
    lines = []
    for name, scores in others.items():
        lines += [f"## Scores on {name}", "", *_score_tables(heads, scores)]
    return lines


def _score_tables(heads: list[Head], scores: dict[str, Any]) -> list[str]:
    """A table of precision, recall and F1, and one of other scores, of each component."""
    lines = []
    for head in heads:
        rows, numbers = list(head.rows(scores)), list(head.numbers(scores))
        if len(heads) > 1 and (rows or numbers):
            lines += [f"### {head.name}", ""]
        if rows:
            lines += ["| | precision | recall | F1 |", "| --- | ---: | ---: | ---: |"]
            lines += [_row(title, values) for title, values in rows] + [""]
        if numbers:
            lines += ["| | |", "| --- | ---: |"]
            lines += [_row(title, [value]) for title, value in numbers] + [""]
    return lines


def _row(title: str, values: list[float | None]) -> str:
    shown = ["" if value is None else f"{100 * value:.2f}" for value in values]
    return f"| {title} | {' | '.join(shown)} |"


def _score_notes(meta: dict[str, Any], description: dict[str, Any]) -> list[str]:
    if "ents_f" not in meta["performance"]:
        return []
    unseen = description.get("unseen_share")
    share = f" ({100 * unseen:.1f}% of the test mentions)" if unseen is not None else ""
    return [
        "Exact match of characters and label, against all gold mentions of the source. Not seen in "
        f"training{share}: mentions whose lower-cased text is nowhere a mention of that label in "
        "the training part.",
        "",
    ]
