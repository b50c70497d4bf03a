"""The component `biomed_relations`: relations between entities over a shared encoder."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model, to_numpy
from thinc.types import Floats2d, Ints1d

from ...annotations.marked_arguments import Argument, Style
from ...annotations.relation_layer import SpanRelation, get_found, read_relation, set_found
from ...annotations.seen_mentions import mentions_of
from ...encoders.batching.encoded import EncodedBatch
from ...encoders.finite import check_scores
from ...encoders.listener import NO_ENCODER, POOLINGS
from ...errors import BiomedError
from ..encoder_head import Compared, Predictions, own_arguments, skip_batch
from ..factories import configure_head, register_factory
from ..label_scores import LabelScores
from ..losses import cross_entropy, find_probabilities
from .candidates import (
    Candidate,
    create_targets,
    find_candidates,
    find_gold_labels,
    find_marked,
    get_argument,
    get_arguments,
    group_windows,
)
from .head import RelationHead

FACTORY = "biomed_relations"


class BiomedRelations(RelationHead):
    """Find relations between the entities of a document.

    Each pair of entities that may be related (a candidate) is classified separately. The encoder
    reads their sentence with both marked, as in `<< Aspirin >> inhibits [[ COX-1 ]]`, or with their
    types instead of their words, as in `@CHEMICAL$ inhibits @GENE$` (Peng et al. 2020, "An
    Empirical Study of Multi-Task Learning on BERT for Biomedical Text Mining", section 3.2). A
    linear layer over the vector of the first position scores the relations and, if they exclude
    each other, the absence of a relation.

    A document whose text marks two arguments in one of these ways is a single candidate, whatever
    entities it has, if the component has learned from such texts. It is read through the listener,
    like any document. The texts of other candidates are encoded by the model that the listener
    listens to, in batches over all documents; in training that model learns from them too.

    Entities are in `doc.ents` or a span group. In prediction they come from components before this
    one, in training from the reference. `doc._.relations` is a list of `SpanRelation`: head and
    tail as spans, the label and its probability. If it is None in a reference, the document is not
    annotated: it gives no loss and no score. Relations of other components stay on a document.

    `score_relations` describes the scores.

    Attributes:
        model: `spacy_biomed.RelationClassifier.v1`.
        pairs: types of head and tail that may be related, as [["CHEMICAL", "GENE"]]; None for the
            types in the training examples.
        directed: whether two entities are two candidates if both orders of their types are allowed.
            Otherwise they are one candidate, whose head is the first in the text, and their
            relation has no direction.
        max_distance: largest number of tokens between two entities of a sentence, or of a document
            without sentences. As many are read on each side of them, or fewer if the encoder's
            window has no room for them.
        arguments: "marks" or "tags". Tags hide the words, and in a directed relation between two
            entities of the same type they cannot distinguish head and tail.
        spans_key: the span group with the entities; None for `doc.ents`.
        exclusive: whether a pair has at most one relation.
        threshold: smallest probability of a relation that is found, if relations are not exclusive.
        max_batch_words: tokens of candidates that are encoded at a time; bounds memory.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> config = {"pairs": [["CHEMICAL", "GENE"]]}
        >>> relations = nlp.add_pipe("biomed_relations", config=config)
        >>> [relations.add_label(label) for label in ("ACTIVATOR", "INHIBITOR")]
        [1, 1]
        >>> relations.labels
        ('ACTIVATOR', 'INHIBITOR')
    """

    default_name, task_name = FACTORY, "relation extraction"
    compared, score_prefix = "entities", "relations"
    learns: ClassVar = {"relations": {}}
    config_templates: ClassVar = {"relations": "relations"}
    recognised_by: ClassVar = {"relations": {"relations": True}}
    averages: ClassVar = {
        "micro average over relations": "micro",
        "macro average over relation types": "macro",
    }

    @classmethod
    def corpus_settings(cls, description: Mapping[str, Any]) -> dict[str, Any]:
        """Labels are not exclusive if pairs of the corpus have two relations."""
        several = any(part.get("several_relations") for part in description["parts"].values())
        return super().corpus_settings(description) | ({"exclusive": False} if several else {})

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Floats2d],
        name: str = FACTORY,
        *,
        pairs: list[list[str]] | None = None,
        directed: bool = True,
        max_distance: int = 50,
        arguments: Style = "marks",
        spans_key: str | None = None,
        exclusive: bool = True,
        threshold: float = 0.5,
        learn_rate_factor: float = 1.0,
        max_batch_words: int = 4096,
        scorer: Callable | None = None,
    ):
        super().__init__(**own_arguments(locals()), reads_marks=True)  # until the corpus tells
        self.check_settings()

    def predict(self, docs: Iterable[Doc]) -> Predictions:
        """Find the candidates of all documents, and the probabilities of their relations."""
        docs = list(docs)
        candidates = [
            candidate
            for place, doc in enumerate(docs)
            for candidate in self._candidates(place, doc, doc)
        ]
        scores = np.zeros((len(candidates), self.columns), dtype="float32")
        if docs:  # a listener reads every document, so that the document releases its encoding
            own, places = _own_texts(candidates)
            scores[own] = to_numpy(self.predict_scores(docs))[places]
        for chosen in group_windows(candidates, self.cfg["max_batch_words"]):
            vectors, _ = self._encode([candidates[i] for i in chosen], docs, is_train=False)
            scores[chosen] = to_numpy(self.model.get_ref("classifier").predict(vectors))
        check_scores(scores, self.name)
        return Predictions(candidates, find_probabilities(scores, self.cfg["exclusive"]))

    def set_annotations(self, docs: Iterable[Doc], predictions: Predictions) -> None:
        """Set `doc._.relations` of each document; relations of other components stay."""
        docs, labels = list(docs), self.labels
        probabilities = predictions.probabilities
        if self.cfg["exclusive"]:
            best = probabilities.argmax(axis=1)
            rows = np.flatnonzero(best < len(labels))
            columns = best[rows]
        else:
            rows, columns = np.nonzero(probabilities >= self.cfg["threshold"])
        found: list[list[SpanRelation]] = [[] for _ in docs]
        scores = probabilities[rows, columns]
        chosen = zip(rows.tolist(), columns.tolist(), scores.tolist(), strict=True)
        for row, column, score in chosen:
            doc, head, tail, *_ = predictions.compared[row]
            found[doc].append(read_relation(docs[doc], head, tail, labels[column], score))
        for doc, relations in zip(docs, found, strict=True):
            set_found(doc, self.name, labels, relations)

    def compare(self, example: Example) -> Compared | None:
        return compare_relations(example, self.labels, self.cfg["directed"], self.name)

    def learn(self, examples: list[Example], docs: list[Doc]) -> float:
        """Add the gradients of a batch: of the mean cross-entropy over all its candidates.

        If relations are not exclusive, the binary cross-entropies of all labels are added.
        """
        candidates, targets = self.gold(examples)
        if not candidates and skip_batch(self.model, docs):
            return 0.0
        self._has_gradient |= bool(candidates)
        # First, because the encoder may step as soon as the listener sends its gradient.
        loss = self._learn_windows(candidates, docs, targets)
        return loss + self._learn_documents(candidates, docs, targets)

    def prepare(self, get_examples: Callable[[], Iterable[Example]], found: list[str]) -> None:
        pairs = {(head, tail) for head, tail in self.cfg["pairs"]}
        both = sorted(pair for pair in pairs if pair[::-1] in pairs)
        if self.cfg["arguments"] == "tags" and self.cfg["directed"] and both:
            raise BiomedError(
                f"[components.{self.name}] arguments = 'tags' cannot tell the head from the tail "
                f"of {' and '.join(both[0])}, of which each may be either: use 'marks', or set "
                "directed = false"
            )
        super().prepare(get_examples, found)

    def _candidates(self, place: int, doc: Doc, annotated: Doc) -> list[Candidate]:
        """The candidates of a document, by the mentions and sentences of an annotated one."""
        return find_candidates(
            place,
            doc,
            [get_argument(span) for span in mentions_of(annotated, self.cfg["spans_key"])],
            pairs=[(head, tail) for head, tail in self.cfg["pairs"] or ()],
            directed=self.cfg["directed"],
            max_distance=self.cfg["max_distance"],
            reference=annotated,
            reads_marks=self.cfg["reads_marks"],
        )

    def _encode(
        self, candidates: list[Candidate], docs: list[Doc], *, is_train: bool
    ) -> tuple[Floats2d, Callable[[Floats2d], None]]:
        """The vector of the first position of each candidate's window: (candidates, width)."""
        encoder: Model[list[Doc], EncodedBatch] | None = self.model.get_ref("tok2vec").encoder
        if encoder is None:
            raise BiomedError(NO_ENCODER)
        vocab = Vocab()  # the pipeline's own would keep every text
        texts = {place: docs[place].text for place in {one.doc for one in candidates}}
        windows = [
            Doc(vocab, words=[text], spaces=[False])
            for text in self._cut_windows(candidates, texts, encoder)
        ]
        encoded, backprop_encoder = encoder(windows, is_train=is_train)
        vectors, backprop_pooling = POOLINGS["cls"](encoder.ops, encoded)

        def backprop(d_vectors: Floats2d) -> None:
            if is_train:
                factor = self.model.get_ref("tok2vec").attrs["grad_factor"]
                backprop_encoder(factor * backprop_pooling([d_vectors]))

        return self.model.ops.xp.concatenate(vectors), backprop

    def _cut_windows(
        self, candidates: list[Candidate], texts: dict[int, str], encoder: Model
    ) -> list[str]:
        """The texts of windows, with fewer words where the encoder could not read one at once."""
        shim, style, words = encoder.shims[0], self.cfg["arguments"], self.cfg["max_distance"]
        tokenizer = shim.tokenizer
        room = min(encoder.attrs["window"], shim.longest)
        room -= len(tokenizer.prefix) + len(tokenizer.suffix)
        found = [one.text(texts[one.doc], style) for one in candidates]
        long = np.flatnonzero(tokenizer(found).lengths > room).tolist()
        while long and words:
            words //= 2
            for i in long:
                one = candidates[i]
                found[i] = one.narrow(texts[one.doc], words).text(texts[one.doc], style)
            lengths = tokenizer([found[i] for i in long]).lengths.tolist()
            long = [i for i, length in zip(long, lengths, strict=True) if length > room]
        return found

    def _learn_windows(
        self, candidates: list[Candidate], docs: list[Doc], targets: Floats2d
    ) -> float:
        """Learn from candidates with windows, one batch of them in memory at a time."""
        listener, classifier = (self.model.get_ref(name) for name in ("tok2vec", "classifier"))
        is_train = listener.has_received(docs) and listener.attrs["grad_factor"] != 0.0
        total = 0.0
        for chosen in group_windows(candidates, self.cfg["max_batch_words"]):
            vectors, backprop_vectors = self._encode(
                [candidates[i] for i in chosen], docs, is_train=is_train
            )
            scores, backprop = classifier.begin_update(vectors)
            loss, d_scores = _sum_loss(self, scores, targets[chosen])
            backprop_vectors(backprop(d_scores / len(candidates)))
            total += loss / len(candidates)
        return total

    def _learn_documents(
        self, candidates: list[Candidate], docs: list[Doc], targets: Floats2d
    ) -> float:
        """Learn from candidates that are documents; if there are none the encoder gets zeros."""
        own, places = _own_texts(candidates)
        places = self.model.ops.xp.asarray(places)
        scores, backprop = self.model.begin_update(docs)
        d_scores = self.model.ops.alloc2f(*scores.shape)
        loss, d_scores[places] = _sum_loss(self, scores[places], targets[own])
        count = max(len(candidates), 1)
        backprop(d_scores / count)
        return loss / count

    def gold(self, examples: Iterable[Example]) -> tuple[list[Candidate], Floats2d]:
        """The candidates of annotated documents, and 1.0 for what is true, else 0.0.

        Raises:
            BiomedError: if a label is unknown, or a pair has two that exclude each other.
        """
        candidates: list[Candidate] = []
        gold: list[set[str]] = []
        for place, example in enumerate(examples):
            relations = example.reference._.relations
            if relations is None or len(example.predicted) == 0:
                continue
            self.check_labels(one.label for one in relations)
            found = self._candidates(place, example.predicted, example.reference)
            candidates += found
            gold += find_gold_labels(found, relations, self.cfg["directed"])
        exclusive = self.cfg["exclusive"]
        return candidates, create_targets(gold, self.labels, exclusive=exclusive, name=self.name)

    def find_facts(self, examples: Iterable[Example]) -> tuple[set[str], set[tuple[str, str]]]:
        """The labels, and the types of entities where these are annotated; note marked texts."""
        labels, pairs, has_marks = set(), set(), False
        for example in examples:
            relations = example.reference._.relations
            is_marked = relations is not None and find_marked(example.reference) is not None
            has_marks |= is_marked
            for head, tail, label, _ in relations or ():
                labels.add(label)
                if not is_marked:
                    pairs.add((head.label_, tail.label_))
        is_trained = self.model.has_dim("nO")
        self.cfg["reads_marks"] = has_marks or bool(is_trained and self.cfg["reads_marks"])
        return labels, pairs


make_biomed_relations = register_factory(
    FACTORY,
    BiomedRelations,
    configure_head("RelationClassifier", "relation_scorer", "cls", dropout=0.1),
    assigns=["doc._.relations"],
    default_score_weights={
        "relations_micro_f": 1.0,
        "relations_micro_p": 0.0,
        "relations_micro_r": 0.0,
        "relations_macro_p": None,
        "relations_macro_r": None,
        "relations_macro_f": None,
        "relations_per_type": None,
    },
)


def _sum_loss(head: BiomedRelations, scores: Floats2d, targets: Floats2d) -> tuple[float, Floats2d]:
    """The sum of the candidates' cross-entropies, and its gradient: (candidates, scores)."""
    targets = head.model.ops.asarray2f(targets)
    losses, d_scores = cross_entropy(scores, targets, head.cfg["exclusive"])
    return float(losses.sum()), d_scores


def _own_texts(candidates: Sequence[Candidate]) -> tuple[Ints1d, Ints1d]:
    """Find the candidates that are documents, as indices, and the places of these documents."""
    own = [i for i, candidate in enumerate(candidates) if candidate.window is None]
    places = [candidates[i].doc for i in own]
    return np.array(own, dtype="int64"), np.array(places, dtype="int64")


def relation_scorer_v1() -> Callable:
    """`spacy_biomed.relation_scorer.v1`: see `score_relations`."""
    return score_relations


def score_relations(
    examples: Iterable[Example],
    *,
    labels: Iterable[str],
    directed: bool = True,
    finder: str | None = None,
    **cfg: object,
) -> dict[str, object]:
    """Micro- and macro-averaged precision, recall and F1 of relations in annotated documents.

    Papers report the micro average (Peng et al. 2020, "An Empirical Study of Multi-Task Learning on
    BERT for Biomedical Text Mining") or, for ChemProt, the macro average over the types (Lewis et
    al. 2020, "Pretrained Language Models for Biomedical and Clinical Tasks", table 1; Rohanian et
    al. 2023, "On the Effectiveness of Compact Biomedical Transformers", table 3). The absence of a
    relation is not a class. The macro average is over the labels with a gold or a predicted
    relation; macro F1 is the mean of their F1, not the F1 of the two means.

    A relation is correct if its label is, and if its arguments have the right characters and types;
    with `directed` also the right order. In a text that marks its two arguments only the label
    counts.

    Args:
        labels: of the component; predicted relations with other labels belong to other components.
        finder: name of the component, whose relations alone count; None for any with its labels.

    Returns:
        `relations_micro_p`, `_r`, `_f`, `relations_macro_p`, `_r`, `_f` and `relations_per_type`;
        all are None if no document is annotated.
    """
    labels = set(labels)
    compared = (compare_relations(example, labels, directed, finder) for example in examples)
    scores = LabelScores.count(compared, labels)
    return {
        **scores.scores("relations_micro", "relations_per_type"),
        **scores.macro_scores("relations_macro"),
    }


def compare_relations(
    example: Example, labels: Collection[str], directed: bool, finder: str | None = None
) -> Compared | None:
    """The gold and predicted relations that `score_relations` counts; None without the layer."""
    if example.reference._.relations is None:
        return None
    marked = find_marked(example.reference)
    gold, found = example.reference._.relations, get_found(example.predicted, finder, labels)
    return _get_facts(gold, marked, directed), _get_facts(found, marked, directed), ()


def _get_facts(
    relations: Iterable[SpanRelation], marked: tuple[Argument, Argument] | None, directed: bool
) -> set[tuple]:
    """What each relation states: its arguments, or those that the text marks, and its label."""
    return {(*(marked or get_arguments(one, directed)), one.label) for one in relations}
