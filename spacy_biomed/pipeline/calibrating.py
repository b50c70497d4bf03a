"""Fit what a trained pipeline finds, and how sure it says it is, to a development corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spacy.language import Language
from spacy.training import Example

from ..errors import BiomedError
from .development import read_development
from .recall_targets import LabelRecall, RecallTarget, check_target_recall, fit_recall


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the calibration of a `biomed_ner` has done.

    Attributes:
        recalls: of the labels that have a recall target.
    """

    recalls: list[LabelRecall]


def calibrate(
    nlp: Language, examples: Sequence[Example], *, target_recall: RecallTarget = None
) -> dict[str, Calibration]:
    """Calibrate each `biomed_ner` of a pipeline on a development corpus.

    It must not have been trained on that corpus. What is fitted is in the component's `cfg`, so it
    is saved with the component.

    Args:
        nlp: the pipeline; any encoder.
        examples: documents with gold mentions, as a corpus reader gives them.
        target_recall: the share of each label's mentions to find, above 0 and at most 1, or such
            shares by label, "*" for all others; None for the components' setting `target_recall`.

    Returns:
        by the name of the component.

    Raises:
        BiomedError: if no component has a layer that is annotated, or the recall is not such a
            number, or is for a label that a component does not know.
    """
    check_target_recall("target_recall", target_recall)
    found = read_development(nlp, examples)
    if not found:
        raise BiomedError(
            "nothing to calibrate: the corpus has no mentions in the layer of a biomed_ner "
            f"(components: {', '.join(nlp.pipe_names)})"
        )
    report = {}
    for name, development in found.items():
        target = development.head.cfg["target_recall"] if target_recall is None else target_recall
        report[name] = Calibration(fit_recall(development, target))
    return report
