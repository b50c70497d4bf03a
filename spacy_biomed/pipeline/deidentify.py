"""The component `biomed_deidentify`: text without personal data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import SimpleFrozenDict

from ..annotations.deidentified import DEIDENTIFIED, Replacement
from ..corpora.gold import DOCUMENT_ID
from ..deidentification.document_key import DocumentKey, derive_key
from ..deidentification.phi_kinds import EXAMPLES, KINDS_OF_LABELS, identifying_labels, merge_kinds
from ..deidentification.surrogates import Surrogates
from ..deidentification.term_lists import LANGUAGES, WORD
from ..errors import BiomedError, list_choices
from .deidentification_scores import score_deidentification
from .described import Described, ShownScores
from .factories import register_factory
from .mention_finders import Finders, list_finders

FACTORY = "biomed_deidentify"
# They find no names, so they do not make a pipeline one that de-identifies.
PATTERNS = "biomed_phi_patterns"
Mode = Literal["tags", "surrogates"]

DEFAULT_CONFIG = """
[scorer]
@scorers = "spacy_biomed.deidentification_scorer.v1"
"""

# Shorter names would match in too many places.
SHORTEST_PROPAGATED = 3
FEWEST_DIGITS = 5
SHORTEST_PART = 4
SHORTEST_SECRET = 16
# Kinds whose mentions are searched elsewhere in the document, and kinds that get initials.
PROPAGATED = frozenset({"name", "phone", "id", "place", "institution", "email", "url"})
EXTENDED = frozenset({"name", "place", "institution"})
# Kinds of which two mentions with only particles between them are one ("3 años y 8 meses").
BRIDGED = ("age", "place", "institution", "profession", "other")
_PARTICLES = r"de|del|la|las|el|los|en|su|sus|para|con|of|the"
_JOINING = re.compile(rf"[ .,]*(?:(?:{_PARTICLES})[ .,]+){{1,3}}", re.IGNORECASE)
_JOINING_AGES = re.compile(rf"[ .,]*(?:(?:{_PARTICLES}|y|and)[ .,]+){{1,3}}", re.IGNORECASE)

# An initial or an abbreviation of capitals, a number of a door or floor, the acronym of an
# institution. "A", "E", "I", "O" and "Y" may be words.
_INITIAL = r"(?:(?:[A-Z]\.){2,}|(?:[B-DF-HJ-NP-XZ]|[A-Z](?=\.\s?[A-Z]\b))(?!\w))"
_JOINED_BEFORE = re.compile(rf"(?<!\w)(?:{_INITIAL}\.?[ ]?)+$")
_INITIALS_AFTER = re.compile(rf"(?:[ .,-]{{1,2}}{_INITIAL})+")
_JOINED_AFTER = re.compile(
    rf"(?:[ .,-]{{1,2}}{_INITIAL}"
    r"|[ .,-]{1,2}\d{1,2}\s?[ºª]?[ ]?[A-Z]?(?![\w/%]|[.,]\d|\.?[ ]?[a-z])"
    r"|[ ]\(?[A-Z]{2,10}\)?(?=[\s.,;)]|$))+"
)
# Other words of a name in capitals: those after it, and, in a sentence, those before it.
# Departments and the names of what follows in an address are none.
_CAPITALISED = (
    r"(?!(?:Servicio|Departamento|Dpto|Secci[óo]n|Unidad|[ÁA]rea|Doctora?|Correo|Tel[ée]fono|Tfno"
    r"|Department|Division|Section|Unit|Doctor|E-?mail|Fax|Phone|Tel"
    r"|Aparato|Cirug[íi]a|Cuidados|Medicina|Medicine|Nutrici[óo]n|Surgery"
    r"|\w+(?:log[íi]a|iatr[íi]a|ology|iatrics))\b)[A-ZÀ-ÖØ-Þ][\w'’-]+"
)
_CAPITALS_AFTER = re.compile(rf"(?:[ ](?:(?:de|del|la|las|los)[ ]){{0,2}}{_CAPITALISED})+")
_CAPITALS_BEFORE = re.compile(rf"(?<=[a-zß-öø-ÿ,][ ])(?:{_CAPITALISED}[ ])+$")
# Characters before a mention that are looked at.
_FARTHEST = 40
# Maximum number of labels named in a message.
_NAMED_LABELS = 8
MAKE_SECRET = '`python -c "import secrets; print(secrets.token_hex())"`'


class Mention(NamedTuple):
    """A span of text to replace, in characters, end exclusive."""

    start: int
    end: int
    label: str


class BiomedDeidentifier(Described, Pipe):
    """Replace personal data with tags, or with surrogates that read like the original.

    It takes the mentions that a component before it found and sets `doc._.deidentified`: the new
    text, the replacements, and a mapping of offsets between both texts
    (`deidentified.Deidentified`). The Doc itself does not change. If the layer of the mentions is
    absent, `doc._.deidentified` is None: no component has looked for mentions, so the text must not
    pass as de-identified. For the same reason, a pipeline that finds no known label of personal
    data is refused at the first text: a pipeline for chemicals would leave every name in place. The
    setting `kinds` declares the meaning of further labels, also if a component does not declare its
    labels.

    The kind of a label (`phi_kinds`) determines how its mentions are replaced. Mentions of an
    unknown label become tags, and mentions of the kind "keep" stay (a diagnosis). Overlapping
    mentions are replaced together, with the label of the longest. The same name gets the same
    surrogate within a document. All dates of a document are shifted by the same number of days.
    Phone numbers, identifiers, e-mail and web addresses keep their format. A mention without
    surrogate (a relative, a profession, a date that cannot be parsed) becomes a tag.

    A surrogate is drawn from all possible values, including the original: otherwise the original
    would be recognised over many documents as the value that never occurs. The draw depends on a
    secret, the seed and the document. Anybody with all three can test guesses of the original. The
    secret is therefore never in a config or a file of a pipeline: it is read from an environment
    variable, or set with `set_secret`.

    Attributes:
        name: name of the component in the pipeline.
        mode: "tags" or "surrogates".
        tag: format of a tag; {label} stands for the mention's label.
        spans_key: span group of the mentions; None for `doc.ents`.
        kinds: label to kind, for unknown labels and for known labels with a different treatment.
        propagate: whether to replace all other occurrences of a found name, place, institution,
            number or address in the document: the same letters as whole words, at least three
            letters or five digits; of a name of several words also each capitalised word of it with
            at least four letters.
        extend: whether to replace a word wholly of which a mention is a part, and the initials,
            numbers and abbreviations that join a name, a place or an institution ("H. U.", "4º L",
            "S.A."), and the particles between two mentions of one label ("3 años y 8 meses").
        language: language of the surrogates, "en" or "es"; by default the pipeline's, else English.
        day_first: whether 12/03/2019 is the 12th of March; by default for every language except
            English.
        age_limit: ages from this value on become this value; lower ages stay. With 0 all ages
            become tags.
        seed: changes the surrogates.
        key_from: "text", or "document_id": the surrogates depend on `doc.user_data["document_id"]`,
            so that documents with the same identifier (of a patient) share surrogates and the
            shift of dates.
        secret_variable: environment variable with the secret; None for no secret, for texts that
            need no protection.
        scorer: scoring method.
        nlp: the pipeline of the component; None to use the component alone, without a check of the
            labels that other components find.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> ruler = nlp.add_pipe("entity_ruler")
        >>> ruler.add_patterns([{"label": "PATIENT", "pattern": "Mary Smith"}])
        >>> deidentify = nlp.add_pipe("biomed_deidentify")
        >>> doc = nlp("Mary Smith, 40, has asthma.")
        >>> doc._.deidentified.text
        '[PATIENT], 40, has asthma.'
        >>> doc._.deidentified.replacements[0]
        Replacement(start=0, end=10, new_start=0, new_end=9, label='PATIENT', text='[PATIENT]')
    """

    default_name, task_name = FACTORY, "de-identification"
    usage_line = "print(doc._.deidentified.text)"

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, Any]) -> ShownScores:
        return ShownScores(
            averages={"mentions replaced": "deid"},
            numbers={
                "documents wholly clean": "deid_clean_documents",
                "characters of mentions left readable": "deid_readable_characters",
                "characters replaced needlessly": "deid_needless_characters",
            },
            per_type="deid_per_type",
        )

    def __init__(
        self,
        name: str = FACTORY,
        *,
        mode: Mode = "tags",
        tag: str = "[{label}]",
        spans_key: str | None = None,
        kinds: dict[str, str] = SimpleFrozenDict(),
        propagate: bool = True,
        extend: bool = True,
        language: Literal["en", "es"] | None = None,
        day_first: bool | None = None,
        age_limit: int = 90,
        seed: int = 0,
        key_from: Literal["text", "document_id"] = "text",
        secret_variable: str | None = "SPACY_BIOMED_SECRET",
        scorer: Callable | None = score_deidentification,
        nlp: Language | None = None,
    ):
        self.name = name
        self.nlp = nlp
        self.kinds = merge_kinds(name, kinds)
        self._own_kinds = list(kinds)
        self.mode: Mode = mode
        self._tag = tag
        self.spans_key = spans_key
        self._propagate = propagate
        self._extend = extend
        spoken = nlp.lang if nlp is not None and nlp.lang in LANGUAGES else "en"
        self._language: str = language or spoken
        self._day_first = self._language != "en" if day_first is None else day_first
        self._age_limit = age_limit
        self._seed = seed
        self._key_from = key_from
        self._secret_variable = secret_variable
        self.scorer = scorer
        self._secret: bytes | None = None
        # Components of the pipeline when it was last looked at.
        self._checked: list[str] = []
        self._check_settings()

    def __call__(self, doc: Doc) -> Doc:
        """Set `doc._.deidentified`.

        Raises:
            BiomedError: if the pipeline finds no personal data, or if the mode is "surrogates" and
                the secret, or the document's identifier, is missing.
        """
        layer = self._layer(doc)
        if layer is not None:
            self.check_pipeline()
            text = doc.text
            mentions = self._find_mentions(text, layer)
            key = self._document_key(doc, text) if self.mode == "surrogates" else None
            doc._.set(DEIDENTIFIED, self._replace(text, mentions, key))
        return doc

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score de-identified documents; see `score_deidentification`."""
        if self.scorer is None:
            return {}
        return self.scorer(
            examples,
            is_identifying=lambda label: self.kind(label) != "keep",
            spans_key=self.spans_key,
            **kwargs,
        )

    def set_secret(self, secret: str) -> None:
        """Use this secret instead of the environment variable's; it is not saved.

        Raises:
            BiomedError: if it is too short.
        """
        self._secret = self._check_secret("the secret", secret)

    def check_pipeline(self) -> None:
        """Check that the components before this one find labels of personal data.

        If a component does not declare its labels, an identifying label in the setting `kinds` is
        enough.

        Raises:
            BiomedError: if they find no such label.
        """
        if self.nlp is None or self.nlp.pipe_names == self._checked:
            return
        finders = list_finders(self.nlp, self, self.spans_key, without=PATTERNS)
        if not identifying_labels(finders.labels, self.kinds) and not (
            finders.are_silent and identifying_labels(self._own_kinds, self.kinds)
        ):
            raise BiomedError(self._explain_labels(finders))
        self._checked = self.nlp.pipe_names

    def make_key(self, scope: str) -> DocumentKey:
        """The key of all draws for a scope: a document, or documents that share surrogates.

        Args:
            scope: text or identifier.

        Raises:
            BiomedError: if there is no secret, or it is too short.
        """
        return DocumentKey(self._read_secret(), self._seed, scope)

    def kind(self, label: str) -> str:
        """The kind of a label, which determines how its mentions are replaced."""
        return self.kinds.get(label, "other")

    def is_drawn(self, replacement: Replacement) -> bool:
        """Whether a replacement was drawn at random: it is neither a tag nor an age."""
        tag = self._tag.format(label=replacement.label)
        return replacement.text != tag and self.kind(replacement.label) != "age"

    def _layer(self, doc: Doc) -> Iterable[Span] | None:
        """The spans of the mentions; None if no component has looked for any."""
        if self.spans_key is not None:
            return doc.spans.get(self.spans_key)
        # A text without words never has this annotation.
        # One of patterns alone leaves the other tokens missing: nobody has looked for names.
        is_complete = doc.has_annotation("ENT_IOB", require_complete=True)
        return doc.ents if is_complete or not doc.text.strip() else None

    def _find_mentions(self, text: str, layer: Iterable[Span]) -> list[Mention]:
        """The disjoint mentions to replace, in text order."""
        found = [Mention(span.start_char, span.end_char, span.label_) for span in layer]
        found = [one for one in found if self.kind(one.label) != "keep" and one.start < one.end]
        if self._propagate:
            found += find_again(text, [one for one in found if self.kind(one.label) in PROPAGATED])
            names = [one for one in found if self.kind(one.label) == "name"]
            found += find_again(text, split_names(text, names))
        if self._extend:
            found = [extend(text, one, self.kind(one.label)) for one in found]
            borders = merge_overlapping(found)
            named = [one for one in found if self.kind(one.label) in EXTENDED]
            found += [extend_to_capitals(text, one, borders) for one in named]
            for kind in BRIDGED:
                found += bridge(text, [one for one in found if self.kind(one.label) == kind], kind)
        return merge_overlapping(found)

    def _replace(
        self, text: str, mentions: list[Mention], key: DocumentKey | None
    ) -> list[tuple[int, int, str, str]]:
        """The value to set as `doc._.deidentified`; without a key, all mentions become tags."""
        kinds = [self.kind(one.label) for one in mentions]
        originals = [text[one.start : one.end] for one in mentions]
        surrogates: list[str | None] = [None] * len(mentions)
        if key is not None:
            pairs = list(zip(kinds, originals, strict=True))
            has_shift_per_text = self._key_from == "text"
            make = Surrogates(
                key,
                self._language,
                day_first=self._day_first,
                age_limit=self._age_limit,
                names=[one for kind, one in pairs if kind == "name"],
                dates=[one for kind, one in pairs if kind == "date"]
                if has_shift_per_text
                else None,
            )
            surrogates = [make(kind, one) for kind, one in pairs]
        return [
            (*mention, self._tag.format(label=mention.label) if new is None else new)
            for mention, new in zip(mentions, surrogates, strict=True)
        ]

    def _document_key(self, doc: Doc, text: str) -> DocumentKey:
        document: Any = text
        if self._key_from == "document_id":
            document = doc.user_data.get(DOCUMENT_ID)
            if document is None:
                raise BiomedError(
                    f'[components.{self.name}] key_from = "document_id": a document has no '
                    f'doc.user_data["{DOCUMENT_ID}"]; set it, or use key_from = "text"'
                )
        return self.make_key(str(document))

    def _read_secret(self) -> bytes:
        if self._secret is not None:
            return self._secret
        if self._secret_variable is None:
            return b""
        secret = os.environ.get(self._secret_variable)
        if secret is None:
            raise BiomedError(
                "surrogates and keyed names need a secret, or others could compute the originals: "
                f"set the environment variable {self._secret_variable} to what {MAKE_SECRET} "
                "prints, and keep it"
            )
        return self._check_secret(self._secret_variable, secret)

    def _check_secret(self, what: str, secret: str) -> bytes:
        if len(secret) < SHORTEST_SECRET:
            raise BiomedError(
                f"{what} has {len(secret)} characters, so it can be guessed: use at least "
                f"{SHORTEST_SECRET}, at random, such as {MAKE_SECRET} prints"
            )
        return derive_key(secret)

    def _explain_labels(self, finders: Finders) -> str:
        names, labels, _ = finders
        found = "no component before it tells what it finds"
        if labels:
            found = f"what is before it ({', '.join(names)}) finds "
            found += ", ".join(labels[:_NAMED_LABELS])
        if len(labels) > _NAMED_LABELS:
            found += f" and {len(labels) - _NAMED_LABELS} others"
        known = len(identifying_labels(KINDS_OF_LABELS, self.kinds)) - len(EXAMPLES)
        return (
            f"[components.{self.name}] {found}, and so nothing known as personal data (as "
            f"{', '.join(EXAMPLES)} and {known} others are), so names would stay in the text: use "
            "a pipeline that finds them or, if one of its labels means people's names, set "
            'kinds = {"MY_LABEL": "name"} (on the command line: --kind MY_LABEL=name)'
        )

    def _check_settings(self) -> None:
        place = f"[components.{self.name}]"
        try:
            is_empty = not self._tag.format(label="NAME")
        except (LookupError, ValueError, AttributeError) as error:
            raise BiomedError(
                f'{place} tag = "{self._tag}": only {{label}} can be in braces'
            ) from error
        if is_empty:
            raise BiomedError(f'{place} tag = "": use a text, such as "[{{label}}]"')
        if self._age_limit < 0:
            raise BiomedError(f"{place} age_limit = {self._age_limit}: use 0 or more")


