"""Where the mentions that pipelines find differ from the gold: counts, and a page to look at."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from spacy import displacy
from spacy.tokens import Doc
from spacy.training import Example

from ..annotations.document_keys import DOCUMENT_ID
from ..annotations.seen_mentions import SEEN_KEY
from ..files.templates import read_template
from ..notes.sentence_starts import find_sentence_starts
from ..notes.term_files import NOTE_LANGUAGES
from ..pipeline.label_scores import LabelScores
from ..pipeline.ner.scores import compare_mentions

Mention = tuple[int, int, str]
NONE = "none"
RIGHT, MISSED, FALSE, BOUNDARY, LABEL = "right", "missed", "false", "boundary", "label"
# How the second of two pipelines compares with the first.
WON, LOST = "only the second is right", "only the first is right"
ERRORS = (MISSED, FALSE, BOUNDARY, LABEL, f"{BOUNDARY} and {LABEL}")
# Words of the longest mentions that are counted by themselves, and rows of the longest tables.
LONGEST, MOST_ROWS = 6, 25


class Case(NamedTuple):
    """A gold mention with what was found in its place, and RIGHT or one of ERRORS.

    One of both may be None. They have their first character, end (exclusive) and label.
    """

    kind: str
    gold: Mention | None
    found: Mention | None

    @property
    def mention(self) -> Mention:
        """The gold mention, or else what was found."""
        return self.gold or self.found or (0, 0, NONE)

    @property
    def labels(self) -> tuple[str, str]:
        """The gold label and the label that was found; NONE without."""
        return (self.gold or (NONE,))[-1], (self.found or (NONE,))[-1]


class Table(NamedTuple):
    """A table of the page: its title, the titles of its columns, and its cells."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]


class Passage(NamedTuple):
    """A sentence with errors; a view has "gold" or a pipeline's name, and the text as HTML."""

    document: str
    kinds: list[str]
    labels: list[str]
    views: list[tuple[str, str]]


def pair_mentions(gold: set[Mention], found: set[Mention]) -> list[Case]:
    """Give each mention that was found wrongly the gold mention that it probably stands for.

    It is one that it overlaps and that nothing else was found for: best with the same boundaries,
    then with the same label, then with the most characters in common.
    """
    cases = [Case(RIGHT, one, one) for one in sorted(gold & found)]
    left = sorted(gold - found)
    longest = max((end - start for start, end, _ in left), default=0)
    for one in sorted(found - gold):
        start, end, label = one
        near = left[bisect_left(left, (start - longest,)) : bisect_left(left, (end,))]
        touched = [other for other in near if start < other[1]]
        if not touched:
            cases.append(Case(FALSE, None, one))
            continue
        best = max(
            touched,
            key=lambda g: (g[:2] == one[:2], g[2] == label, min(g[1], end) - max(g[0], start)),
        )
        del left[bisect_left(left, best)]
        differs = {BOUNDARY: best[:2] != one[:2], LABEL: best[2] != label}
        cases.append(Case(" and ".join(name for name in differs if differs[name]), best, one))
    return cases + [Case(MISSED, one, None) for one in left]


