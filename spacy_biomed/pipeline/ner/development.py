"""What the `biomed_ner` of a pipeline make of a development corpus, computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.training import Example
from spacy.util import filter_spans
from thinc.types import Floats1d, Floats2d, Ints1d

from ...annotations.document_keys import locate_span
from ...annotations.seen_mentions import SEEN_KEY
from ...encoders.batching.alignment import token_offsets
from ...errors import BiomedError
from ...models.tagging import Spans
from ...normalization import find_blanks
from ..doc_batches import batch_docs
from ..encoder_head import EncoderHead
from ..mention_layer import GoldLayer, gold_spans
from .component import BiomedNER
from .targets import token_log_probs

RIGHT, WRONG, OPEN = 1, 0, -1


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
        """Yield the document, first character, end (exclusive) and label of each entity."""
        docs = np.searchsorted(np.cumsum(self.lengths), spans.start, side="right")
        starts, ends = self._starts[spans.start], self._ends[spans.end - 1]
        places = zip(docs.tolist(), starts.tolist(), ends.tolist(), spans.label, strict=True)
        labels = self.head.labels
        yield from ((doc, start, end, labels[label]) for doc, start, end, label in places)

    def find_seen(self, spans: Spans) -> np.ndarray:
        """Whether the wording of each entity is a mention of its label in training, (spans,)."""
        if not any(SEEN_KEY in reference.spans for reference in self._references):
            raise BiomedError(
                "a share of unseen mentions: the corpus does not mark what was seen in training; "
                "`spacy biomed convert` marks it in the development part"
            )
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
