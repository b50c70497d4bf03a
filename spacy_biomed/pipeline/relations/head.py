"""What the two components that find relations share."""

from __future__ import annotations

from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc

from ...annotations.layer_copies import copy_soft_labels
from ...annotations.relation_layer import RELATIONS
from ..encoder_head import EncoderHead, check_has_labels
from ..mention_layer import copy_mentions


class RelationHead(EncoderHead):
    """A component that writes `doc._.relations`."""

    usage_line = (
        "print([(head.text, label, tail.text) for head, tail, label, score in doc._.relations])"
    )
    layer_name, main = "doc._.relations", "micro_f"
    annotation_keys = (RELATIONS,)

    @classmethod
    def copy_layer(
        cls, reader: TrainablePipe, source: Doc, target: Doc, *, prefix: str = ""
    ) -> bool:
        """Copy relations, with the sentences and entities that candidates are made of.

        Entities are copied to the layer that the component reads, so that a head of entities that
        reads the same layer learns from them too.
        """
        copy_soft_labels(reader.name, source, target)
        # Marked sentences have no entities.
        copy_mentions(source, target, reader.cfg.get("spans_key"), is_partial=True)
        if source.has_annotation("SENT_START"):
            for token, own in zip(source, target, strict=True):
                own.is_sent_start = token.is_sent_start
        if RELATIONS not in source.user_data:
            return False
        target.user_data[RELATIONS] = source.user_data[RELATIONS]
        return True

    def _take_labels(self, labels: list[str], pairs: list[list[str]]) -> None:
        """Take labels and, if they are not configured, the types that are related.

        Raises:
            BiomedError: if there are no labels.
        """
        for label in labels:
            self.add_label(label)
        check_has_labels(self, f"relation for '{self.name}' to learn (doc._.relations)")
        if self.cfg["pairs"] is None:
            self.cfg["pairs"] = pairs