make_biomed_deidentify = register_factory(
    FACTORY,
    BiomedDeidentifier,
    DEFAULT_CONFIG,
    assigns=["doc._.deidentified"],
    default_score_weights={"deid_r": None, "deid_clean_documents": None},
)


def find_again(text: str, names: Iterable[Mention]) -> list[Mention]:
    """Find all other exact occurrences of found mentions in a text, as whole words."""
    labels = {text[one.start : one.end]: one.label for one in names}
    found = []
    for name, label in labels.items():
        digits = sum(map(str.isdigit, name))
        if sum(map(str.isalpha, name)) < SHORTEST_PROPAGATED and digits < FEWEST_DIGITS:
            continue
        start = text.find(name)
        while start >= 0:
            end = start + len(name)
            if not (_is_within_word(text, start) or _is_within_word(text, end)):
                found.append(Mention(start, end, label))
            start = text.find(name, start + 1)
    return found


def split_names(text: str, names: Iterable[Mention]) -> list[Mention]:
    """The capitalised words of names that have several, if they are long enough to be searched."""
    return [
        Mention(one.start + word.start(), one.start + word.end(), one.label)
        for one in names
        for word in WORD.finditer(text[one.start : one.end])
        if len(word[0]) >= SHORTEST_PART
        and word[0][0].isupper()
        and word[0] != text[one.start : one.end]
    ]


