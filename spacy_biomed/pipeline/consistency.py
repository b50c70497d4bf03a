"""The component `biomed_consistency`: entities that agree with each other within a document."""

from collections import defaultdict
from collections.abc import Iterator

from spacy.attrs import ORTH
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span

from ..annotations.abbreviations import abbreviate_binomial, find_abbreviations
from ..annotations.seen_mentions import mentions_of
from ..normalization import get_text
from . import mention_layer
from .described import Described
from .encoder_head import check_share
from .factories import register_factory

FACTORY = "biomed_consistency"

# Shorter texts would be repeated in too many places where they mean something else.
SHORTEST_REPEATED = 3

# A label, and its probability if that is known.
Meaning = tuple[str, float | None]


class _Words:
    """Where the words of spans occur again."""

    def __init__(self, doc: Doc):
        self._words: list[int] = doc.to_array(ORTH).tolist()
        self._places: dict[int, list[int]] = defaultdict(list)
        for place, word in enumerate(self._words):
            self._places[word].append(place)

    def group(self, spans: list[Span]) -> dict[tuple[int, ...], list[Span]]:
        """Spans with the same words, in the order of their first ones."""
        grouped: dict[tuple[int, ...], list[Span]] = defaultdict(list)
        for span in spans:
            grouped[tuple(self._words[span.start : span.end])].append(span)
        return grouped

    def find(self, span: Span) -> list[int]:
        """The first tokens of all places with the words of a span, the span's own among them."""
        wanted = self._words[span.start : span.end]
        starts, size = self._places[wanted[0]], len(wanted)
        return [start for start in starts if self._words[start : start + size] == wanted]


class BiomedConsistency(Described, Pipe):
    """Make the entities of a document agree: what has a label once has it everywhere.

    - Mentions with the same text get the same label: the one with the highest sum of
      probabilities.
    - An abbreviation that the text defines, as in "transient ischemic attack (TIA)", gets the label
      of its long form wherever it occurs, if a mention ends with the long form
      (`annotations.abbreviations`). "E. coli" gets the label of "Escherichia coli".
    - Other places with the words of a mention become mentions too, if the mention is probable
      enough, and if enough of the places were found.

    A place inside a longer mention stays as it is. Changed and added mentions have the probability
    of the mention that they follow.

    Attributes:
        spans_key: span group of the entities; None for `doc.ents`.
        least_confidence: smallest probability, 0 to 1, of a mention that is repeated. Mentions
            without a probability are repeated.
        least_share: smallest share, 0 to 1, of the places of a text that were found already.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> ruler = nlp.add_pipe("entity_ruler")
        >>> ruler.add_patterns([{"label": "DISEASE", "pattern": "ischemic attack"}])
        >>> consistency = nlp.add_pipe("biomed_consistency")
        >>> [ent.text for ent in nlp("An ischemic attack (IA). The IA passed.").ents]
        ['ischemic attack', 'IA', 'IA']
    """

    default_name = FACTORY

    def __init__(
        self,
        name: str = FACTORY,
        *,
        spans_key: str | None = None,
        least_confidence: float = 0.7,
        least_share: float = 0.25,
    ):
        check_share(name, "least_confidence", least_confidence)
        check_share(name, "least_share", least_share)
        mention_layer.install_extensions()
        self.name = name
        self._spans_key = spans_key
        self._least_confidence = least_confidence
        self._least_share = least_share

    def __call__(self, doc: Doc) -> Doc:
        """Change the entities of a document."""
        spans = mentions_of(doc, self._spans_key)
        if spans:
            words = _Words(doc)
            agreed = _agree(spans, words)
            agreed = mention_layer.insert_mentions(agreed, list(_defined(doc, agreed, words)))
            agreed = mention_layer.insert_mentions(agreed, list(self._repeated(agreed, words)))
            if agreed != spans:
                mention_layer.write_mentions(doc, self._spans_key, sorted(agreed))
        return doc

    def _repeated(self, spans: list[Span], words: _Words) -> Iterator[Span]:
        """The places with the words of a mention that are in no mention yet."""
        covered = mention_layer.covered_tokens(spans)
        for own in words.group(spans).values():
            starts = words.find(own[0])
            share = len(own) / len(starts)
            if share == 1.0 or share < self._least_share or len(own[0].text) < SHORTEST_REPEATED:
                continue
            best = max(own, key=_certainty)
            if _certainty(best) >= self._least_confidence:
                for start in starts:
                    end = start + len(own[0])
                    if covered.isdisjoint(range(start, end)):
                        yield _label(best.doc, start, end, _meaning(best))


make_biomed_consistency = register_factory(
    FACTORY,
    BiomedConsistency,
    assigns=["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type", "span._.confidence"],
)


def _meaning(span: Span) -> Meaning:
    return span.label_, mention_layer.get_confidence(span)


def _certainty(span: Span) -> float:
    """The probability; 1 where none is known, as from a ruler."""
    confidence = mention_layer.get_confidence(span)
    return 1.0 if confidence is None else confidence


def _label(doc: Doc, start: int, end: int, meaning: Meaning) -> Span:
    label, confidence = meaning
    span = Span(doc, start, end, label=label)
    mention_layer.set_confidence(span, confidence)
    return span


def _agree(spans: list[Span], words: _Words) -> list[Span]:
    """Give mentions with the same words the label with the highest sum of probabilities."""
    agreed = []
    changes = False
    for own in words.group(spans).values():
        by_label: dict[int, list[Span]] = defaultdict(list)
        for span in own:
            by_label[span.label].append(span)
        if len(by_label) > 1:
            changes = True
            chosen = max(by_label.values(), key=lambda alike: sum(map(_certainty, alike)))
            best = _meaning(max(chosen, key=_certainty))
            others = (span for span in own if span.label_ != best[0])
            own = chosen + [_label(one.doc, one.start, one.end, best) for one in others]
        agreed += own
    return sorted(agreed) if changes else spans


def _defined(doc: Doc, spans: list[Span], words: _Words) -> Iterator[Span]:
    """The places of abbreviations whose long form is a mention, or ends with one."""
    text = get_text(doc)
    meanings: dict[str, tuple[Span | None, Meaning]] = {}
    abbreviations = list(find_abbreviations(text))
    by_end = {span.end_char: span for span in spans} if abbreviations else {}
    for found in abbreviations:
        long = by_end.get(found.long_end)
        if long is not None:
            short = doc.char_span(found.short_start, found.short_end)
            meanings[text[found.short_start : found.short_end]] = (short, _meaning(long))
    for span in spans:
        name = abbreviate_binomial(text[span.start_char : span.end_char])
        if name is not None and name not in meanings:
            start = text.find(name)
            short = doc.char_span(start, start + len(name)) if start >= 0 else None
            meanings[name] = (short, _meaning(span))
    for short, meaning in meanings.values():
        if short is not None:
            for start in words.find(short):
                yield _label(doc, start, start + len(short), meaning)
