"""A copy of a pipeline that gives its entities codes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import srsly
from spacy.language import Language

from ..errors import BiomedError, list_choices, quote
from ..files.output_places import MARKER, check_replaceable
from ..pipeline.checksums import TRAINABLE, replacing_pipeline
from ..pipeline.linking.component import FACTORY, BiomedLinker
from ..pipeline.pipeline_loading import load_pipeline
from ..pipeline.saved_words import remove_words
from ..training.corpus import Corpus_v1

MADE_BY = "spacy biomed terminology link"


def link_pipeline(
    pipeline: str,
    output: Path,
    terminologies: Mapping[str, Path],
    labels: Mapping[str, str],
    *,
    train: Sequence[Path] = (),
    spans_key: str | None = None,
    threshold: float = 0.5,
    beside: bool = False,
) -> None:
    """Write a copy of a pipeline with a `biomed_linker`; everything else stays as it is.

    Args:
        pipeline: directory or installed package.
        output: directory to write; replaced if it is there.
        terminologies, labels, spans_key, threshold: settings of `BiomedLinker`.
        train: .spacy files with `ent.kb_id_`, to train and calibrate the linker.
        beside: leave the terminologies where they are, rather than copy them into the pipeline.

    Raises:
        BiomedError: if the pipeline has a linker, or something cannot be read. Nothing is written.
    """
    sources: list[Path | str] = [pipeline, *terminologies.values(), *train]
    check_replaceable(output, MADE_BY, sources)
    nlp = load_pipeline(pipeline)
    if FACTORY in nlp.pipe_factories.values():
        raise BiomedError(f"{pipeline}: has a {FACTORY}; give the pipeline without it")
    _check_labels(nlp, labels)
    paths = {name: str(path.resolve()) for name, path in terminologies.items()}
    settings = {
        "terminologies": paths if beside else {},
        "labels": dict(labels),
        "spans_key": spans_key,
        "threshold": threshold,
    }
    linker = cast(BiomedLinker, nlp.add_pipe(FACTORY, config=settings))
    if not beside:
        for name, path in paths.items():
            linker.add_terminology(name, path)
    linker.open()
    if train:
        linker.initialize(lambda: (one for path in train for one in Corpus_v1(path)(nlp)))
        if not linker.is_trained:
            raise BiomedError(
                f"{', '.join(map(str, train))}: no entity of {', '.join(labels)} has an "
                "identifier; `python -m spacy biomed convert` keeps those of --identifier"
            )
    with replacing_pipeline(output, MADE_BY, sources) as partial:
        left_out = shutil.ignore_patterns(MARKER, TRAINABLE)
        shutil.copytree(nlp.path, partial, dirs_exist_ok=True, ignore=left_out)
        linker.to_disk(partial / FACTORY)
        nlp.config.to_disk(partial / "config.cfg")
        srsly.write_json(partial / "meta.json", nlp.meta)
        remove_words(nlp, partial)


def _check_labels(nlp: Language, labels: Mapping[str, str]) -> None:
    """Refuse a label that no component finds, if the components say which they find."""
    found = {label for _, pipe in nlp.pipeline for label in getattr(pipe, "labels", ())}
    for label in labels:
        if found and label not in {*found, "*"}:
            raise BiomedError(f"--terminology {quote(label)}: {list_choices(label, sorted(found))}")
