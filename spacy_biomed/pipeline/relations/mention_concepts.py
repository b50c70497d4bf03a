"""Which mentions of a document mean the same: by their identifiers, or else by their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from spacy.tokens import Span

from ...annotations.abbreviations import find_abbreviations
from ...annotations.document_keys import NIL, split_ids

# The type of a mention, and the identifier or the simplified name of what it means.
Concept = tuple[str, str]

_NO_LETTERS = re.compile(r"[^\w]+|_+")


def find_concepts(text: str, mentions: Sequence[Span]) -> list[frozenset[Concept]]:
    """Find the concepts of each mention of a document.

    They are the identifiers in `span.kb_id_`, from the corpus or from a linker; there may be
    several with a `,`, `;` or `|` between. A mention without an identifier means what its name
    says, whatever its case, plural and hyphens; the long form of its name if the text defines it
    as an abbreviation. Mentions of different types never mean the same.
    """
    long_forms: dict[str, str] = {}
    for found in find_abbreviations(text):
        short = _simplify(text[found.short_start : found.short_end])
        long_forms.setdefault(short, _simplify(text[found.long_start : found.long_end]))
    return [_concepts_of(mention, long_forms) for mention in mentions]


def _concepts_of(mention: Span, long_forms: dict[str, str]) -> frozenset[Concept]:
    if mention.kb_id_ and mention.kb_id_ != NIL:
        return frozenset((mention.label_, id) for id in split_ids(mention.kb_id_))
    name = _simplify(mention.text)
    return frozenset({(mention.label_, long_forms.get(name, name))})


def _simplify(name: str) -> str:
    simple = _NO_LETTERS.sub("", name.lower()) or name
    return simple[:-1] if len(simple) > 4 and simple.endswith("s") else simple


def choose_meant(concepts: Sequence[frozenset[Concept]]) -> list[frozenset[Concept]]:
    """What each mention counts for: of several concepts, those that no mention has for itself.

    So "HNF1 and 4" counts for neither if both are mentioned elsewhere.
    """
    own = frozenset().union(*(found for found in concepts if len(found) == 1))
    return [found if len(found) == 1 else found - own for found in concepts]


def group_mentions(meant: Sequence[frozenset[Concept]]) -> dict[frozenset[Concept], list[int]]:
    """The places of mentions that mean the same, in the order of their first mentions.

    A mention for which nothing is meant does not count.
    """
    groups: dict[frozenset[Concept], list[int]] = defaultdict(list)
    for place, found in enumerate(meant):
        if found:
            groups[found].append(place)
    return dict(groups)