def extend(text: str, mention: Mention, kind: str) -> Mention:
    """A mention with the rest of its first and last word, and what joins it by its form.

    A place or an institution gets the initials, numbers and abbreviations beside it: they are
    rarely anything else, and telling when they are left. A name gets initials; a number after it
    may be an age.
    """
    start, end = mention.start, mention.end
    while start > 0 and _is_within_word(text, start):
        start -= 1
    while end < len(text) and _is_within_word(text, end):
        end += 1
    if kind in EXTENDED:
        before = _JOINED_BEFORE.search(text[max(start - _FARTHEST, 0) : start])
        after = (_INITIALS_AFTER if kind == "name" else _JOINED_AFTER).match(text, end)
        start -= len(before[0]) if before else 0
        end = after.end() if after else end
    return Mention(start, end, mention.label)


def extend_to_capitals(text: str, mention: Mention, others: Sequence[Mention]) -> Mention:
    """A mention with the capitalised words beside it that are in no other mention.

    Of a name, place or institution that was found in part they are the rest.

    Args:
        others: disjoint mentions in text order, this one among them or within one of them.
    """
    first = max((one.end for one in others if one.end <= mention.start), default=0)
    last = min((one.start for one in others if one.start >= mention.end), default=len(text))
    before = _CAPITALS_BEFORE.search(text, max(mention.start - _FARTHEST, first), mention.start)
    after = _CAPITALS_AFTER.match(text, mention.end, last)
    start = before.start() if before else mention.start
    return Mention(start, after.end() if after else mention.end, mention.label)


