"""Scores of mentions, also by confidence and of those not seen in training."""

from collections.abc import Iterable

from spacy.training import Example

from ...annotations.document_keys import get_unaligned, locate_span
from ...annotations.seen_mentions import SEEN_KEY, mentions_of
from ..encoder_head import Compared
from ..label_scores import LabelScores
from ..mention_layer import GoldLayer, get_confidence, install_extensions
from ..reliability import Reliability

# Part of the names of scores for mentions not seen in training: `spans_unseen_p`, ...
UNSEEN = "unseen"


def score_mentions(
    examples: Iterable[Example], *, spans_key: str | None = None, **cfg: object
) -> dict[str, object]:
    """Exact-match precision, recall and F1 against all gold mentions of the source.

    A mention counts as found if both its character offsets and its label are predicted. Gold
    mentions that do not fit token boundaries (`doc._.unaligned_mentions`) count as missed. So do
    mentions of a span group that overlap a longer mention, since tags cannot represent them.

    Documents without the layer are not scored. Predictions are not counted where nothing is known:
    of a label that a document does not annotate, in a region that is uncertain for their label
    (`annotations.annotation_scope`), or over a token of `doc.ents` without annotation.

    Returns:
        `ents_p`, `ents_r`, `ents_f` and `ents_per_type`, or with a spans key `spans_{key}_p`, ...;
        None if no document has the layer. `ents_ece`, the expected calibration error of the
        predictions that count, and `ents_reliability`, its ten bins (`Reliability.to_rows`); None
        if no prediction has a confidence. If references mark the spans seen in training
        (`doc.spans["seen_in_training"]`) and some were not, also `spans_unseen_p`, `_r`, `_f` and
        `_per_type` of these, or with a spans key `spans_{key}_unseen_p`, ...
    """
    names = "ents" if spans_key is None else f"spans_{spans_key}"
    unseen_names = f"spans_{UNSEEN}" if spans_key is None else f"{names}_{UNSEEN}"
    install_extensions()
    every, unseen = LabelScores(), LabelScores()
    judged: list[tuple[float, bool]] = []
    for example in examples:
        compared = compare_mentions(example, spans_key)
        if compared is None:
            continue
        gold, predicted, lost = compared
        every.add(gold, predicted, lost)
        for span in mentions_of(example.predicted, spans_key):
            confidence = get_confidence(span)
            if confidence is not None and locate_span(span) in predicted:
                judged.append((confidence, locate_span(span) in gold))
        if SEEN_KEY in example.reference.spans:
            seen = set(map(locate_span, example.reference.spans[SEEN_KEY]))
            unseen.add(gold - seen, predicted - seen, lost)
    scores = every.scores(names, f"{names}_per_type")
    reliability = Reliability.measure(*zip(*judged, strict=True)) if judged else None
    scores[f"{names}_ece"] = reliability.error if reliability else None
    scores[f"{names}_reliability"] = reliability.to_rows() if reliability else None
    if unseen.by_label:
        scores.update(unseen.scores(unseen_names, f"{unseen_names}_per_type"))
    return scores


def compare_mentions(example: Example, spans_key: str | None) -> Compared | None:
    """The gold and predicted mentions that `score_mentions` counts; None without the layer."""
    gold = GoldLayer.read(example.reference, spans_key)
    if gold is None:
        return None
    predicted = set(map(locate_span, mentions_of(example.predicted, spans_key)))
    predicted = {key for key in predicted if gold.judge(*key) is not None}
    return gold.mentions, predicted, get_unaligned(example.reference)
