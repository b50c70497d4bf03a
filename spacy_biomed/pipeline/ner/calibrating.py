"""Fit what a trained pipeline finds, and how sure it is of it, to a development corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, get_args

import numpy as np
from spacy.language import Language
from spacy.training import Example
from thinc.types import Floats1d, Floats2d, Ints1d

from ...annotations.assertions import THRESHOLD
from ...annotations.seen_mentions import SEEN_KEY
from ...errors import BiomedError, install_command, list_choices, quote
from ...models.confidence_curves import LEAST, fit_label_curves
from ...models.tagging import Spans
from ..assertion import BiomedAssertion
from ..doc_batches import batch_docs
from ..encoder_head import CalibratedHead, EncoderHead
from ..mention_layer import gold_spans
from ..reliability import Reliability
from .component import OTHERS, BiomedNER, RecallMeasure, RecallTarget, check_target_recall
from .development import OPEN, RIGHT, Development, LabelRecall, fit_recall, read_development


@dataclass(frozen=True, slots=True)
class Calibration:
    """What `calibrate` has fitted for a component.

    Attributes:
        recalls: of the labels that have a recall target.
        predictions: number of predictions that the confidence is fitted on, if any.
        own_curves: the labels that have enough predictions for a curve of their own.
        before, after: the predictions by the model's own probability, and by the confidence that
            was fitted on them.
    """

    recalls: list[LabelRecall]
    predictions: int
    own_curves: list[str]
    before: Reliability
    after: Reliability


def list_uncalibrated(nlp: Language) -> list[str]:
    """The names of the `biomed_ner` of a pipeline whose confidence is the model's own."""
    pipes: list[tuple[str, object]] = [*nlp.pipeline]
    return [name for name, pipe in pipes if isinstance(pipe, BiomedNER) and not pipe.is_calibrated]


def check_recall(
    nlp: Language,
    examples: Sequence[Example],
    target_recall: RecallTarget = None,
    recall_measure: RecallMeasure | None = None,
    unseen_share: float | None = None,
) -> None:
    """Raise BiomedError if these arguments of `calibrate` are wrong, or it lacks SciPy."""
    if find_spec("scipy") is None:
        raise BiomedError(f"calibrating needs SciPy: {install_command('train')}")
    check_target_recall("target_recall", target_recall)
    if recall_measure not in (None, *get_args(RecallMeasure)):
        advice = list_choices(str(recall_measure), get_args(RecallMeasure))
        raise BiomedError(f"recall_measure = {quote(recall_measure)}: {advice}")
    if unseen_share is not None and not 0.0 < unseen_share < 1.0:
        raise BiomedError(f"unseen_share = {unseen_share}: use a number between 0 and 1")
    pipes: list[object] = [pipe for _, pipe in nlp.pipeline]
    heads = [pipe for pipe in pipes if isinstance(pipe, BiomedNER)]
    labels = {label: None for head in heads for label in head.labels}
    for label in target_recall if labels and isinstance(target_recall, Mapping) else ():
        if label not in (OTHERS, *labels):
            raise BiomedError(f"a recall for {quote(label)}: {list_choices(label, labels)}")
    references = [example.reference for example in examples]
    has_mentions = False
    for head in heads:
        key = head.cfg["spans_key"]
        annotated = [one for one in references if gold_spans(one, key) is not None]
        if not annotated:
            continue
        has_mentions = True
        has_target = target_recall is not None or head.cfg["target_recall"] is not None
        if has_target and head.cfg["decoding"] == "argmax":
            raise BiomedError(
                f"a recall for '{head.name}': its decoding is \"argmax\", which always takes the "
                'most probable tags; use "viterbi"'
            )
        if unseen_share is not None and not any(SEEN_KEY in one.spans for one in annotated):
            raise BiomedError(
                "a share of unseen mentions: the corpus does not mark what was seen in training; "
                "`spacy biomed convert` marks it in the development part"
            )
    if not has_mentions and any((target_recall, recall_measure, unseen_share)):
        raise BiomedError(
            "target_recall, recall_measure and unseen_share are for the mentions of a biomed_ner, "
            "and there are none here"
        )