def bridge(text: str, mentions: Iterable[Mention], kind: str) -> list[Mention]:
    """The gaps between neighbouring mentions of one label that consist of particles, with both."""
    joining = _JOINING_AGES if kind == "age" else _JOINING
    found = []
    last: Mention | None = None
    for one in merge_overlapping(mentions):
        if (
            last is not None
            and last.label == one.label
            and joining.fullmatch(text, last.end, one.start)
        ):
            found.append(Mention(last.start, one.end, one.label))
        last = one
    return found


def _is_within_word(text: str, offset: int) -> bool:
    around = text[max(offset - 1, 0) : offset + 1]
    return len(around) == 2 and around.isalnum()


def merge_overlapping(mentions: Iterable[Mention]) -> list[Mention]:
    """Merge mentions that share characters, from the first start to the last end.

    A merged mention has the label of the longest; if several are equally long, of the first.

    Returns:
        disjoint mentions, in text order.
    """
    merged: list[Mention] = []
    length = 0
    for one in sorted(mentions, key=lambda one: (one.start, -one.end)):
        if merged and one.start < merged[-1].end:
            last = merged[-1]
            label = one.label if one.end - one.start > length else last.label
            length = max(length, one.end - one.start)
            merged[-1] = Mention(last.start, max(last.end, one.end), label)
        else:
            merged.append(one)
            length = one.end - one.start
    return merged


