"""Fit what a trained pipeline finds, and how sure it is of it, to a development corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from spacy.language import Language
from spacy.training import Example
from thinc.types import Floats1d, Ints1d

from ...errors import BiomedError, install_command
from ...models.confidence_curves import fit_label_curves
from ...models.tagging import Spans
from ..reliability import Reliability
from .component import BiomedNER
from .development import OPEN, RIGHT, Development, read_development
from .recall_settings import (
    RecallMeasure,
    RecallTarget,
    check_recall_measure,
    check_target_recall,
)
from .recall_targets import LabelRecall, fit_recall


@dataclass(frozen=True, slots=True)
class Calibration:
    """What `calibrate` has fitted for a `biomed_ner`.

    Attributes:
        recalls: of the labels that have a recall target.
        predictions: number of predictions that the confidence is fitted on; with none, confidences
            are not calibrated.
        own_curves: the labels that have enough predictions for a curve of their own.
        before, after: the predictions by the model's own probability, and by the confidence. The
            second is optimistic, as it is of the predictions that it was fitted on.
    """

    recalls: list[LabelRecall]
    predictions: int
    own_curves: list[str]
    before: Reliability
    after: Reliability


def list_uncalibrated(nlp: Language) -> list[str]:
    """The names of the `biomed_ner` of a pipeline whose confidence is the model's own."""
    components: list[tuple[str, object]] = [*nlp.pipeline]
    heads = {name: pipe for name, pipe in components if isinstance(pipe, BiomedNER)}
    return [name for name, head in heads.items() if not head.is_calibrated]


def calibrate(
    nlp: Language,
    examples: Sequence[Example],
    *,
    target_recall: RecallTarget = None,
    recall_measure: RecallMeasure | None = None,
    unseen_share: float | None = None,
) -> dict[str, Calibration]:
    """Calibrate each `biomed_ner` of a pipeline on a development corpus.

    It must not have been trained on that corpus. First come the offsets that reach the recall
    target (`fit_recall`), then the curves from the model's probability of an entity to the share of
    correct ones (`models.confidence_curves`). Both are in the component's `cfg`, so they are saved
    with it. Entities count as in `score_mentions`: those of which nothing is known are left out.

    Args:
        nlp: the pipeline; any encoder.
        examples: documents with gold mentions, as a corpus reader gives them.
        target_recall: the share of each label's mentions to find, above 0 and at most 1, or such
            shares by label, "*" for all others; None for the components' setting `target_recall`.
        recall_measure: what the recall counts, "exact" matches or mentions that are "covered"
            (`fit_recall`); None for the components' setting.
        unseen_share: the share of mentions in texts to come whose wording is not a mention in the
            training part. A development part that shares documents with the training part has too
            few of them, and they are wrong more often. If a label's share of predictions is lower,
            those not seen weigh more. None to weigh all alike.

    Returns:
        by the name of the component; without components whose layer no document annotates.

    Raises:
        BiomedError: if a share is out of range, a label is unknown, or SciPy is not installed. Also
            if `unseen_share` is given and the corpus does not mark what was seen in training.
    """
    check_target_recall("target_recall", target_recall)
    if recall_measure is not None:
        check_recall_measure("recall_measure", recall_measure)
    if unseen_share is not None and not 0.0 < unseen_share < 1.0:
        raise BiomedError(f"unseen_share = {unseen_share}: use a number between 0 and 1")
    report = {}
    for name, development in read_development(nlp, examples).items():
        head = development.head
        head.forget_calibration()
        target = head.cfg["target_recall"] if target_recall is None else target_recall
        measure = head.cfg["recall_measure"] if recall_measure is None else recall_measure
        recalls = fit_recall(development, target, measure)
        report[name] = _fit_confidence(development, recalls, unseen_share)
    return report


def _fit_confidence(
    development: Development, recalls: list[LabelRecall], unseen_share: float | None
) -> Calibration:
    head = development.head
    spans, probability = development.decode()
    judged = development.judge(spans)
    counts = judged != OPEN
    spans = Spans(*(part[counts] for part in spans))
    probability, is_right = probability[counts], judged[counts] == RIGHT
    weight = np.ones(len(probability))
    if unseen_share is not None:
        weight = _weigh_unseen(spans.label, development.find_seen(spans), unseen_share)
    before = Reliability.measure(probability, is_right)
    if not len(probability):
        return Calibration(recalls, 0, [], before, before)
    try:
        curves = fit_label_curves(probability, is_right, weight, spans.label, head.labels)
    except ImportError as error:
        raise BiomedError(
            f"calibrating needs SciPy ({error}): {install_command('train')}"
        ) from error
    head.cfg["calibration"] = {
        "predictions": len(probability),
        "unseen_share": unseen_share,
        "curves": curves.to_dict(),
    }
    after = Reliability.measure(head.calibrate(probability, spans.label), is_right)
    return Calibration(recalls, len(probability), list(curves.by_label), before, after)


def _weigh_unseen(label: Ints1d, is_seen: np.ndarray, share: float) -> Floats1d:
    """(spans,) weights with which at least this share of each label's spans was not seen."""
    weight = np.ones(len(label))
    for place in np.unique(label):
        of_label = label == place
        own = 1.0 - is_seen[of_label].mean()
        if 0.0 < own < share:
            weight[of_label] = np.where(is_seen[of_label], (1 - share) / (1 - own), share / own)
    return weight