def calibrate(
    nlp: Language,
    examples: Sequence[Example],
    *,
    target_recall: RecallTarget = None,
    recall_measure: RecallMeasure | None = None,
    unseen_share: float | None = None,
) -> dict[str, Calibration]:
    """Calibrate each `biomed_ner` and `biomed_assertion` of a pipeline on a development corpus.

    They must not have been trained on that corpus. First come the offsets that reach the recall
    target of a `biomed_ner` (`fit_recall`), then the curves from the model's probability of an
    entity, or of an assertion, to the share of correct ones (`models.confidence_curves`). Both are
    in the component's `cfg`, so they are saved with it. Entities count as in `score_mentions`.

    Args:
        examples: documents with gold mentions, as a corpus reader gives them.
        target_recall: the share of each label's mentions to find, above 0 and at most 1, or such
            shares by label, "*" for all others; None for the components' setting `target_recall`.
        recall_measure: what the recall counts, "exact" matches or mentions that are "covered"
            (`fit_recall`); None for the components' setting.
        unseen_share: the share of mentions in texts to come whose wording is not a mention in the
            training part; they are wrong more often. If a label's share of predictions is lower,
            those not seen weigh more. None to weigh all alike.

    Returns:
        by the name of the component; without components whose layer no document annotates.

    Raises:
        BiomedError: if a share is out of range, a label is unknown, or SciPy is not installed. Also
            if `unseen_share` is given and the corpus does not mark what was seen in training, or if
            one of the three is given and there are no mentions of a `biomed_ner`.
    """
    check_recall(nlp, examples, target_recall, recall_measure, unseen_share)
    report = {}
    for name, development in read_development(nlp, examples).items():
        head = development.head
        head.forget_calibration()
        target = head.cfg["target_recall"] if target_recall is None else target_recall
        measure = head.cfg["recall_measure"] if recall_measure is None else recall_measure
        recalls = fit_recall(development, target, measure)
        report[name] = _fit_confidence(development, recalls, unseen_share)
    components: list[tuple[str, Any]] = nlp.pipeline
    before: list[Any] = []
    for name, pipe in components:
        if isinstance(pipe, BiomedAssertion) and any(map(pipe.has_annotation, examples)):
            report[name] = _fit_assertions(nlp, before, pipe, examples)
        elif not isinstance(pipe, EncoderHead):
            before.append(pipe)
    return report


def _fit_assertions(
    nlp: Language, before: Sequence[Any], head: BiomedAssertion, examples: Sequence[Example]
) -> Calibration:
    """Fit temperatures for the probabilities of what a head says of gold entities.

    Isotonic regression was worse, since most assertions are almost certainly not true
    (docs/notes.md).
    """
    annotated = [example for example in examples if head.has_annotation(example)]
    head.forget_calibration()
    references = (example.reference for example in annotated)
    judged: list[tuple[Floats2d, Floats2d]] = []
    for docs in batch_docs([example.predicted for example in annotated], nlp.batch_size):
        # Copies, which are let go with what the encoder leaves on them.
        docs = [doc.copy() for doc in docs]
        for pipe in before:
            docs = list(pipe.pipe(docs))
        pairs = zip(docs, references, strict=False)
        judged.append(head.judge([Example(doc, reference) for doc, reference in pairs]))
    probability, target = map(np.concatenate, zip(*judged, strict=True))
    known = ~np.isnan(target)
    label = np.nonzero(known)[1]
    is_true = target[known] >= THRESHOLD
    return _fit_curves(head, probability[known], is_true, np.ones(len(label)), label, least=np.inf)


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
    return _fit_curves(head, probability, is_right, weight, spans.label, recalls, unseen_share)


def _fit_curves(
    head: CalibratedHead,
    probability: Floats1d,
    is_right: np.ndarray,
    weight: Floats1d,
    label: Ints1d,
    recalls: Sequence[LabelRecall] = (),
    unseen_share: float | None = None,
    least: float = LEAST,
) -> Calibration:
    before = Reliability.measure(probability, is_right)
    if not len(probability):
        return Calibration([*recalls], 0, [], before, before)
    curves = fit_label_curves(probability, is_right, weight, label, head.labels, least)
    head.cfg["calibration"] = {
        "predictions": len(probability),
        "unseen_share": unseen_share,
        "curves": curves,
    }
    after = Reliability.measure(head.calibrate(probability, label), is_right)
    return Calibration([*recalls], len(probability), list(curves["labels"]), before, after)


def _weigh_unseen(label: Ints1d, is_seen: np.ndarray, share: float) -> Floats1d:
    """(spans,) weights with which at least this share of each label's spans was not seen."""
    weight = np.ones(len(label))
    for place in np.unique(label):
        of_label = label == place
        own = 1.0 - is_seen[of_label].mean()
        if 0.0 < own < share:
            weight[of_label] = np.where(is_seen[of_label], (1 - share) / (1 - own), share / own)
    return weight
