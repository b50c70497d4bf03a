"""What `biomed_ner` makes of a development corpus, and the offsets that reach a recall there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.training import Example
from spacy.util import filter_spans
from thinc.types import Floats1d, Floats2d, Ints1d

from ...annotations.document_keys import locate_span
from ...annotations.seen_mentions import SEEN_KEY
from ...encoders.batching.alignment import token_offsets
from ...models.tagging import Spans
from ...normalization import find_blanks
from ..doc_batches import batch_docs
from ..encoder_head import EncoderHead
from ..mention_layer import GoldLayer, gold_spans
from .component import OTHERS, BiomedNER, RecallMeasure, RecallTarget
from .targets import token_log_probs

RIGHT, WRONG, OPEN = 1, 0, -1

# Offsets are in log odds. With the largest, an entity of the probability 0.0003 is found.
STEP, LARGEST = 0.25, 8.0
# The search for a label ends if its recall has not risen over so many steps.
PATIENCE = 12


class Development:
    """The tokens of a development corpus as a `biomed_ner` tags them, and their gold mentions.

    Only documents in which the component's layer is annotated count.

    Attributes:
        log_probs: (tokens, tags) log probability of each tag, all documents concatenated.
        lengths: (docs,) number of tokens in each document.
        gold: the gold mentions that the component can represent, in tokens of all documents.
    """

    def __init__(self, head: BiomedNER, examples: Sequence[Example], log_probs: list[Floats2d]):
        """Put examples together with the log probabilities of each one's tags, (tokens, tags)."""
        self.head = head
        layers = [GoldLayer.read(one.reference, head.cfg["spans_key"]) for one in examples]
        self._layers = [layer for layer in layers if layer is not None]
        kept = [place for place, layer in enumerate(layers) if layer is not None]
        examples = [examples[place] for place in kept]
        docs = [example.predicted for example in examples]
        self._references = [example.reference for example in examples]
        self._starts, self._ends, self.lengths = token_offsets(docs)
        nothing = np.zeros((0, head.tag_scheme.size), dtype="float32")
        self.log_probs = np.concatenate([nothing, *(log_probs[place] for place in kept)])
        flags = [find_blanks(doc) for doc in docs]
        self._is_space = np.concatenate([np.zeros(0, dtype=bool), *flags])
        words = (token.text for doc in docs for token in doc)
        self._is_word = np.array([any(map(str.isalnum, word)) for word in words], dtype=bool)
        self._offsets = np.cumsum(self.lengths) - self.lengths
        self.gold = self._place_gold(examples)

    def decode(self) -> tuple[Spans, Floats1d]:
        """The entities that the component finds, and their probabilities, (spans,)."""
        return self.head.decode(self.log_probs, self._is_space, self.lengths)

    def judge(self, spans: Spans) -> Ints1d:
        """Whether each entity is correct, (spans,): RIGHT, WRONG or OPEN, as the scorer counts."""
        judged = (
            self._layers[doc].judge(start, end, label)
            for doc, start, end, label in self._locate(spans)
        )
        return np.array([OPEN if one is None else int(one) for one in judged], dtype="int64")

    def _locate(self, spans: Spans) -> Iterator[tuple[int, int, int, str]]:
        """The document, first character, end (exclusive) and label of each entity."""
        docs = np.searchsorted(np.cumsum(self.lengths), spans.start, side="right")
        starts, ends = self._starts[spans.start], self._ends[spans.end - 1]
        labels = [self.head.labels[label] for label in spans.label]
        return zip(docs.tolist(), starts.tolist(), ends.tolist(), labels, strict=True)

    def find_seen(self, spans: Spans) -> np.ndarray:
        """Whether the wording of each entity is a mention of its label in training, (spans,)."""
        seen = [set(map(locate_span, doc.spans.get(SEEN_KEY, ()))) for doc in self._references]
        found = [(start, end, label) in seen[doc] for doc, start, end, label in self._locate(spans)]
        return np.array(found, dtype=bool)

    def count_found(self, spans: Spans) -> Ints1d:
        """(labels,) number of gold mentions of each label that are among these entities."""
        is_found = np.isin(self._number(self.gold), self._number(spans))
        return self.count(self.gold.label[is_found])

    def count_covered(self, spans: Spans) -> Ints1d:
        """(labels,) number of gold mentions of each label whose words are all within entities.

        The entities may have any label and other boundaries, and several may cover one mention.
        Tokens without letters and digits need not be covered.
        """
        open_words = self._count_before(self._is_word & ~self._cover(spans))
        is_covered = open_words[self.gold.end] == open_words[self.gold.start]
        return self.count(self.gold.label[is_covered])

    def touches_gold(self, spans: Spans) -> np.ndarray:
        """Whether each entity shares a token with a gold mention of any label, (spans,)."""
        of_gold = self._count_before(self._cover(self.gold))
        return of_gold[spans.end] > of_gold[spans.start]

    def _cover(self, spans: Spans) -> np.ndarray:
        """(tokens,) whether a token is in one of the spans."""
        steps = np.zeros(len(self.log_probs) + 1, dtype="int64")
        np.add.at(steps, spans.start, 1)
        np.add.at(steps, spans.end, -1)
        return np.cumsum(steps[:-1]) > 0

    @staticmethod
    def _count_before(flags: np.ndarray) -> Ints1d:
        """(tokens + 1,) how many tokens before each place have the flag."""
        return np.concatenate([[0], np.cumsum(flags)])

    def count(self, labels: Ints1d) -> Ints1d:
        """(labels,) how often each label occurs."""
        return np.bincount(labels, minlength=len(self.head.labels))

    def _number(self, spans: Spans) -> Ints1d:
        """(spans,) a number for each span and label, by which equal ones are found."""
        tokens, labels = len(self.log_probs) + 1, len(self.head.labels)
        return (spans.start * tokens + spans.end) * labels + spans.label

    def _place_gold(self, examples: Sequence[Example]) -> Spans:
        key, known = self.head.cfg["spans_key"], set(self.head.labels)
        placed = [Spans(*np.zeros((3, 0), dtype="int64"))]
        for example, offset, length in zip(examples, self._offsets, self.lengths, strict=True):
            part = slice(offset, offset + length)
            gold = [one for one in gold_spans(example.reference, key) or () if one.label_ in known]
            starts, ends = self._starts[part], self._ends[part]
            spans, _ = self.head.targets.place_mentions(filter_spans(gold), starts, ends)
            placed.append(Spans(spans.start + offset, spans.end + offset, spans.label))
        return Spans(*map(np.concatenate, zip(*placed, strict=True)))


