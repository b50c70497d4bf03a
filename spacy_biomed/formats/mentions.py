"""What was found in a document as annotation tools have it: mentions, relations and file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from ..annotations.assertions import ASSERTIONS
from ..annotations.document_keys import ANSWER_KEY
from ..annotations.sections import SECTION
from .findings import ENTITY_FIELDS, Row

# Characters of a file's name, without its ending.
_LONGEST_NAME = 150

_Place = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class FoundMention:
    """A mention.

    Attributes:
        number: 1 for the first of the document.
        start, end: in code points of the text.
        confidence: probability; None from components that give none.
        attributes: strings by name; also the section, and each assertion that is true.
    """

    number: int
    start: int
    end: int
    label: str
    confidence: float | None = None
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundRelation:
    """A relation between two of a document's mentions.

    Attributes:
        number: 1 for the first of the document.
    """

    number: int
    label: str
    head: FoundMention
    tail: FoundMention
    confidence: float


def list_mentions(text: str, found: Row) -> tuple[list[FoundMention], list[FoundRelation]]:
    """List entities and answers, then other arguments of relations, and the relations.

    A mention that several groups of spans have is listed once. Mentions of white space alone, which
    no annotation tool has, are left out, with their relations.

    Args:
        text: of the document.
        found: what was found in it (`findings.describe`).
    """
    mentions: dict[_Place, FoundMention] = {}

    def add(
        start: int,
        end: int,
        label: str,
        confidence: float | None = None,
        attributes: Mapping[str, str] = {},
    ) -> FoundMention | None:
        if not text[start:end].strip():
            return None
        mention = FoundMention(len(mentions) + 1, start, end, label, confidence, dict(attributes))
        return mentions.setdefault((start, end, label), mention)

    for span in [*found["entities"], *found.get("answers", ())]:
        label = span.get("label", ANSWER_KEY)
        fields = {name: str(span[name]) for name in ENTITY_FIELDS if span.get(name) is not None}
        attributes = {**_list_attributes(span), **fields}
        add(span["start"], span["end"], label, span["confidence"], attributes)
    relations: list[FoundRelation] = []
    for relation in found.get("relations", ()):
        head, tail = (
            add(*(relation[f"{end}_{key}"] for key in ("start", "end", "label")))
            for end in ("head", "tail")
        )
        if head and tail:
            relations.append(
                FoundRelation(
                    len(relations) + 1, relation["label"], head, tail, relation["confidence"]
                )
            )
    return list(mentions.values()), relations


def _list_attributes(span: Row) -> dict[str, str]:
    section = {SECTION: span[SECTION]} if span.get(SECTION) else {}
    assertions = {name: "true" for name in ASSERTIONS if span.get(name)}
    return {**span.get("attributes", {}), **section, **assertions}


class DocumentNames:
    """Gives each document of a folder a file name that is safe, visible and different."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def find(self, document: int, id: str) -> str:
        """A name, which no document before has, also in another case.

        Args:
            document: number of the document in the input, for a name that is taken or too long.
            id: of the document.
        """
        name = quote(id, safe=" ,;=@()[]+")
        name = f"%2E{name[1:]}" if name.startswith(".") else name
        if len(name) > _LONGEST_NAME or name.lower() in self._names:
            name = f"{name[:_LONGEST_NAME]}-{document}"
        self._names.add(name.lower())
        return name
