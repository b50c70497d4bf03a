"""The component `biomed_document_relations`: relations between the concepts of whole documents."""

from collections.abc import Callable, Iterable
from typing import ClassVar

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model, to_numpy
from thinc.types import Floats2d

from ...annotations.relation_layer import SpanRelation, set_found
from ...encoders.batching.ragged import borders
from ...models.span_classifiers import MentionPairs
from ..encoder_head import Compared, Predictions, check_least, own_arguments, skip_batch
from ..factories import configure_head, register_factory
from ..losses import find_probabilities, mean_cross_entropy
from ..mention_layer import gold_spans
from .concept_pairs import ConceptPairs, find_concept_pairs
from .concept_scores import compare_concepts, create_shares, find_gold
from .head import RelationHead

FACTORY = "biomed_document_relations"


class BiomedDocumentRelations(RelationHead):
    """Find relations between the concepts of a document, whatever sentences mention them.

    Mentions are grouped by what they mean: by the identifiers in `span.kb_id_`, from a linker or
    from the corpus, or else by their names, with the abbreviations that the text defines. Two
    groups whose types may be related are classified, from all their mentions that are near enough.
    The encoder reads a document once.

    Entities are in `doc.ents` or a span group. In prediction they come from components before this
    one, in training from the reference. `doc._.relations` gets a `SpanRelation` for each pair of
    concepts that is related: the two mentions that are closest, the label and its probability.
    Relations of other components stay. In a reference, a relation between any of the mentions of
    two concepts relates the two; without the layer a document gives no loss and no score.

    `score_concepts` describes the scores.

    Attributes:
        model: `spacy_biomed.ConceptPairClassifier.v1`.
        pairs: types of head and tail that may be related, as [["CHEMICAL", "GENE"]]; None for the
            types in the training examples. They have no direction in text: of two concepts of one
            type, the head is the one that is mentioned first.
        max_distance: largest number of tokens between two mentions.
        max_mentions: pairs of mentions that are read for a pair of concepts, the closest.
        spans_key: the span group with the entities; None for `doc.ents`.
        threshold: smallest probability that two concepts are related at all. The relation is the
            most probable one.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> config = {"pairs": [["CHEMICAL", "DISEASE"]]}
        >>> relations = nlp.add_pipe("biomed_document_relations", config=config)
        >>> relations.add_label("TREATS")
        1
    """

    default_name, task_name = FACTORY, "relation extraction from documents"
    compared, score_prefix = "concepts", "document_relations"
    learns: ClassVar = {"document_relations": {}}
    config_templates: ClassVar = {"document_relations": "document_relations"}
    averages: ClassVar = {"pairs of concepts and type": "micro", "pairs of concepts": "pair"}

    def __init__(
        self,
        vocab: Vocab,
        model: Model[MentionPairs, Floats2d],
        name: str = FACTORY,
        *,
        pairs: list[list[str]] | None = None,
        max_distance: int = 150,
        max_mentions: int = 16,
        spans_key: str | None = None,
        threshold: float = 0.5,
        learn_rate_factor: float = 1.0,
        scorer: Callable | None = None,
    ):
        super().__init__(**own_arguments(locals()))
        self.check_settings()
        check_least(name, "max_mentions", max_mentions, 1)

    def predict(self, docs: Iterable[Doc]) -> Predictions:
        """Find the pairs of concepts of all documents, and the probabilities of their relations."""
        docs = list(docs)
        pairs = [self._find_pairs(doc, doc) for doc in docs]
        scores = np.zeros((0, self.columns), dtype="float32")
        if docs:  # a listener reads every document, so that the document releases its encoding
            scores = to_numpy(self.predict_scores(_join(docs, pairs)))
        return Predictions(pairs, find_probabilities(scores, True))

    def set_annotations(self, docs: Iterable[Doc], predictions: Predictions) -> None:
        """Set `doc._.relations` of each document; relations of other components stay."""
        labels, probabilities = self.labels, predictions.probabilities
        is_related = 1.0 - probabilities[:, -1] >= self.cfg["threshold"]
        best = probabilities[:, :-1].argmax(axis=1) if len(labels) else np.zeros(0, dtype="int64")
        start = 0
        for doc, pairs in zip(docs, predictions.compared, strict=True):
            relations = []
            for row, (head, tail) in enumerate(pairs.closest, start):
                if is_related[row]:
                    probability = float(probabilities[row, best[row]])
                    relations.append(SpanRelation(head, tail, labels[best[row]], probability))
            start += len(pairs.closest)
            set_found(doc, self.name, labels, relations)

    def compare(self, example: Example) -> Compared | None:
        return compare_concepts(example, self.labels, self.cfg["spans_key"], self.name)

    def learn(self, examples: list[Example], docs: list[Doc]) -> float:
        """Add the gradients of a batch: of the mean cross-entropy over its pairs of concepts.

        Of several relations of a pair each has the same share.
        """
        pairs, targets = self.gold(examples)
        if not len(targets) and skip_batch(self.model, docs):
            return 0.0
        self._has_gradient |= bool(len(targets))
        scores, backprop = self.model.begin_update(_join(docs, pairs))
        loss, d_scores = mean_cross_entropy(scores, self.model.ops.asarray2f(targets), True)
        backprop(d_scores)
        return loss

    def make_input(self, docs: list[Doc]) -> MentionPairs:
        return _join(docs, [self._find_pairs(doc, None) for doc in docs])

    def find_facts(self, examples: Iterable[Example]) -> tuple[set[str], set[tuple[str, str]]]:
        key = self.cfg["spans_key"]
        gold = [one for each in examples for one in find_gold(each.reference, key) or ()]
        return {one.label for one in gold}, {(one.head[0], one.tail[0]) for one in gold}

    def _find_pairs(self, doc: Doc, annotated: Doc | None) -> ConceptPairs:
        spans = annotated and gold_spans(annotated, self.cfg["spans_key"])
        return find_concept_pairs(
            doc,
            spans or [],
            pairs={(head, tail) for head, tail in self.cfg["pairs"] or ()},
            max_distance=self.cfg["max_distance"],
            max_mentions=self.cfg["max_mentions"],
        )

    def gold(self, examples: Iterable[Example]) -> tuple[list[ConceptPairs], Floats2d]:
        """The pairs of concepts of each document, and what is true: (pairs, labels and none)."""
        found, rows = [], [np.zeros((0, self.columns), dtype="float32")]
        for example in examples:
            doc, reference = example.predicted, example.reference
            gold = find_gold(reference, self.cfg["spans_key"]) if len(doc) else None
            pairs = self._find_pairs(doc, None if gold is None else reference)
            found.append(pairs)
            if gold is not None:
                self.check_labels(one.label for one in gold)
                rows.append(create_shares(pairs.concepts, gold, self.labels))
        return found, np.concatenate(rows)


def _join(docs: list[Doc], pairs: list[ConceptPairs]) -> MentionPairs:
    """The pairs of all documents, with places among the rows of all tokens."""
    starts = borders([len(doc) for doc in docs])
    shifted = [
        [places + start for places in one.places]
        for one, start in zip(pairs, starts[:-1].tolist(), strict=True)
    ]
    return MentionPairs(
        docs,
        np.concatenate([one.counts for one in pairs]),
        [np.concatenate(places) for places in zip(*shifted, strict=True)],
        np.concatenate([one.features for one in pairs]),
    )


make_biomed_document_relations = register_factory(
    FACTORY,
    BiomedDocumentRelations,
    configure_head(
        "ConceptPairClassifier", "concept_relation_scorer", "mean", hidden_width=256, dropout=0.1
    ),
    assigns=["doc._.relations"],
    default_score_weights={
        "document_relations_micro_f": 0.5,
        "document_relations_micro_p": None,
        "document_relations_micro_r": None,
        "document_relations_pair_f": 0.5,
        "document_relations_pair_p": None,
        "document_relations_pair_r": None,
        "document_relations_per_type": None,
    },
)
