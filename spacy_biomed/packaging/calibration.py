"""A copy of a pipeline, with its probabilities calibrated on a development corpus."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

import srsly
from spacy.language import Language
from spacy.training import Example

from ..errors import BiomedError
from ..files.output_places import MARKER, check_replaceable
from ..pipeline.checksums import TRAINABLE, replacing_pipeline
from ..pipeline.encoder_head import CalibratedHead
from ..pipeline.ner.calibrating import Calibration, calibrate
from ..pipeline.ner.component import RecallMeasure, RecallTarget
from ..pipeline.pipeline_loading import load_pipeline
from ..pipeline.saved_words import remove_words
from ..training.corpus import Corpus_v1

if TYPE_CHECKING:
    from typing_extensions import Unpack

MADE_BY = "spacy biomed calibrate"


class RecallOptions(TypedDict, total=False):
    """The arguments of `calibrate` that say how many mentions are to be found."""

    target_recall: RecallTarget
    recall_measure: RecallMeasure | None
    unseen_share: float | None


def calibrate_pipeline(
    pipeline: str,
    output: Path,
    *,
    dev: Path,
    **recall: Unpack[RecallOptions],
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
        BiomedError: if the pipeline or the corpus cannot be read, if nothing that is calibrated is
            found in the corpus, or for any reason of `calibrate`. Nothing is written then.
    """
    sources: list[Path | str] = [pipeline, dev]
    check_replaceable(output, MADE_BY, sources)
    nlp = load_pipeline(pipeline)
    with replacing_pipeline(output, MADE_BY, sources) as partial:
        left_out = shutil.ignore_patterns(MARKER, TRAINABLE)
        shutil.copytree(nlp.path, partial, dirs_exist_ok=True, ignore=left_out)
        examples = list(Corpus_v1(dev)(nlp))
        report = write_calibration(nlp, partial, examples, **recall)
        remove_words(nlp, partial)
        if not any(one.predictions or one.recalls for one in report.values()):
            raise BiomedError(
                f"{dev}: has nothing that a biomed_ner or a biomed_assertion of {pipeline} finds "
                f"(its components are {', '.join(nlp.pipe_names)}); give a corpus with what it "
                "finds"
            )
    return report


def write_calibration(
    nlp: Language,
    path: Path,
    examples: Sequence[Example],
    **recall: Unpack[RecallOptions],
) -> dict[str, Calibration]:
    """Calibrate a pipeline, and write what was fitted to the pipeline's directory.

    Args:
        examples, recall: as for `calibrate`.
    """
    report = calibrate(nlp, examples, **recall)
    for name in report:
        srsly.write_json(path / name / "cfg", cast(CalibratedHead, nlp.get_pipe(name)).cfg)
    return report
