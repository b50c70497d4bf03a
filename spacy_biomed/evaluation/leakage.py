"""Measure how much of the annotated personal data is left in a de-identified text."""

import re
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, field
from typing import Literal

from spacy.tokens import Doc

from ..annotations.deidentified import Deidentified, Replacement
from ..annotations.document_keys import get_unaligned, locate_span
from ..deidentification.term_lists import normalize, word_list
from ..errors import BiomedError
from ..pipeline.mention_layer import gold_spans

_WORD = re.compile(r"[^\W_]+")
_SHORTEST_WORD = 3
# Words that do not identify anybody, and that a surrogate may share with a mention.
_GENERIC = ("address_words", "generic_words", "particles")


@dataclass(slots=True)
class Leakage:
    """Counts of the gold mentions of a label.

    Attributes:
        leaked: mentions that can be read in part in the new text at their position.
        kept: mentions that stay on purpose, such as ages below the limit. They are not leaked.
        by_chance: mentions whose random surrogate shares a word with them. They are not leaked,
            since nobody can distinguish them from other surrogates.
    """

    mentions: int = 0
    leaked: int = 0
    kept: int = 0
    by_chance: int = 0


@dataclass(slots=True)
class LeakageReport:
    """The leakage of a corpus."""

    labels: dict[str, Leakage] = field(default_factory=dict)
    documents: int = 0
    leaking_documents: int = 0

    @property
    def total(self) -> Leakage:
        """The sum of the counts of all labels."""
        counts = [astuple(count) for count in self.labels.values()]
        return Leakage(*map(sum, zip(*counts, strict=True)))


def measure_leakage(
    pairs: Iterable[tuple[Doc, Doc]],
    is_identifying: Callable[[str], bool] = lambda label: True,
    *,
    spans_key: str | None = None,
    is_drawn: Callable[[Replacement], bool] = lambda replacement: False,
) -> LeakageReport:
    """Count the gold mentions that are left, at least in part, in the de-identified texts.

    A mention leaks if the new text has, at its position, one of its words of at least three letters
    or digits, ignoring case and accents. A mention without such words leaks if a replacement has
    all of the words that it replaces, or if any of its words was not replaced. Words that do not
    identify anybody (Hospital, Calle, the label itself) count only where nothing was replaced.

    Args:
        pairs: the gold document, and the document with `doc._.deidentified`, with the same text.
        is_identifying: returns whether mentions of a label have to be removed.
        spans_key: span group of the gold mentions; None for `doc.ents`.
        is_drawn: returns whether a replacement was drawn at random; words that it shares with a
            mention are there by chance.

    Raises:
        BiomedError: if a document was not de-identified, or if its gold has a different text or no
            such span group.
    """
    report = LeakageReport()
    for number, (gold, predicted) in enumerate(pairs, start=1):
        deidentified = predicted._.deidentified
        _check_pair(number, gold, predicted, spans_key)
        is_leaking = False
        spans = gold.ents if spans_key is None else gold.spans[spans_key]
        for start, end, label in {*map(locate_span, spans), *get_unaligned(gold)}:
            if not is_identifying(label):
                continue
            counts = report.labels.setdefault(label, Leakage())
            counts.mentions += 1
            fate = _judge(deidentified, gold.text, (start, end, label), is_drawn)
            if fate is not None:
                setattr(counts, fate, getattr(counts, fate) + 1)
                is_leaking |= fate == "leaked"
        report.documents += 1
        report.leaking_documents += is_leaking
    return report


def _check_pair(number: int, gold: Doc, predicted: Doc, spans_key: str | None) -> None:
    """Check a pair; messages give the document's number, since they must not quote its text."""
    if predicted._.deidentified is None:
        raise BiomedError(
            f"document {number} was not de-identified: the pipeline needs biomed_deidentify, and "
            "before it a component that finds mentions"
        )
    if gold.text != predicted.text:
        raise BiomedError(
            f"document {number} is compared with another text: give both in the same order"
        )
    if gold_spans(gold, spans_key) is None:
        layer = "doc.ents" if spans_key is None else f'doc.spans["{spans_key}"]'
        raise BiomedError(
            f"document {number} has no gold mentions in {layer}, but in "
            f"{', '.join(gold.spans) or 'no group'}: name the group with the mentions, or leave "
            "the document out"
        )


def _judge(
    deidentified: Deidentified,
    text: str,
    gold: tuple[int, int, str],
    is_drawn: Callable[[Replacement], bool],
) -> Literal["kept", "leaked", "by_chance"] | None:
    """Which count of `Leakage` a mention adds to, besides `mentions`."""
    start, end, label = gold
    touching = [one for one in deidentified.replacements if one.start < end and start < one.end]
    for item in touching:
        is_whole = item.start <= start and end <= item.end and item.label == label
        if is_whole and item.text == text[item.start : item.end] and not is_drawn(item):
            return "kept"
    has_long = any(len(word) >= _SHORTEST_WORD for word in _WORD.findall(text[start:end]))
    shortest = _SHORTEST_WORD if has_long else 1
    place, is_by_chance = start, False
    for item in touching:
        if _is_left(deidentified, place, item.start, shortest):
            return "leaked"
        replaced = text[max(start, item.start) : min(end, item.end)]
        words = _normalized(replaced, shortest) - _normalized(item.label, 1)
        words = words.difference(*map(word_list, _GENERIC))
        shown = words & _normalized(item.text, shortest)
        # A short word, such as a day of two digits, may be the same by chance.
        if shown and (has_long or shown == words):
            if not is_drawn(item):
                return "leaked"
            is_by_chance = True
        place = item.end
    if _is_left(deidentified, place, end, shortest):
        return "leaked"
    return "by_chance" if is_by_chance else None


def _is_left(deidentified: Deidentified, start: int, end: int, shortest: int) -> bool:
    """Whether a span that was not replaced has words; False if its end is before its start."""
    if start >= end:
        return False
    new_start, new_end = deidentified.span_to_new(start, end)
    return bool(_normalized(deidentified.text[new_start:new_end], shortest))


def _normalized(text: str, shortest: int) -> set[str]:
    return {normalize(word) for word in _WORD.findall(text) if len(word) >= shortest}
