"""What a de-identified text still shows of the mentions that people annotated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from spacy.tokens import Doc

from ..annotations.deidentified import Deidentified, Replacement
from ..corpora.gold import UNALIGNED_MENTIONS
from ..deidentification.term_lists import normalize, word_list
from ..errors import BiomedError

_WORD = re.compile(r"[^\W_]+")
_SHORTEST_WORD = 3
# Words that mentions share without telling anything: a surrogate may have them as well.
_GENERIC = ("address_words", "generic_words", "particles")


@dataclass(slots=True)
class Leakage:
    """Counts of the gold mentions of a label.

    Attributes:
        mentions: all of them.
        leaked: those of which something can be read in the new text at their place.
        kept: those that stay on purpose, as ages below the limit do; they do not count as leaked.
        by_chance: those whose surrogate was drawn with something of them; they do not count as
            leaked, since nobody can tell them from the others.
    """

    mentions: int = 0
    leaked: int = 0
    kept: int = 0
    by_chance: int = 0


@dataclass(slots=True)
class LeakageReport:
    """How much of a corpus leaked.

    Attributes:
        labels: label to its counts.
        documents: number of documents.
        leaking_documents: number of those with a mention that leaked.
    """

    labels: dict[str, Leakage] = field(default_factory=dict)
    documents: int = 0
    leaking_documents: int = 0

    @property
    def total(self) -> Leakage:
        """The counts of all labels together."""
        counts = self.labels.values()
        return Leakage(
            sum(one.mentions for one in counts),
            sum(one.leaked for one in counts),
            sum(one.kept for one in counts),
            sum(one.by_chance for one in counts),
        )


def is_never_drawn(replacement: Replacement) -> bool:
    """As it is where all replacements are tags."""
    return False


def measure_leakage(
    pairs: Iterable[tuple[Doc, Doc]],
    is_identifying: Callable[[str], bool] = lambda label: True,
    *,
    spans_key: str | None = None,
    is_drawn: Callable[[Replacement], bool] = is_never_drawn,
) -> LeakageReport:
    """Count the gold mentions of which something is left in the de-identified texts.

    A mention leaks if, where it was, the new text has one of its words of three letters or digits
    or more, in any case and with or without accents. A mention without such words leaks if all of
    its words are there, or any is where nothing was replaced. Words that surrogates share with what
    they replace and that tell nothing (Hospital, Calle, the label itself) count only where nothing
    was replaced.

    Args:
        pairs: the gold document, and the document with `doc._.deidentified`, of the same text.
        is_identifying: tells whether mentions of a label are to be removed at all.
        spans_key: span group of the gold mentions; None for `doc.ents`.
        is_drawn: tells whether a replacement was drawn from all that could stand there; what it
            shows of a mention it shows by chance.

    Raises:
        BiomedError: if a document was not de-identified, has another text than its gold, or no gold
            layer.
    """
    report = LeakageReport()
    for number, (gold, predicted) in enumerate(pairs, start=1):
        deidentified = predicted._.deidentified
        _check_pair(number, gold, predicted, spans_key)
        text, is_leaking = gold.text, False
        for mention in _gold_mentions(gold, spans_key):
            start, end, label = mention
            if not is_identifying(label):
                continue
            counts = report.labels.setdefault(label, Leakage())
            counts.mentions += 1
            if _is_kept(deidentified, text, mention, is_drawn):
                counts.kept += 1
            elif _leaks(deidentified, text, (start, end), is_drawn):
                counts.leaked += 1
                is_leaking = True
            elif _leaks(deidentified, text, (start, end), is_never_drawn):
                counts.by_chance += 1
        report.documents += 1
        report.leaking_documents += is_leaking
    return report


def _check_pair(number: int, gold: Doc, predicted: Doc, spans_key: str | None) -> None:
    """Documents are told by their number: a message must not quote what is to be hidden."""
    if predicted._.deidentified is None:
        raise BiomedError(
            f"document {number} was not de-identified: the pipeline needs biomed_deidentify, and "
            "before it a component that finds mentions"
        )
    if gold.text != predicted.text:
        raise BiomedError(
            f"document {number} is compared with another text: give both in the same order"
        )
    if spans_key is not None and spans_key not in gold.spans:
        raise BiomedError(
            f'document {number} has no gold mentions in doc.spans["{spans_key}"], but in '
            f"{', '.join(gold.spans) or 'no group'}: name the one that has them"
        )


def _gold_mentions(gold: Doc, spans_key: str | None) -> set[tuple[int, int, str]]:
    spans = gold.ents if spans_key is None else gold.spans[spans_key]
    mentions = {(span.start_char, span.end_char, span.label_) for span in spans}
    return mentions.union(gold._.get(UNALIGNED_MENTIONS))


def _is_kept(
    deidentified: Deidentified,
    text: str,
    gold: tuple[int, int, str],
    is_drawn: Callable[[Replacement], bool],
) -> bool:
    """Whether the mention was found, with its label, and stays on purpose."""
    start, end, label = gold
    return any(
        one.start <= start and end <= one.end and one.label == label
        for one in deidentified.replacements
        if one.text == text[one.start : one.end] and not is_drawn(one)
    )


def _leaks(
    deidentified: Deidentified,
    text: str,
    span: tuple[int, int],
    is_drawn: Callable[[Replacement], bool],
) -> bool:
    start, end = span
    has_long = any(len(word) >= _SHORTEST_WORD for word in _WORD.findall(text[start:end]))
    shortest = _SHORTEST_WORD if has_long else 1
    place = start
    for one in deidentified.replacements:
        if one.end <= start or end <= one.start:
            continue
        if _is_left(deidentified, (place, one.start), shortest):
            return True
        own = _telling(text[max(start, one.start) : min(end, one.end)], one.label, shortest)
        shown = own & _normalized(one.text, shortest)
        # A day of two digits may well stand for another one of the same number.
        if shown and (has_long or shown == own) and not is_drawn(one):
            return True
        place = one.end
    return _is_left(deidentified, (place, end), shortest)


def _is_left(deidentified: Deidentified, place: tuple[int, int], shortest: int) -> bool:
    """Whether a stretch that was not replaced has words; there is none where it ends first."""
    if place[0] >= place[1]:
        return False
    start, end = deidentified.span_to_new(*place)
    return bool(_normalized(deidentified.text[start:end], shortest))


def _telling(text: str, label: str, shortest: int) -> set[str]:
    words = _normalized(text, shortest) - _normalized(label, 1)
    return words.difference(*(word_list(name) for name in _GENERIC))


def _normalized(text: str, shortest: int) -> set[str]:
    return {normalize(word) for word in _WORD.findall(text) if len(word) >= shortest}