@dataclass
class SystemErrors:
    """The counts of one pipeline.

    `confusion` has pairs of a gold label and one that was found. `kinds` has errors by kind and
    label, `texts` also by text in small letters; the label is the gold one if there is one.
    `lengths` and `seen` have gold mentions by their length in words, and by whether they occur in
    the training part, each with whether they were found. `documents` has what was right, found
    wrongly and missed, and `tallies` the same by label, for a paired test.
    """

    name: str
    scores: LabelScores = field(default_factory=LabelScores)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    lengths: Counter[tuple[int, bool]] = field(default_factory=Counter)
    seen: Counter[tuple[int, bool]] = field(default_factory=Counter)
    texts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    documents: dict[str, list[int]] = field(default_factory=dict)
    tallies: list[dict[str, list[float]]] = field(default_factory=list)

    def add(self, document: str, reference: Doc, cases: list[Case]) -> None:
        """Count the cases of a document."""
        text = reference.text
        known = reference.spans.get(SEEN_KEY)
        seen = None if known is None else {(s.start_char, s.end_char, s.label_) for s in known}
        by_label: dict[str, list[float]] = {}
        for case in cases:
            kind, gold, found = case
            is_right = kind == RIGHT
            self.confusion[case.labels] += 1
            start, end, label = case.mention
            words = text[start:end].split()
            if gold is not None:
                self.lengths[min(len(words), LONGEST), is_right] += 1
                by_label.setdefault(label, [0, 0, 0])[0 if is_right else 2] += 1
                if seen is not None:
                    self.seen[gold in seen, is_right] += 1
            if not is_right:
                self.kinds[kind, label] += 1
                self.texts[kind, label, " ".join(words).lower()] += 1
                if found is not None:
                    by_label.setdefault(found[-1], [0, 0, 0])[1] += 1
        self.tallies.append(by_label)
        earlier = self.documents.get(document, [0, 0, 0])  # of the same name
        counts = zip(earlier, *by_label.values(), strict=True)
        self.documents[document] = [int(sum(numbers)) for numbers in counts]

    def tables(self, with_text: bool) -> Iterator[Table]:
        """The tables of the page."""
        scores = [*sorted(self.scores.by_label.items()), ("all", self.scores.overall)]
        yield Table(
            "Scores",
            ("label", "gold", "precision", "recall", "F1"),
            [
                (label, s.tp + s.fn, *(f"{100 * x:.1f}" for x in (s.precision, s.recall, s.fscore)))
                for label, s in scores
            ],
        )
        labels = sorted({label for pair in self.confusion for label in pair} - {NONE}) + [NONE]
        rows = [(gold, *(self.confusion[gold, own] or "" for own in labels)) for gold in labels]
        yield Table("Gold labels (rows) and labels that were found", ("", *labels), rows)
        by_label = [
            (label, *(self.kinds[kind, label] or "" for kind in ERRORS)) for label in labels[:-1]
        ]
        yield Table("Errors by label", ("label", *ERRORS), by_label)
        lengths = {n: f"{n}{'+' * (n == LONGEST)} words" for n in range(1, LONGEST + 1)}
        yield _recall("Recall by length", lengths, self.lengths)
        if self.seen:
            parts: dict[int, str] = {True: "in the training part", False: "not there"}
            yield _recall("Recall of mentions", parts, self.seen)
        worst = sorted(self.documents.items(), key=lambda one: -sum(one[1][1:]))[:MOST_ROWS]
        header = ("document", RIGHT, "found wrongly", MISSED)
        wrong = [(name, *counts) for name, counts in worst if any(counts[1:])]
        yield Table("Documents with the most errors", header, wrong)
        for kind in (MISSED, FALSE) if with_text else ():
            counts = Counter({key[1:]: n for key, n in self.texts.items() if key[0] == kind})
            rows = [(text, label, n) for (label, text), n in counts.most_common(MOST_ROWS)]
            yield Table(f"Most frequent: {kind}", ("text", "label", "times"), rows)


def _recall(title: str, names: Mapping[int, str], counts: Counter[tuple[int, bool]]) -> Table:
    rows = [
        (name, gold, f"{100 * counts[key, True] / gold:.1f}")
        for key, name in names.items()
        if (gold := counts[key, True] + counts[key, False])
    ]
    return Table(title, ("", "gold", "recall"), rows)


