"""The component `biomed_deidentify`: text without personal data."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import SimpleFrozenDict

from ..annotations.deidentified import DEIDENTIFIED, Replacement
from ..annotations.document_keys import DOCUMENT_ID
from ..deidentification.document_key import DocumentKey, derive_key
from ..deidentification.phi_kinds import EXAMPLES, identifying_labels, merge_kinds
from ..deidentification.plain_text import PlainText
from ..deidentification.term_lists import LANGUAGES
from ..errors import BiomedError, list_choices
from .deidentification_scores import score_deidentification
from .described import Described, ShownScores
from .encoder_head import check_least
from .factories import find_names, register_factory
from .mention_layer import get_confidence, list_finders

if TYPE_CHECKING:
    from ..deidentification.mentions import Mention

FACTORY = "biomed_deidentify"
# They find no names, so they do not make a pipeline one that de-identifies.
PATTERNS = "biomed_phi_patterns"
Mode = Literal["tags", "surrogates"]

SHORTEST_SECRET = 16
# Maximum number of labels named in a message.
_NAMED_LABELS = 8
# Names of which a recogniser is this sure stay as they are.
_SURE = 0.9
MAKE_SECRET = '`python -c "import secrets; print(secrets.token_hex())"`'


class BiomedDeidentifier(Described, Pipe):
    """Replace personal data with tags, or with surrogates that read like the original.

    It takes the mentions that a component before it found and sets `doc._.deidentified`: the new
    text, the replacements, and a mapping of offsets between both texts
    (`deidentified.Deidentified`). The Doc itself does not change. If no component has looked for
    mentions, `doc._.deidentified` is None. A pipeline that finds no known label of personal data is
    refused at the first text: one for chemicals would leave every name in place. The setting
    `kinds` declares the meaning of further labels.

    The kind of a label (`phi_kinds`) determines how its mentions are replaced. Mentions of an
    unknown label become tags, and mentions of the kind "keep" stay (a diagnosis). Overlapping
    mentions are replaced together, with the label of the longest. The same name gets the same
    surrogate within a document. All dates of a document are shifted by the same number of days.
    Phone numbers, identifiers, e-mail and web addresses keep their format. A mention without
    surrogate (a relative, a profession, a date that cannot be parsed) becomes a tag.

    A surrogate is drawn from all possible values, including the original, by a secret, the seed and
    the document. Anybody with all three can test guesses of the original. The secret is therefore
    never in a config or a file of a pipeline: it is read from an environment variable, or set with
    `set_secret`.

    Attributes:
        mode: "tags" or "surrogates".
        tag: format of a tag; {label} stands for the mention's label.
        spans_key: span group of the mentions; None for `doc.ents`.
        kinds: label to kind, for unknown labels and for known labels with a different treatment.
        propagate: whether to replace all other occurrences of a found name, place, institution,
            number or address in the document (`mentions.find_again`).
        extend: whether to correct the borders of mentions. A word of which a mention is a part is
            replaced wholly, with what joins it (`mentions.extend`, `mentions.bridge`). Ordinary
            words around a name, and what is on another line, stay (`mentions.refine`), but not in
            a name with a confidence of 0.9 or more.
        language: language of the surrogates, "en" or "es"; by default the pipeline's, else English.
        day_first: whether 12/03/2019 is the 12th of March; by default for every language except
            English.
        age_limit: ages from this value on become this value; lower ages stay. With 0 all ages
            become tags.
        seed: changes the surrogates.
        key_from: "text", or "document_id": documents with the same `doc.user_data["document_id"]`
            (of a patient) share surrogates and the shift of dates.
        secret_variable: environment variable with the secret; None for no secret, for texts that
            need no protection.
        nlp: the pipeline of the component; None to use it alone, without a check of the labels that
            others find.

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
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
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
        check_least(name, "age_limit", age_limit, 0)
        try:
            is_text = bool(tag.format(label="NAME"))
        except (LookupError, ValueError, AttributeError):
            is_text = False
        if not is_text:
            raise BiomedError(
                f'[components.{name}] tag = "{tag}": use a text in which only {{label}} is in '
                'braces, such as "[{label}]"'
            )

    def __call__(self, doc: Doc) -> Doc:
        """Set `doc._.deidentified`.

        It is a `BiomedError` if the pipeline finds no personal data, or if the mode is "surrogates"
        and the secret, or the document's identifier, is missing.
        """
        layer = self._layer(doc)
        if layer is not None:
            self.check_pipeline()
            text = doc.text
            plain = PlainText(text)
            mentions = self._find_mentions(plain, layer)
            key = self._document_key(doc, text) if self.mode == "surrogates" else None
            doc._.set(DEIDENTIFIED, self._replace(plain, mentions, key))
        return doc

    def score(self, examples: Iterable[Example], **kwargs: object) -> dict[str, Any]:
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

        If one does not declare its labels, an identifying label in the setting `kinds` is enough.

        Raises:
            BiomedError: if they find no such label, or a `biomed_ner` replaces what others found.
        """
        if self.nlp is None:
            return
        finders = list_finders(self.nlp, self, self.spans_key, without=PATTERNS)
        if finders.replaced:
            raise BiomedError(
                f"[components.{self.name}] what {', '.join(finders.replaced)} finds is replaced by "
                "the biomed_ner after it, and would stay in the text: put it behind the biomed_ner"
            )
        if not identifying_labels(finders.labels, self.kinds) and not (
            finders.are_silent and identifying_labels(self._own_kinds, self.kinds)
        ):
            more = len(finders.labels) - _NAMED_LABELS
            raise BiomedError(
                f"[components.{self.name}] what is before it "
                f"({', '.join(finders.names) or 'nothing'}) finds "
                f"{', '.join(finders.labels[:_NAMED_LABELS]) or 'no labels that it tells'}"
                f"{f' and {more} others' if more > 0 else ''}, and so nothing known as personal "
                f"data (such as {', '.join(EXAMPLES)}): names would stay in the text. Use a "
                "pipeline that finds them. If one of its labels means people's names, set "
                'kinds = {"MY_LABEL": "name"} (on the command line: --kind MY_LABEL=name)'
            )

    def make_key(self, scope: str) -> DocumentKey:
        """The key of all draws for a scope: a document, or documents that share surrogates.

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

    def _find_mentions(self, plain: PlainText, layer: Iterable[Span]) -> list[Mention]:
        """The disjoint mentions to replace, in text order."""
        # Every `spacy.load` imports this module, and compiling the rules takes a tenth of a second.
        from ..deidentification.mentions import Mention, find_again, merge_overlapping, refine

        spans = [span for span in layer if self.kind(span.label_) != "keep" and len(span)]
        given = [Mention(span.start_char, span.end_char, span.label_) for span in spans]
        found = [Mention(*plain.to_plain(one.start, one.end), one.label) for one in given]
        # Mentions whose borders nothing changes are replaced as they are, also invisible ones.
        places = {one: (old.start, old.end) for one, old in zip(found, given, strict=True)}
        kept = found
        if self._extend:
            kept = []
            unsure: list[Mention] = []
            for one, span in zip(found, spans, strict=True):
                if one.start < one.end:
                    is_sure = (
                        self.kind(one.label) == "name"
                        and (get_confidence(span) or 0) >= _SURE
                        and "\n" not in plain.text[one.start : one.end]
                    )
                    (kept if is_sure else unsure).append(one)
            kept += refine(plain, unsure, self.kind, self._language)
        if self._propagate:
            kept = kept + find_again(plain, kept, self.kind, self._language)
        if self._extend:
            kept = self._widen(plain.text, kept)
        return merge_overlapping(
            Mention(*(places.get(one) or plain.to_original(one.start, one.end)), one.label)
            for one in kept
        )

    def _widen(self, text: str, found: list[Mention]) -> list[Mention]:
        """Mentions with the rest of their words and what joins them."""
        from ..deidentification import mentions

        found = [mentions.extend(text, one, self.kind(one.label), self._language) for one in found]
        borders = mentions.merge_overlapping(found)
        named = [one for one in found if self.kind(one.label) in mentions.EXTENDED]
        found += [mentions.extend_to_capitals(text, one, borders, self._language) for one in named]
        for kind in mentions.BRIDGED:
            same = [one for one in found if self.kind(one.label) == kind]
            found += mentions.bridge(text, same, kind)
        return found

    def _replace(
        self, plain: PlainText, mentions: list[Mention], key: DocumentKey | None
    ) -> list[tuple[int, int, str, str]]:
        """The value to set as `doc._.deidentified`; without a key, all mentions become tags."""
        surrogates: list[str | None] = [None] * len(mentions)
        if key is not None:
            from ..deidentification.pattern_forms import find_form, stands_before
            from ..deidentification.surrogates import Surrogates

            birth = find_form("mentions", "birth")
            pairs, by_kind = [], defaultdict(list)
            for one in mentions:
                start, end = plain.to_plain(one.start, one.end)
                kind, original = self.kind(one.label), plain.lines[start:end]
                if kind == "date" and stands_before(birth, plain.text, start):
                    kind = "birth"
                pairs.append((kind, original))
                by_kind[kind].append(original)
            make = Surrogates(
                key,
                self._language,
                day_first=self._day_first,
                age_limit=self._age_limit,
                names=by_kind["name"],
                dates=by_kind["date"] if self._key_from == "text" else None,
                births=by_kind["birth"],
            )
            surrogates = [make(kind, original) for kind, original in pairs]
        return [
            (*mention, self._tag.format(label=mention.label) if new is None else new)
            for mention, new in zip(mentions, surrogates, strict=True)
        ]

    def _document_key(self, doc: Doc, text: str) -> DocumentKey:
        document: object = text
        if self._key_from == "document_id":
            document = doc.user_data.get(DOCUMENT_ID)
            if document is None:
                raise BiomedError(
                    f'[components.{self.name}] key_from = "document_id": a document has no '
                    f'doc.user_data["{DOCUMENT_ID}"]; set it, or use key_from = "text"'
                )
        return self.make_key(str(document))

    def _read_secret(self) -> bytes:
        variable = self._secret_variable
        if self._secret is not None or variable is None:
            return self._secret or b""
        if variable not in os.environ:
            raise BiomedError(
                "surrogates and keyed names need a secret, or others could compute the originals: "
                f"set the environment variable {variable} to what {MAKE_SECRET} prints, and keep it"
            )
        return self._check_secret(variable, os.environ[variable])

    def _check_secret(self, what: str, secret: str) -> bytes:
        if len(secret) < SHORTEST_SECRET:
            raise BiomedError(
                f"{what} has {len(secret)} characters, so it can be guessed: use at least "
                f"{SHORTEST_SECRET}, at random, such as {MAKE_SECRET} prints"
            )
        return derive_key(secret)


make_biomed_deidentify = register_factory(
    FACTORY,
    BiomedDeidentifier,
    {"scorer": {"@scorers": "spacy_biomed.deidentification_scorer.v1"}},
    assigns=["doc._.deidentified"],
    default_score_weights={"deid_r": None, "deid_clean_documents": None},
)


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
    names = find_names(nlp, FACTORY)
    if not names:
        return cast(BiomedDeidentifier, nlp.add_pipe(FACTORY, config=given))
    if given:
        own = nlp.config.interpolate()["components"][names[0]]
        settings = {**own, **given, "kinds": {**own["kinds"], **(kinds or {})}}
        del settings["factory"]
        nlp.replace_pipe(names[0], FACTORY, config=settings)
    return cast(BiomedDeidentifier, nlp.get_pipe(names[0]))
