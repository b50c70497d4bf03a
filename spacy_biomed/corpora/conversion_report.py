"""What a conversion found and wrote: counts for each part, and the content of `corpus.json`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..annotations.assertions import get_assertions
from ..annotations.pairs import get_pair
from ..annotations.relation_layer import count_several
from ..formats.documents import Document
from .gold import Annotated

Parts = Mapping[str, Sequence[Document]]


@dataclass(slots=True)
class PartReport:
    """What one part (train, dev or test) contains.

    Attributes:
        sentences: as published; if the source has none, as spaCy's sentencizer counts them.
        mentions: by label, with or without a span of tokens. A mention that the source gives twice
            counts once.
        assertions: spans of which each assertion is true.
        classes: number of documents of each class.
        means: mean of each label whose values are numbers and not classes (similarity).
        relations: by label, as the source counts them.
        lost_relations: relations with an argument that no layer of the Docs contains.
        several_relations: pairs of spans with relations of two labels or more. A head that learns
            such labels cannot treat them as exclusive.
        pairs: documents that are a pair of texts.
        answers, unaligned_answers: all answers, and those that no span of tokens represents.
        inside_token, overlapping, discontinuous: mentions that no layer of the Docs contains.
        uncertain: regions where a mention would be neither right nor wrong (`label_map`).
        changes: repairs of flaws in the files (`formats.repairs`), by kind.
        duplicates: documents whose text is also in a part before this one.
        dropped: documents left out for that reason (`CorpusEntry.drop_repeats`).
    """

    documents: int = 0
    sentences: int = 0
    sentences_are_published: bool = True
    tokens: int = 0
    mentions: dict[str, int] = field(default_factory=dict)
    assertions: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    relations: dict[str, int] = field(default_factory=dict)
    lost_relations: int = 0
    several_relations: int = 0
    pairs: int = 0
    answers: int = 0
    unaligned_answers: int = 0
    inside_token: int = 0
    overlapping: int = 0
    discontinuous: int = 0
    uncertain: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    dropped: int = 0

    @property
    def unaligned(self) -> int:
        """Mentions that no span of tokens in the layer represents."""
        return self.inside_token + self.overlapping + self.discontinuous

    def count(self, document: Document, doc: Doc, annotated: Annotated) -> None:
        """Count a document, and the annotations that its `Doc` got."""
        mentions, answers = annotated.mentions, annotated.answers
        self.documents += 1
        self.tokens += len(doc)
        self.pairs += get_pair(doc) is not None
        _add(self.mentions, (mention.label for mention in mentions.mentions))
        said = (get_assertions(span) for span in mentions.spans)
        _add(self.assertions, (name for one in said for name, value in one.items() if value))
        self.inside_token += len(mentions.inside_token)
        self.overlapping += len(mentions.overlapping)
        self.discontinuous += len(mentions.discontinuous)
        self.uncertain += len(document.uncertain)
        _add(self.relations, (relation.label for relation in document.relations or ()))
        self.lost_relations += len(annotated.lost_relations)
        self.several_relations += count_several(doc._.relations)
        self.answers += len(answers.mentions)
        self.unaligned_answers += len(answers.unaligned)
        if document.sentences is None:
            self.sentences_are_published = False
            self.sentences += sum(_SENTENCIZER.predict([doc])[0])
        else:
            self.sentences += len(document.sentences)


_SENTENCIZER = Sentencizer()


def _add(counts: dict[str, int], labels: Iterable[str]) -> None:
    for label in labels:
        counts[label] = counts.get(label, 0) + 1


@dataclass(slots=True)
class ConversionReport:
    """What a conversion wrote.

    Attributes:
        parts: by name, in the order train, dev, test.
        unseen_share: the share of test mentions, between 0 and 1, whose lower-cased string never
            occurs with that label in train; None without test mentions or train.
        annotated_labels: labels of mentions that the corpus annotates, in every document.
        spans_key: the span group of mentions; None for `doc.ents`.
        seeded_parts: the parts that the corpus is not published with, drawn with `seed`.
    """

    name: str
    language: str
    format: str
    output: Path
    labels: list[str]
    parts: dict[str, PartReport]
    seeded_parts: list[str]
    seed: int
    unseen_share: float | None = None
    licence: str = ""
    source: str = ""
    annotated_labels: list[str] = field(default_factory=list)
    spans_key: str | None = None

    def describe(self) -> dict[str, object]:
        """Return the content of `corpus.json`."""
        description = asdict(self)
        del description["output"]
        for part in description["parts"].values():
            for name in ("mentions", "relations"):
                part[name] = dict(sorted(part[name].items()))
        return description


def compare_parts(parts: Parts, reports: Mapping[str, PartReport]) -> None:
    """Count classes, means and duplicates, for which all parts must be known.

    A label whose values are not all between 0 and 1 is a number and not a class.
    """
    values: dict[str, dict[str, list[float]]] = {part: defaultdict(list) for part in parts}
    scores = set()
    for part, documents in parts.items():
        for label, value in chain.from_iterable((one.cats or {}).items() for one in documents):
            values[part][label].append(value)
            if not 0 <= value <= 1:
                scores.add(label)
    seen: set[str] = set()
    for part, documents in parts.items():
        report = reports[part]
        for label, numbers in sorted(values[part].items()):
            if label in scores:
                report.means[label] = sum(numbers) / len(numbers)
            elif count := sum(map(bool, numbers)):
                report.classes[label] = count
        report.duplicates = sum(document.text in seen for document in documents)
        seen.update(document.text for document in documents)


def find_unseen_share(parts: Parts) -> float | None:
    """The share of test mentions whose lower-cased string and label train, if there, never has."""
    seen = set(_strings(parts.get("train", ())))
    unseen = [mention not in seen for mention in _strings(parts.get("test", ()))]
    return sum(unseen) / len(unseen) if unseen and "train" in parts else None


def _strings(documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
    for document in documents:
        for mention in document.mentions or ():
            yield mention.read(document.text).lower(), mention.label
