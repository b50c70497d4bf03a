"""Copies of a pipeline: with calibrated probabilities, or with codes for its entities."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

import srsly
from spacy.language import Language
from spacy.training import Example

from ..errors import BiomedError, list_choices, quote
from ..files.outputs import MARKER
from ..pipeline.checksums import TRAINABLE, replacing_pipeline
from ..pipeline.encoder_head import CalibratedHead
from ..pipeline.linking.component import FACTORY, BiomedLinker
from ..pipeline.ner.calibrating import Calibration, calibrate
from ..pipeline.ner.component import RecallMeasure, RecallTarget
from ..pipeline.pipeline_loading import load_pipeline
from ..pipeline.saved_words import remove_words
from ..training.corpus import Corpus_v1

if TYPE_CHECKING:
    from typing_extensions import Unpack


CALIBRATED_BY, LINKED_BY = "spacy biomed calibrate", "spacy biomed terminology link"


@contextmanager
def _copying(
    pipeline: str, output: Path, made_by: str, sources: Sequence[Path]
) -> Iterator[tuple[Language, Path]]:
    """Yield a pipeline, and the folder of its copy to change, without words or form for training.

    Nothing is written if the body raises an error.
    """
    with replacing_pipeline(output, made_by, [pipeline, *sources]) as partial:
        nlp = load_pipeline(pipeline)
        left_out = shutil.ignore_patterns(MARKER, TRAINABLE)
        shutil.copytree(nlp.path, partial, dirs_exist_ok=True, ignore=left_out)
        yield nlp, partial
        remove_words(nlp, partial)


class RecallOptions(TypedDict, total=False):
    """The arguments of `calibrate` that say how many mentions are to be found."""

    target_recall: RecallTarget
    recall_measure: RecallMeasure | None
    unseen_share: float | None


def calibrate_pipeline(
    pipeline: str, output: Path, *, dev: Path, **recall: Unpack[RecallOptions]
) -> dict[str, Calibration]:
    """Write a copy of a pipeline, calibrated on a corpus; everything else stays as it is.

    Args:
        pipeline: directory or installed package, with any encoder.
        output: directory to write; replaced if it is there.
        dev: .spacy file that the pipeline was not trained on.
        recall: target_recall, recall_measure, unseen_share, as for `calibrate`.

    Returns:
        what was fitted, by the name of the component.

    Raises:
        BiomedError: if the pipeline or the corpus cannot be read, the corpus has nothing to
            calibrate, or for any reason of `calibrate`. Nothing is written then.
    """
    with _copying(pipeline, output, CALIBRATED_BY, [dev]) as (nlp, partial):
        report = write_calibration(nlp, partial, list(Corpus_v1(dev)(nlp)), **recall)
        if not any(one.predictions or one.recalls for one in report.values()):
            raise BiomedError(
                f"{dev}: has nothing that a biomed_ner or a biomed_assertion of {pipeline} finds "
                f"(its components are {', '.join(nlp.pipe_names)}); give a corpus with what it "
                "finds"
            )
    return report


def write_calibration(
    nlp: Language, path: Path, examples: Sequence[Example], **recall: Unpack[RecallOptions]
) -> dict[str, Calibration]:
    """Calibrate a pipeline as `calibrate` does, and write what was fitted to its directory."""
    report = calibrate(nlp, examples, **recall)
    for name in report:
        srsly.write_json(path / name / "cfg", cast(CalibratedHead, nlp.get_pipe(name)).cfg)
    return report


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

    `terminologies`, `labels`, `spans_key` and `threshold` are settings of `BiomedLinker`, which
    .spacy files with `ent.kb_id_` train and calibrate. With `beside`, the terminologies stay where
    they are, and are not copied into the pipeline.
    """
    paths = {name: str(path.resolve()) for name, path in terminologies.items()}
    settings = {
        "terminologies": paths if beside else {},
        "labels": dict(labels),
        "spans_key": spans_key,
        "threshold": threshold,
    }
    sources = [*terminologies.values(), *train]
    with _copying(pipeline, output, LINKED_BY, sources) as (nlp, partial):
        if FACTORY in nlp.pipe_factories.values():
            raise BiomedError(f"{pipeline}: has a {FACTORY}; give the pipeline without it")
        found = {label for _, pipe in nlp.pipeline for label in getattr(pipe, "labels", ())}
        for label in labels:
            if found and label not in {*found, "*"}:  # else no component says what it finds
                choices = list_choices(label, sorted(found))
                raise BiomedError(f"--terminology {quote(label)}: {choices}")
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
        linker.to_disk(partial / FACTORY)
        nlp.config.to_disk(partial / "config.cfg")
        srsly.write_json(partial / "meta.json", nlp.meta)