def add_deidentifier(
    nlp: Language,
    mode: str | None = None,
    key_from: str | None = None,
    kinds: dict[str, str] | None = None,
) -> BiomedDeidentifier:
    """Return the pipeline's `biomed_deidentify`; if there is none, add it at the end.

    An existing component is replaced by a new one if a setting is given.

    Args:
        mode, key_from: settings to change, if not None.
        kinds: label to kind, added to the component's, if not None.

    Raises:
        BiomedError: if there is no such mode or kind.
    """
    if mode not in (None, *get_args(Mode)):
        raise BiomedError(f"mode {mode}: {list_choices(str(mode), get_args(Mode))}")
    given = {"mode": mode, "key_from": key_from, "kinds": kinds or None}
    given = {name: value for name, value in given.items() if value is not None}
    names = _find(nlp)
    if not names:
        return cast(BiomedDeidentifier, nlp.add_pipe(FACTORY, config=given))
    if given:
        own = nlp.config.interpolate()["components"][names[0]]
        settings = {**own, **given, "kinds": {**own["kinds"], **(kinds or {})}}
        del settings["factory"]
        nlp.replace_pipe(names[0], FACTORY, config=settings)
    return cast(BiomedDeidentifier, nlp.get_pipe(names[0]))


def find_deidentifier(nlp: Language) -> BiomedDeidentifier:
    """The `biomed_deidentify` of a pipeline that has one."""
    return cast(BiomedDeidentifier, nlp.get_pipe(_find(nlp)[0]))


def _find(nlp: Language) -> list[str]:
    return [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == FACTORY]
