"""Scores of the classes of texts."""

from collections.abc import Callable, Iterable
from statistics import fmean
from typing import Any, NamedTuple, cast

import numpy as np
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example

from ...annotations.document_keys import PART_OF
from ...arrays import Floats1d
from ...errors import BiomedError, quote
from ..encoder_head import check_probabilities, quote_text

# Tolerance for the sum of the values of exclusive classes, since people round: 0.33 three times.
SUM_TOLERANCE = 0.02


def classification_scorer_v1() -> Callable:
    """`spacy_biomed.classification_scorer.v1`: see `score_classes`."""
    return score_classes


def gold_probabilities(reference: Doc, labels: Iterable[str], exclusive: bool) -> Floats1d:
    """The gold value of each label: (labels,); NaN where it is not annotated.

    Exclusive labels are annotated only if all have a value. Values that nearly add up to 1 are
    scaled.
    """
    labels = list(labels)
    values = [reference.cats.get(label, np.nan) for label in labels]
    gold = np.array(values, dtype="float32")
    check_probabilities(reference, labels, gold.tolist())
    if not exclusive:
        return gold
    if np.isnan(gold).any():
        return np.full_like(gold, np.nan)
    total = gold.sum()
    if abs(total - 1.0) > SUM_TOLERANCE:
        applying = [f"{quote(label)} {values[i]:g}" for i, label in enumerate(labels) if values[i]]
        others = [quote(one) for one in reference.cats if reference.cats[one] and one not in labels]
        other = f" of them, but {', '.join(others)}" if others and not applying else ""
        raise BiomedError(
            f"of {len(labels)} labels that exclude each other, {quote_text(reference)} has "
            f"{' and '.join(applying) or 'none'}{other}: let them add up to 1, or set "
            "exclusive = false"
        )
    return gold / total


def score_classes(
    examples: Iterable[Example],
    *,
    labels: Iterable[str],
    exclusive: bool = False,
    threshold: float = 0.5,
    positive_label: str | None = None,
    **cfg: object,
) -> dict[str, object]:
    """spaCy's scores of classes, over the given labels, where they are annotated.

    `cats_score` is macro F1 over the classes, which Lewis et al. (2020, "Pretrained Language Models
    for Biomedical and Clinical Tasks", table 1) report for Hallmarks of Cancer, or the positive
    label's F1 if there is one. Gold values count as positive from 0.5 on; of exclusive classes, the
    class with the largest value is positive.

    Classes that are not exclusive have two further groups of scores. Both are of whole texts:
    documents that are parts of one text, such as the sentences of an abstract, count as one
    document, whose classes are those of any of its parts (`doc.user_data["part_of"]`).

    `cats_text_macro_p`, `_r`, `_f`: as `cats_macro_p`, `_r`, `_f`, of whole texts.

    `cats_example_p`, `_r`, `_f`: precision and recall of the classes of each text, averaged over
    the texts, and the harmonic mean of the two averages. The evaluation script of the BLUE
    benchmark (Peng et al. 2019, "Transfer Learning in Biomedical Natural Language Processing")
    computes these for Hallmarks of Cancer, and prints precision and recall under each other's name.
    A text for which nothing is predicted has precision 0. A text without a gold class is left out.

    Returns:
        spaCy's `cats_*` scores, and the accuracy `cats_acc`, which is None if the classes are not
        exclusive; the scores of whole texts are None if they are. If no document is annotated, all
        are None except `cats_score_desc`.
    """
    labels = list(labels)
    documents, whole_texts = _collect(examples, labels, exclusive)
    settings: dict[str, Any] = {
        "getter": lambda cats, attr: cats,
        "labels": labels,
        "multi_label": not exclusive,
        "positive_label": positive_label,
        "threshold": threshold,
    }
    scores = Scorer.score_cats(cast(Any, documents), "cats", **settings)
    # With exactly one predicted and one gold class per document, micro-averaged F1 is accuracy.
    scores["cats_acc"] = scores["cats_micro_f"] if exclusive else None
    of_texts = Scorer.score_cats(cast(Any, whole_texts), "cats", **settings)
    for letter, value in zip("prf", score_by_example(whole_texts, threshold), strict=True):
        scores[f"cats_text_macro_{letter}"] = (
            None if exclusive else of_texts[f"cats_macro_{letter}"]
        )
        scores[f"cats_example_{letter}"] = None if exclusive else value
    if not exclusive:
        scores["cats_score"] = scores["cats_macro_f"]
        scores["cats_score_desc"] = "macro F"
    if not documents:  # `spacy evaluate` prints the description all the same
        return {**dict.fromkeys(scores), "cats_score_desc": scores["cats_score_desc"]}
    return scores


class _Scored(NamedTuple):
    """The probability of each label, and 0.0 or 1.0 for each annotated one, as spaCy reads them."""

    predicted: dict[str, float]
    reference: dict[str, float]


def _collect(
    examples: Iterable[Example], labels: list[str], exclusive: bool
) -> tuple[list[_Scored], list[_Scored]]:
    """The annotated documents, and the whole texts that they are parts of."""
    documents: list[_Scored] = []
    texts: dict[str, _Scored] = {}
    for example in examples:
        gold = gold_classes(example.reference, labels, exclusive)
        if not gold:
            continue
        predicted = {label: example.predicted.cats.get(label, 0.0) for label in labels}
        documents.append(_Scored(predicted, gold))
        text = example.reference.user_data.get(PART_OF)
        name = f"part {len(texts)}" if text is None else f"text {text}"
        for own, added in zip(texts.setdefault(name, _Scored({}, {})), documents[-1], strict=True):
            for label, value in added.items():  # of the values in its parts, the largest counts
                own[label] = max(own.get(label, 0.0), value)
    return documents, list(texts.values())


def score_by_example(
    texts: Iterable[_Scored], threshold: float
) -> tuple[float | None, float | None, float | None]:
    """Precision and recall averaged over texts with a gold class, and the averages' harmonic mean.

    Labels that are not annotated do not count.
    """
    precisions, recalls = [], []
    for text in texts:
        gold = {label for label, value in text.reference.items() if value}
        found = {label for label in text.reference if text.predicted[label] >= threshold}
        if gold:
            precisions.append(len(found & gold) / max(len(found), 1))
            recalls.append(len(found & gold) / len(gold))
    if not recalls:
        return None, None, None
    precision, recall = fmean(precisions), fmean(recalls)
    return precision, recall, 2 * precision * recall / ((precision + recall) or 1.0)


def gold_classes(reference: Doc, labels: list[str], exclusive: bool) -> dict[str, float]:
    """Each annotated label, with 1.0 if it applies and 0.0 if not."""
    gold = gold_probabilities(reference, labels, exclusive)
    if exclusive and not np.isnan(gold).any():
        gold = np.eye(len(gold))[gold.argmax()]
    values = zip(labels, gold.tolist(), strict=True)
    return {label: float(value >= 0.5) for label, value in values if not np.isnan(value)}
