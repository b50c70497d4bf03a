"""What the two components that find relations share."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from thinc.types import Floats2d

from ...annotations.layer_copies import copy_soft_labels
from ...annotations.relation_layer import RELATIONS
from ...errors import BiomedError, quote
from ..encoder_head import LabelHead, check_least, check_share
from ..mention_layer import copy_mentions


class RelationHead(LabelHead):
    """A component that writes `doc._.relations`, and that compares entities or concepts."""

    usage_line = (
        "print([(head.text, label, tail.text) for head, tail, label, score in doc._.relations])"
    )
    annotates, layer_name, main = "relation", "doc._.relations", "micro_f"
    annotation_keys, reads_entities = (RELATIONS,), True
    compared: ClassVar[str]

    @classmethod
    def copy_layer(cls, reader: TrainablePipe, source: Doc, target: Doc, prefix: str = "") -> bool:
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

    def score(self, examples: Iterable[Example], **kwargs: object) -> dict[str, Any]:
        """The scores of the relations that this component has found."""
        return super().score(examples, finder=self.name, **kwargs)

    def find_labels(self, examples: Iterable[Example]) -> list[str]:
        """The labels of examples; the types that are related are kept if none are configured."""
        labels, pairs = self.find_facts(examples)
        if self.cfg["pairs"] is None:
            self.cfg["pairs"] = [list(pair) for pair in sorted(pairs)]
        return sorted(labels)

    def find_facts(self, examples: Iterable[Example]) -> tuple[set[str], set[tuple[str, str]]]:
        """The labels of the relations of examples, and the types of their heads and tails."""
        raise NotImplementedError

    def gold(self, examples: Iterable[Example]) -> tuple[list[Any], Floats2d]:
        """What is compared in examples, and what is true of it: (compared, scores)."""
        raise NotImplementedError

    def check_settings(self) -> None:
        """Raise BiomedError if a setting of both components is not valid."""
        check_share(self.name, "threshold", self.cfg["threshold"])
        check_least(self.name, "max_distance", self.cfg["max_distance"], 0)
        pairs = self.cfg["pairs"]
        if any(len(pair) != 2 for pair in pairs or ()):
            raise BiomedError(
                f"[components.{self.name}] pairs = {pairs}: write the types of head and tail, as "
                '[["CHEMICAL", "GENE"]]'
            )

    @property
    def columns(self) -> int:
        """Scores of a pair: one for each label, and one for none if labels are exclusive."""
        return len(self.labels) + self.cfg.get("exclusive", True)

    def check_labels(self, used: Iterable[str]) -> None:
        """Raise BiomedError if the component does not know a label of relations."""
        unknown = sorted(set(used).difference(self.labels))
        if unknown:
            raise BiomedError(
                f"the corpus has the relation {quote(unknown[0])}, which '{self.name}' does not "
                f"know: it knows {', '.join(self.labels)}; give "
                f"initialize.components.{self.name}.labels with it, or take it out of the corpus"
            )

    def prepare(self, get_examples: Callable[[], Iterable[Example]], found: list[str]) -> None:
        """Check that some relation is learned, and size the model."""
        targets = (self.gold([example])[1] for example in get_examples())
        is_learned = [one[:, : len(self.labels)].any() for one in targets]
        if found and not any(is_learned):
            entities = f"doc.spans['{key}']" if (key := self.cfg["spans_key"]) else "doc.ents"
            raise BiomedError(
                f"no relation of the training corpus is between two {self.compared} that "
                f"'{self.name}' compares: check that they are in {entities}, the types in `pairs`, "
                f"and max_distance = {self.cfg['max_distance']}"
            )
        self.size_model(get_examples(), self.columns)
