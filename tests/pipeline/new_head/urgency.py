"""A head of another package: the urgency of a text, `doc.user_data["urgency"]`, from 0 to 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config, Model, to_numpy
from thinc.types import Floats1d, Floats2d

from spacy_biomed.pipeline.encoder_head import EncoderHead

URGENCY = "urgency"
DEFAULT_CONFIG = """
[urgency]
learn_rate_factor = 1.0

[urgency.model]
@architectures = "spacy_biomed.TextClassifier.v1"

[urgency.model.tok2vec]
@architectures = "spacy_biomed.EncoderListener.v1"
pooling = "cls"
"""


@Language.factory(
    URGENCY,
    default_config=Config().from_str(DEFAULT_CONFIG)[URGENCY],
    default_score_weights={"urgency_accuracy": 1.0},
)
def make_urgency(
    nlp: Language, name: str, model: Model[list[Doc], Floats2d], learn_rate_factor: float
) -> Urgency:
    return Urgency(nlp.vocab, model, name, score_urgency, learn_rate_factor=learn_rate_factor)


class Urgency(EncoderHead):
    default_name, task_name = URGENCY, "triage"
    score_prefix, main = URGENCY, "accuracy"
    learns: ClassVar = {"triage": {}}
    annotation_keys = (URGENCY,)

    @classmethod
    def usage(cls, settings: Mapping[str, Any]) -> str:
        return 'print(doc.user_data["urgency"])'

    @classmethod
    def layer(cls, settings: Mapping[str, Any]) -> str:
        return 'doc.user_data["urgency"]'

    @classmethod
    def copy_layer(cls, reader: Any, source: Doc, target: Doc, *, prefix: str = "") -> bool:
        if URGENCY in source.user_data:
            target.user_data[URGENCY] = source.user_data[URGENCY]
        return URGENCY in source.user_data

    def initialize(self, get_examples: Any, *, nlp: Language | None = None) -> None:
        self.size_model(get_examples(), 1)

    def predict(self, docs: Iterable[Doc]) -> Floats1d:
        return 1.0 / (1.0 + np.exp(-to_numpy(self.model.predict(list(docs)))[:, 0]))

    def set_annotations(self, docs: Iterable[Doc], probabilities: Floats1d) -> None:
        for doc, probability in zip(docs, probabilities.tolist(), strict=True):
            doc.user_data[URGENCY] = probability

    def has_annotation(self, example: Example) -> bool:
        return URGENCY in example.reference.user_data

    def get_loss(self, examples: Iterable[Example], scores: Floats2d) -> tuple[float, Floats2d]:
        gold = [example.reference.user_data.get(URGENCY, np.nan) for example in examples]
        targets = np.array(gold, dtype="float32")[:, None]
        errors = np.nan_to_num(1.0 / (1.0 + np.exp(-scores)) - targets)
        return float((errors**2).sum()), errors


def score_urgency(examples: Iterable[Example], **cfg: Any) -> dict[str, float | None]:
    right = [
        (example.predicted.user_data[URGENCY] > 0.5) == (example.reference.user_data[URGENCY] > 0.5)
        for example in examples
        if URGENCY in example.reference.user_data
    ]
    return {"urgency_accuracy": sum(right) / len(right) if right else None}