def read_development(nlp: Language, examples: Sequence[Example]) -> dict[str, Development]:
    """What each `biomed_ner` of a pipeline makes of a development corpus, by its name.

    Components without an annotated document are left out.
    """
    components: list[tuple[str, Any]] = nlp.pipeline
    heads = {name: pipe for name, pipe in components if isinstance(pipe, BiomedNER)}
    log_probs: dict[str, list[Floats2d]] = {name: [] for name in heads}
    for docs in batch_docs([example.predicted for example in examples], nlp.batch_size):
        borders = np.cumsum([len(doc) for doc in docs])[:-1]
        # Copies, which are let go with what the encoder leaves on them.
        docs = [doc.copy() for doc in docs]
        for name, pipe in components:
            if name in heads:
                rows = token_log_probs(heads[name].predict_scores(docs))
                log_probs[name] += np.split(rows, borders)
            elif not isinstance(pipe, EncoderHead):
                docs = list(pipe.pipe(docs))
    found = {name: Development(head, examples, log_probs[name]) for name, head in heads.items()}
    return {name: development for name, development in found.items() if len(development.lengths)}


@dataclass(frozen=True, slots=True)
class LabelRecall:
    """What a recall target makes of a label on the development corpus.

    Attributes:
        offset: what is added to the log odds of its entities.
        gold: number of its gold mentions, of those that tokens can represent.
        recall_before, recall: without and with all offsets, from 0 to 1, as the measure counts.
        precision_before, precision: share of the entities that are right, with the measure
            "covered" of those that share a token with a gold mention; NaN if nothing is found.
    """

    label: str
    target: float
    offset: float
    gold: int
    recall_before: float
    recall: float
    precision_before: float
    precision: float

    @property
    def is_reached(self) -> bool:
        return self.recall >= self.target


