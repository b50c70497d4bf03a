"""A copy of a pipeline, with its entities calibrated on a development corpus."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import srsly
from spacy.language import Language
from spacy.training import Example

from ..errors import BiomedError
from ..outputs import MARKER, check_replaceable
from ..pipeline.checksums import replacing_pipeline
from ..pipeline.ner import BiomedNER
from ..pipeline.ner.calibrating import Calibration, calibrate
from ..pipeline.ner.recall_settings import RecallMeasure, RecallTarget
from ..pipeline.pipeline_loading import load_pipeline
from ..pipeline.saved_words import remove_words
from ..training.corpus import Corpus_v1

MADE_BY = "spacy biomed calibrate"


def calibrate_pipeline(
    pipeline: str,
    output: Path,
    *,
    dev: Path,
    target_recall: RecallTarget = None,
    recall_measure: RecallMeasure | None = None,
    unseen_share: float | None = None,
) -> dict[str, Calibration]:
    """Write a copy of a pipeline with its `biomed_ner` calibrated; everything else stays as it is.

    Args:
        pipeline: directory or installed package, with any encoder.
        output: directory to write; replaced if it is there.
        dev: .spacy file that the pipeline was not trained on.
        target_recall, recall_measure, unseen_share: as for `calibrate`.

    Returns:
        what was fitted, by the name of the component.

    Raises:
        BiomedError: if the pipeline or the corpus cannot be read, if the corpus has no mentions in
            the layer of a `biomed_ner`, or for any reason of `calibrate`. Nothing is written then.
    """
    sources: list[Path | str] = [pipeline, dev]
    check_replaceable(output, MADE_BY, sources)
    nlp = load_pipeline(pipeline)
    with replacing_pipeline(output, MADE_BY, sources) as partial:
        unmarked = shutil.ignore_patterns(MARKER)
        shutil.copytree(nlp.path, partial, dirs_exist_ok=True, ignore=unmarked)
        examples = list(Corpus_v1(dev)(nlp))
        report = write_calibration(
            nlp,
            partial,
            examples,
            target_recall=target_recall,
            recall_measure=recall_measure,
            unseen_share=unseen_share,
        )
        remove_words(nlp, partial)
        if not report:
            raise BiomedError(
                f"{dev}: has no mentions for a biomed_ner of {pipeline} (its components are "
                f"{', '.join(nlp.pipe_names)}); give a corpus with what it finds"
            )
    return report


def write_calibration(
    nlp: Language,
    path: Path,
    examples: Sequence[Example],
    *,
    target_recall: RecallTarget,
    recall_measure: RecallMeasure | None,
    unseen_share: float | None,
) -> dict[str, Calibration]:
    """Calibrate a pipeline, and write what was fitted to the pipeline's directory.

    Args:
        examples, target_recall, recall_measure, unseen_share: as for `calibrate`.
    """
    report = calibrate(
        nlp,
        examples,
        target_recall=target_recall,
        recall_measure=recall_measure,
        unseen_share=unseen_share,
    )
    for name in report:
        srsly.write_json(path / name / "cfg", cast(BiomedNER, nlp.get_pipe(name)).cfg)
    return report
