"""What `biomed_ner` is: its layer, its scores, and what it learns from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc

from ...annotations.document_keys import UNALIGNED_MENTIONS
from ...annotations.layer_copies import copy_group, copy_soft_labels
from ...annotations.seen_mentions import SEEN_KEY
from ..described import ShownScores
from ..encoder_head import LabelHead
from ..mention_layer import copy_mentions
from .scores import UNSEEN

FACTORY = "biomed_ner"


class MentionHead(LabelHead):
    """A head that reads and writes a layer of mentions."""

    default_name, task_name = FACTORY, "named entity recognition"
    annotates, score_prefix, main = "mention", "ents", "f"
    learns: ClassVar = {"ner": {}, "deidentification": {}}
    config_templates: ClassVar = {"ner": "ner", "deidentification": "ner"}
    # Entities that relations connect belong to the annotation of relations.
    recognised_by: ClassVar = {"ner": {"mentions": True, "relations": False}}
    place_setting = "spans_key"
    annotation_keys = (UNALIGNED_MENTIONS,)

    @classmethod
    def usage(cls, settings: Mapping[str, object]) -> str:
        key = settings.get("spans_key")
        if key is None:
            return "print([(ent.text, ent.label_, ent._.confidence) for ent in doc.ents])"
        show = "print([(span.text, span.label_, span._.confidence) for span in doc.spans[{!r}]])"
        return show.format(key)

    @classmethod
    def begin_scores(cls, name: str, settings: Mapping[str, object]) -> str:
        """The prefix of score names, with the name of the span group, not of the component."""
        key = settings.get("spans_key")
        return cls.score_prefix if key is None else f"spans_{key}"

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
        begin = cls.begin_scores(name, settings)
        of_unseen = "spans" if settings.get("spans_key") is None else begin
        unseen = f"{of_unseen}_{UNSEEN}"
        return ShownScores(
            averages={"all mentions": begin, "not seen in training": unseen},
            per_type=f"{begin}_per_type",
            unseen_per_type=f"{unseen}_per_type",
            reliability=f"{begin}_reliability",
        )

    @classmethod
    def layer(cls, settings: Mapping[str, object]) -> str:
        key = settings.get("spans_key")
        return "doc.ents" if key is None else f"doc.ents or doc.spans['{key}']"

    @classmethod
    def copy_layer(
        cls, reader: TrainablePipe, source: Doc, target: Doc, *, prefix: str = ""
    ) -> bool:
        """Copy entities; to a span group also from `doc.ents`, unless they are partly annotated."""
        is_taught = copy_soft_labels(reader.name, source, target)
        if not copy_mentions(source, target, reader.cfg.get("spans_key"), is_partial=False):
            return is_taught
        if UNALIGNED_MENTIONS in source.user_data:  # these count in the scores
            target.user_data[UNALIGNED_MENTIONS] = source.user_data[UNALIGNED_MENTIONS]
        copy_group(source, SEEN_KEY, target)
        return True
