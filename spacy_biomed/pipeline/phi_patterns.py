"""The component `biomed_phi_patterns`: personal data that has a form."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from operator import attrgetter
from typing import Literal

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import SimpleFrozenDict, filter_spans

from ..deidentification.phi_kinds import merge_kinds
from ..errors import BiomedError
from .described import Described
from .factories import register_factory
from .mention_layer import install_extensions, list_finders, write_mentions
from .notes import choose_language

FACTORY = "biomed_phi_patterns"


class PhiPatterns(Described, Pipe):
    """Find dates, addresses, telephones and identifiers by their form.

    It is a second pass, independent of any training. It finds addresses, telephones, dates, ages,
    and identifiers of Spain, the United States and Great Britain. It does not replace a recogniser,
    since it finds only known names and those after a title or the name of a field. A value that
    could be a harmless number has to pass a check, or a word such as "NHC" introduces it.

    The spans join the layer of mentions. Where a span lies within a mention, the mention stays. A
    span takes the place of a mention that is as long in three cases. The mention is of the kind
    "other", such as a sex. Or the span calls a number a date, or a name an address of mail.
    Mentions that it overlaps in part are joined with it to one, with the label of the longest part.
    A mention that is not personal data (of the kind "keep", such as a diagnosis) gives way to a
    span that overlaps it.

    If no component before it has looked for mentions, the other tokens of `doc.ents` are marked as
    missing, and `biomed_deidentify` refuses the document. A span group that is absent stays absent.

    Attributes:
        language: "en" or "es"; by default the pipeline's.
        spans_key: span group to add to; None for `doc.ents`.
        patterns: names of those to use; None for all (`deidentification.pattern_matches.PATTERNS`).
        labels: pattern to label. By default a label that the components before it find for the same
            kind of data, else a generic one such as DATE.
        kinds: label to kind, as in `biomed_deidentify`, to tell which mentions give way.
        nlp: the pipeline of the component; None to use it alone.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> patterns = nlp.add_pipe("biomed_phi_patterns")
        >>> doc = nlp("Seen on 2019-03-12 (BP 120/80), MRN 1234567.")
        >>> [(ent.text, ent.label_) for ent in doc.ents]
        [('2019-03-12', 'DATE'), ('1234567', 'ID')]
    """

    default_name, task_name = FACTORY, "patterns of personal data"
    usage_line = "print([(ent.text, ent.label_) for ent in doc.ents])"

    def __init__(
        self,
        name: str = FACTORY,
        *,
        language: Literal["en", "es"] | None = None,
        spans_key: str | None = None,
        patterns: list[str] | None = None,
        labels: dict[str, str] = SimpleFrozenDict(),
        kinds: dict[str, str] = SimpleFrozenDict(),
        nlp: Language | None = None,
    ):
        # Every `spacy.load` imports this module, and compiling the rules takes a tenth of a second.
        from ..deidentification.pattern_matches import PATTERNS, check_patterns

        install_extensions()
        self.name = name
        self.nlp = nlp
        self._language = choose_language(name, language, nlp)
        self.cfg = {"spans_key": spans_key}
        try:
            check_patterns([*(patterns or ()), *labels])
        except BiomedError as error:
            raise BiomedError(f"[components.{name}] {error}") from error
        self._patterns = list(PATTERNS if patterns is None else patterns)
        self._given = dict(labels)
        self._kinds = merge_kinds(name, kinds)

    def __call__(self, doc: Doc) -> Doc:
        """Add the spans to the layer of mentions."""
        from ..deidentification.pattern_matches import find_patterns

        labels = self._labels
        spans = [
            doc.char_span(start, end, labels[pattern], alignment_mode="expand")
            for start, end, pattern in find_patterns(doc.text, self._language)
            if pattern in labels
        ]
        found = [span for span in spans if span is not None]
        key = self.cfg["spans_key"]
        if key is None:
            is_looked_at = doc.has_annotation("ENT_IOB", require_complete=True)
            united = filter_spans(self._unite(doc, doc.ents, found))
            doc.set_ents(united, default="outside" if is_looked_at else "missing")
        elif key in doc.spans:
            write_mentions(doc, key, self._unite(doc, doc.spans[key], found))
        return doc

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the patterns that are used."""
        return tuple(sorted(set(self._labels.values())))

    @property
    def _labels(self) -> dict[str, str]:
        from ..deidentification.pattern_matches import choose_labels

        key = self.cfg["spans_key"]
        declared = () if self.nlp is None else list_finders(self.nlp, self, key).labels
        labels = choose_labels(declared, self._given)
        return {name: label for name, label in labels.items() if name in self._patterns}

    def _unite(self, doc: Doc, mentions: Iterable[Span], found: list[Span]) -> list[Span]:
        """The mentions and the found spans together; see the class."""
        others = sorted(mentions)
        longest = max(map(len, others), default=0)
        for span in found:
            # What meets it begins in this stretch.
            first = bisect_right(others, span.start - longest, key=_START)
            last = bisect_left(others, span.end, key=_START)
            near = others[first:last]
            met = [one for one in near if span.start < one.end]
            personal = [one for one in met if self._kinds.get(one.label_, "other") != "keep"]
            if any(self._has(one, span) for one in personal):
                continue
            parts = [span, *personal]
            start, end = min(one.start for one in parts), max(one.end for one in parts)
            united = Span(doc, start, end, max(parts, key=len).label)
            others[first:last] = [one for one in near if one.end <= span.start]
            insort(others, united, key=_START)
            longest = max(longest, len(united))
        return sorted(others)

    def _has(self, mention: Span, span: Span) -> bool:
        """Whether a span lies within a mention, and the mention's label says more of it."""
        if (mention.start, mention.end) == (span.start, span.end):
            kind, other = self._kinds.get(mention.label_), self._kinds.get(span.label_)
            is_date = other == "date" and kind in ("id", "phone", "age", "place")
            is_address = kind == "name" and other in ("phone", "email", "url")
            return not (kind == "other" or is_date or is_address)
        return mention.start <= span.start and span.end <= mention.end


_START = attrgetter("start")


make_biomed_phi_patterns = register_factory(FACTORY, PhiPatterns, assigns=["doc.ents", "doc.spans"])