class ErrorAnalysis:
    """Compares what one or two pipelines find with the gold.

    `passages` are sentences with errors, from the first documents. `compared` says for two
    pipelines how many gold mentions both, one or none of them find.
    """

    def __init__(self, names: Sequence[str], language: str, most_passages: int = 1000):
        self.systems = [SystemErrors(name) for name in names]
        self.passages: list[Passage] = []
        self.compared: Counter[str] = Counter()
        self._language = language if language in NOTE_LANGUAGES else NOTE_LANGUAGES[0]
        self._most = most_passages
        self._documents = 0  # in the file so far

    def add(self, reference: Doc, predicted: Sequence[Doc], spans_key: str | None = None) -> None:
        """Count a document and the same text from each pipeline; nothing if it lacks the layer.

        A document without an id has its number among all.
        """
        self._documents += 1
        by_system, gold = [], set[Mention]()
        for doc, system in zip(predicted, self.systems, strict=True):
            compared = compare_mentions(Example(doc, reference), spans_key)
            if compared is None:
                return
            own, found, lost = compared
            system.scores.add(own, found, lost)
            gold = {*own, *map(tuple, lost)}
            by_system.append(pair_mentions(gold, found))
        id = reference.user_data.get(DOCUMENT_ID)
        document = str(self._documents if id in (None, "") else id)
        layers = [("gold", gold)]
        marked: list[tuple[int, str, str]] = []
        for system, cases in zip(self.systems, by_system, strict=True):
            system.add(document, reference, cases)
            layers.append((system.name, {case.found for case in cases if case.found}))
            for case in (case for case in cases if case.kind != RIGHT):
                labels = set(case.labels) - {NONE}
                marked += [(case.mention[0], case.kind, label) for label in labels]
        if len(by_system) == 2:
            marked += self._compare(gold, by_system)
        if marked and len(self.passages) < self._most:
            self._show(document, reference.text, marked, layers)

    def _compare(
        self, gold: set[Mention], by_system: list[list[Case]]
    ) -> Iterator[tuple[int, str, str]]:
        first, second = ({c.gold for c in cases if c.kind == RIGHT} for cases in by_system)
        kinds = {(1, 0): LOST, (0, 1): WON, (1, 1): "both are right", (0, 0): "none is right"}
        for mention in gold:
            kind = kinds[mention in first, mention in second]
            self.compared[kind] += 1
            if kind in (WON, LOST):
                yield mention[0], kind, mention[-1]

    def _show(
        self,
        document: str,
        text: str,
        marked: Iterable[tuple[int, str, str]],
        layers: Sequence[tuple[str, set[Mention]]],
    ) -> None:
        """Keep the sentences where an error begins: its first character, its kind and a label."""
        borders = sorted({0, *find_sentence_starts(text, self._language), len(text)})
        sentences: dict[int, list[tuple[str, str]]] = {}
        for start, kind, label in marked:
            sentences.setdefault(bisect_right(borders, start) - 1, []).append((kind, label))
        by_sentence = [(name, _group(own, borders)) for name, own in layers]
        for place in sorted(sentences)[: self._most - len(self.passages)]:
            start, last = borders[place], borders[place + 1]
            shown = [(name, own.get(place, [])) for name, own in by_sentence]
            end = max([last, *(mention[1] for _, own in shown for mention in own)])
            views = [(name, _draw(text[start:end], own, start)) for name, own in shown]
            kinds, labels = (sorted(set(own)) for own in zip(*sentences[place], strict=True))
            self.passages.append(Passage(document, kinds, labels, views))

    def render(self, title: str, *, with_text: bool = True, test: str = "") -> str:
        """The page, as HTML that needs no network; `test` is a line about a paired test."""
        passages = self.passages if with_text else []
        return read_template(Path(__file__).parent / "error_analysis.html.jinja").render(
            title=title,
            systems=[(system.name, list(system.tables(with_text))) for system in self.systems],
            compared=self.compared.most_common(),
            test=test,
            passages=passages,
            kinds=sorted({kind for one in passages for kind in one.kinds}),
            labels=sorted({label for one in passages for label in one.labels}),
        )


def _group(mentions: Iterable[Mention], borders: Sequence[int]) -> dict[int, list[Mention]]:
    """The mentions by the sentence in which they begin."""
    groups: dict[int, list[Mention]] = {}
    for mention in mentions:
        groups.setdefault(bisect_right(borders, mention[0]) - 1, []).append(mention)
    return groups


def _draw(text: str, mentions: Iterable[Mention], first: int) -> str:
    """A sentence from displaCy; of mentions that overlap, the longest."""
    drawn: list[dict[str, Any]] = []
    for start, end, label in sorted(mentions, key=lambda m: (m[0] - m[1], m)):
        own = {"start": start - first, "end": end - first, "label": escape(label)}
        if all(own["end"] <= one["start"] or one["end"] <= own["start"] for one in drawn):
            drawn.append(own)
    drawn.sort(key=lambda one: one["start"])
    parts = {"text": text, "ents": drawn, "title": None}
    return displacy.render(parts, style="ent", manual=True, jupyter=False)