def fit_recall(
    development: Development, target: RecallTarget, measure: RecallMeasure = "exact"
) -> list[LabelRecall]:
    """Set the offsets with which the labels of a `biomed_ner` reach a recall.

    The entities that are found without offsets stay. Beside them, the odds of a label's entities
    are multiplied by the exponential of its offset (`TagScheme.find_more`). Of the offsets from 0
    in steps of 0.25, a label has the first that reaches the target, or else the first with the
    highest recall. Labels compete for the same tokens, so all below their target rise together.

    The measure "exact" counts mentions whose span and label are found. "covered" counts mentions
    all of whose words are in entities of labels that have a target, whatever the boundaries: what
    counts where mentions are removed from the text.

    `target` is above 0 and at most 1, or by label, "*" for all others; None, and labels that are
    left out, have no offset. Returned is what it makes of each label that has a target, and gold
    mentions.
    """
    head = development.head
    targets = _targets(development, target)
    head.cfg["target_recall"], head.cfg["recall_measure"] = target, measure
    head.cfg["recall_offsets"] = {}

    def count_found(spans: Spans) -> Ints1d:
        if measure == "exact":
            return development.count_found(spans)
        covers = ~np.isnan(targets)[spans.label]  # only labels that have a target
        return development.count_covered(Spans(*(part[covers] for part in spans)))

    recall_before, precision_before = _measure(development, measure, count_found)
    gold = development.count(development.gold.label)
    wanted = np.where(gold > 0, targets, np.nan)
    if np.isnan(wanted).all():
        return []
    offsets = _search(development, count_found, wanted, gold)
    recall, precision = _measure(development, measure, count_found)
    found = (targets, offsets, gold, recall_before, recall, precision_before, precision)
    rows = zip(head.labels, *(one.tolist() for one in found), strict=True)
    return [LabelRecall(*row) for row, one in zip(rows, wanted, strict=True) if not np.isnan(one)]


def _targets(development: Development, target: RecallTarget) -> Floats1d:
    """(labels,) the target of each label; not a number for a label without one."""
    labels = development.head.labels
    if not isinstance(target, Mapping):
        return np.full(len(labels), np.nan if target is None else target)
    others = target.get(OTHERS, np.nan)
    return np.array([target.get(label, others) for label in labels])


def _measure(
    development: Development, measure: RecallMeasure, count_found: Callable[[Spans], Ints1d]
) -> tuple[Floats1d, Floats1d]:
    """(labels,) recall and precision with the present offsets; NaN where nothing counts."""
    spans, _ = development.decode()
    judged = development.judge(spans)
    counted = judged != OPEN
    is_right = judged == RIGHT if measure == "exact" else counted & development.touches_gold(spans)
    count = development.count
    with np.errstate(invalid="ignore"):
        recall = count_found(spans) / count(development.gold.label)
        return recall, count(spans.label[is_right]) / count(spans.label[counted])


def _search(
    development: Development, count_found: Callable[[Spans], Ints1d], wanted: Floats1d, gold: Ints1d
) -> Floats1d:
    """Set the offsets that reach the recalls `wanted`, and return them: (labels,).

    Both arguments are (labels,). A recall that is not a number leaves the label as it is.
    """
    offsets, best = np.zeros((2, len(wanted)))
    highest = np.full(len(wanted), -1)
    is_given_up = np.zeros(len(wanted), dtype=bool)
    while True:
        named = zip(development.head.labels, offsets.tolist(), strict=True)
        development.head.cfg["recall_offsets"] = {label: one for label, one in named if one}
        found = count_found(development.decode()[0])
        is_better = found > highest
        highest, best = np.where(is_better, found, highest), np.where(is_better, offsets, best)
        is_low = found < wanted * gold  # false for a label without a target
        stalled = (offsets - best >= PATIENCE * STEP) | (offsets >= LARGEST)
        ending = is_low & stalled & ~is_given_up
        offsets[ending], is_given_up[ending] = best[ending], True
        rising = is_low & ~is_given_up
        if not (rising | ending).any():
            return offsets
        offsets[rising] += STEP
