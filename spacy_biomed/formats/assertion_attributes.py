"""What files say of mentions, by attributes of many names or by the scopes of cues."""

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from ..annotations.assertions import ASSERTIONS
from .documents import Document, Mention, Relation

TRUE, FALSE = "true", "false"

# Names and values of attributes, as `_simplify` gives them: those of brat's users in English and
# Spanish, of medspaCy, of i2b2 2010 and of i2b2 2012.
_WORDS = {
    "is_negated": "negation negated negative neg absent negacion negado negada negativo negativa",
    "is_uncertain": "uncertain uncertainty speculation speculated speculative possible probable "
    "incertidumbre incierto incierta posible sospecha",
    "is_historical": "historical history past historico historica pasado antecedente antecedentes",
    "is_hypothetical": "hypothetical conditional proposed hipotetico hipotetica condicional",
    "is_family": "family familial familiar associatedwithsomeoneelse",
}
_ASSERTIONS = {word: name for name, words in _WORDS.items() for word in words.split()}
# Words that are the names of sections too, and say nothing as a value.
_NAMES_ALONE = {"history", "family", "antecedente", "antecedentes", "familiar"}
# How values begin, as "not negated".
_DENIALS = ("false", "no", "0", "affirmed", "falso", "afirmad")
# Attributes that tell whose a finding is, and values that mean somebody else.
_WHOSE = ("experiencer", "subject", "sujeto")
_OTHERS = ("other", "someoneelse", "family", "otro", "familiar")
_SCOPES = {"Scope", "DiscScope"}
_CUE = "Marker"


def complete_assertions(documents: Sequence[Document]) -> None:
    """Give mentions the attributes "is_negated" and so on, "true" or "false", where known.

    An assertion is annotated for the labels of which some mention, in any part of the corpus, has
    it. Mentions of these labels without it have "false"; mentions of other labels do not change.
    """
    mentions = [one for document in documents for one in document.mentions or ()]
    found = [(one, list_said(one.attributes.items())) for one in mentions]
    annotated = {(mention.label, name) for mention, said in found for name in said}
    for mention, said in found:
        for name in ASSERTIONS:
            if (mention.label, name) in annotated:
                mention.attributes[name] = TRUE if name in said else FALSE


def list_said(attributes: Iterable[tuple[str, str]]) -> set[str]:
    """The assertions that attributes, by name and value, state.

    Either a name is that of an assertion ("Negation"), unless its value denies it, or a value is
    ("Certainty" "Possible"), or one of several single words ("Status" "Possible, Past").

    Examples:
        >>> sorted(list_said([("Negated", "true"), ("Certainty", "Possible"), ("History", "no")]))
        ['is_negated', 'is_uncertain']
    """
    said = set()
    for name, value in ((name, part) for name, whole in attributes for part in _split(whole)):
        name, value = _simplify(name), _simplify(value) or value.strip()
        if name in _ASSERTIONS:
            said |= set() if value.startswith(_DENIALS) else {_ASSERTIONS[name]}
        elif name in _WHOSE and value in _OTHERS:
            said.add("is_family")
        elif value in _ASSERTIONS.keys() - _NAMES_ALONE:
            said.add(_ASSERTIONS[value])
    return said


def _split(value: str) -> list[str]:
    """The words of a list; what people write in notes stays whole."""
    parts = re.split("[,;] ", value)
    return [value] if " " in "".join(parts) else parts


def _simplify(text: str) -> str:
    return re.sub(r"[^a-z]", "", normalize("NFKD", text.lower().removeprefix("is_")))


def read_assertions(mention: Mention) -> dict[str, float]:
    """What `complete_assertions` has set: 0 or 1 by the name of the assertion."""
    values = {name: mention.attributes.get(name) for name in ASSERTIONS}
    return {name: float(value == TRUE) for name, value in values.items() if value in (TRUE, FALSE)}


def mark_scopes(mentions: Iterable[Mention], relations: Iterable[Relation]) -> None:
    """Give the mentions inside the scopes of cues the attributes "is_negated" or "is_uncertain".

    A scope is a mention that "Scope" or "DiscScope" relates with a cue, in either direction. Cues
    have labels such as NegSynMarker and UncertLexMarker, as NUBes has them (Lima López et al. 2020,
    "NUBes: A Corpus of Negation and Uncertainty in Spanish Clinical Texts").
    """
    by_id = {one.id: one for one in mentions}
    for relation in relations:
        if relation.label not in _SCOPES:
            continue
        cue, scope = by_id[relation.head], by_id[relation.tail]
        if not cue.label.endswith(_CUE):
            cue, scope = scope, cue
        if cue.label.endswith(_CUE) and not scope.label.endswith(_CUE):
            name = "is_negated" if cue.label.startswith("Neg") else "is_uncertain"
            for one in by_id.values():
                is_inside = scope.start <= one.start and one.end <= scope.end
                if is_inside and not one.label.endswith(_CUE):
                    one.attributes[name] = TRUE
