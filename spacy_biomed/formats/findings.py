"""What a pipeline found in a document: as plain rows, and as annotation tools have it."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..annotations.assertions import ASSERTIONS, get_assertions
from ..annotations.document_keys import ANSWER_KEY
from ..annotations.pairs import PAIR_KEY
from ..annotations.relation_layer import RELATIONS
from ..annotations.sections import SECTION, SECTIONS, get_section
from ..files.sources import Item

CONFIDENCE = "confidence"
# Extensions of entities that are a field where a component sets them, with their types.
ENTITY_FIELDS = {"code": "string", "code_name": "string", "code_confidence": "float32"}
# Extensions that are written as a field of their own.
_OWN_FIELDS = frozenset({CONFIDENCE, SECTION, *ASSERTIONS, *ENTITY_FIELDS})
# Characters of a file's name, without its ending.
_LONGEST_NAME = 150

# Plain values by field: what was found in a document, or an entity, a relation or an answer.
Row = dict[str, Any]


class Layers(NamedTuple):
    """The layers that a pipeline may write beside entities.

    Attributes:
        cats: classes, `doc.cats`.
        relations: `doc._.relations`.
        answers: `doc.spans["answer"]`.
        sections: `span._.section`.
        assertions: `span._.is_negated` and the others.
        fields: of `ENTITY_FIELDS`, those that entities have.
    """

    cats: bool
    relations: bool
    answers: bool
    sections: bool = False
    assertions: bool = False
    fields: tuple[str, ...] = ()


class AnnotatedDocument(NamedTuple):
    """A document with its number in the input, its row there, and what `describe` found."""

    number: int
    item: Item
    doc: Doc
    found: Row


class AnnotatedShard(NamedTuple):
    """What is written together.

    Attributes:
        documents: each can be read once.
        counts: what was counted, to which a format may add.
        name: of the shard, such as `part-00012`.
        pipeline: name and version of the pipeline.
        keep: columns of the input that are written.
        meanings: what labels mean (`fhir.read_meanings`).
        date: the day that the run began, such as "2026-01-31"; "" of formats without one.
    """

    documents: Iterable[AnnotatedDocument]
    layers: Layers
    counts: Counter[str]
    name: str = ""
    pipeline: str = ""
    keep: tuple[str, ...] = ()
    meanings: Mapping[str, Mapping[str, str]] = {}
    date: str = ""


def find_layers(nlp: Language) -> Layers:
    """The layers that the components of a pipeline declare."""
    metas = [nlp.get_pipe_meta(name) for name in nlp.pipe_names]
    assigned = {name for meta in metas for name in meta.assigns}
    return Layers(
        cats="doc.cats" in assigned,
        relations="doc._.relations" in assigned,
        answers=any(meta.factory == "biomed_qa" for meta in metas),
        sections=f"span._.{SECTION}" in assigned,
        assertions=f"span._.{ASSERTIONS[0]}" in assigned,
        fields=tuple(name for name in ENTITY_FIELDS if f"span._.{name}" in assigned),
    )


def describe(doc: Doc, layers: Layers) -> Row:
    """What was found in a document: `characters`, `words` and `entities`.

    `cats`, `relations` and `answers` are there where the pipeline has these layers. Offsets are in
    characters of the text.

    An entity has `start`, `end`, `text`, `label`, `group` (the key in `doc.spans`; None for
    `doc.ents`), `confidence` (None from components that give no probability) and `attributes`
    (strings by name: `id`, `kb_id` and the values of `span._`). Where the pipeline has these
    layers, it also has `section` (None outside of sections), `is_negated` and the other assertions
    (None where nobody looked), and the `fields`.
    """
    # spaCy keeps the values of extensions of spans, tokens and the document together.
    names = {key[1] for key in doc.user_data if isinstance(key, tuple) and key[0] == "._."}
    stored = sorted(names - _OWN_FIELDS)
    entities = [_describe_span(span, None, stored, layers) for span in doc.ents]
    others = {PAIR_KEY, *([ANSWER_KEY] * layers.answers), *([SECTIONS] * layers.sections)}
    for key in sorted(set(doc.spans) - others):
        entities += [_describe_span(span, key, stored, layers) for span in doc.spans[key]]
    found: Row = {"characters": len(doc.text), "words": len(doc), "entities": entities}
    if layers.cats:
        found["cats"] = {label: float(value) for label, value in sorted(doc.cats.items())}
    if layers.relations:
        relations = doc._.get(RELATIONS) if doc.has_extension(RELATIONS) else None
        found["relations"] = [
            {
                **_locate(head, "head_"),
                "head_label": head.label_,
                **_locate(tail, "tail_"),
                "tail_label": tail.label_,
                "label": label,
                CONFIDENCE: float(score),
            }
            for head, tail, label, score in relations or ()
        ]
    if layers.answers:
        answers: Iterable[Span] = doc.spans.get(ANSWER_KEY, ())
        found["answers"] = [
            {**_locate(span), "text": span.text, CONFIDENCE: _confidence(span)} for span in answers
        ]
    return found


def _describe_span(span: Span, group: str | None, stored: list[str], layers: Layers) -> Row:
    described = {
        **_locate(span),
        "text": span.text,
        "label": span.label_,
        "group": group,
        CONFIDENCE: _confidence(span),
        **{name: span._.get(name) for name in layers.fields},
        "attributes": _attributes(span, stored),
    }
    if layers.sections:
        described[SECTION] = get_section(span)
    if layers.assertions:
        described |= dict.fromkeys(ASSERTIONS) | get_assertions(span)
    return described


def _locate(span: Span, prefix: str = "") -> dict[str, int]:
    return {f"{prefix}start": span.start_char, f"{prefix}end": span.end_char}


def _confidence(span: Span) -> float | None:
    # spaCy's own components give no probability.
    value = span._.get(CONFIDENCE) if span.has_extension(CONFIDENCE) else None
    return None if value is None else float(value)


def _attributes(span: Span, stored: list[str]) -> dict[str, str]:
    """The values that components stored with a span; computed ones are left out."""
    attributes = {name: value for name in ("id", "kb_id") if (value := getattr(span, f"{name}_"))}
    for name in stored:
        is_stored = span.has_extension(name) and span.get_extension(name)[1:3] == (None, None)
        if is_stored and (shown := show_value(span._.get(name), is_ascii=True)) is not None:
            attributes[name] = shown
    return attributes


def show_value(value: object, is_ascii: bool = False) -> str | None:
    """A value as a string: text as it is, what JSON has as JSON, a date or the like as its text."""
    if value is None or isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=is_ascii, default=str)
    return str(value) if text.startswith('"') else text


def list_entities(found: Row) -> list[Row]:
    """The entities of `describe`, once where `doc.ents` and groups of spans have the same."""
    once: dict[tuple[int, int, str], Row] = {}
    for span in found["entities"]:
        once.setdefault((span["start"], span["end"], span["label"]), span)
    return list(once.values())


class FoundMention(NamedTuple):
    """A mention, at code points of the text.

    The first of a document has the number 1. `confidence` is None from components that give none;
    `attributes` has strings by name, also the section, and each assertion that is true.
    """

    number: int
    start: int
    end: int
    label: str
    confidence: float | None
    attributes: dict[str, str]


class FoundRelation(NamedTuple):
    """A relation between two of a document's mentions; the first has the number 1."""

    number: int
    label: str
    head: FoundMention
    tail: FoundMention
    confidence: float


def list_mentions(text: str, found: Row) -> tuple[list[FoundMention], list[FoundRelation]]:
    """List entities and answers, then other arguments of relations, and the relations.

    A mention that several groups of spans have is listed once. Mentions of white space alone, which
    no annotation tool has, are left out, with their relations. `found` is from `describe`.
    """
    mentions: dict[tuple[int, int, str], FoundMention] = {}

    def add(
        place: tuple[int, int, str], confidence: float | None, attributes: dict[str, str]
    ) -> FoundMention | None:
        if not text[slice(*place[:2])].strip():
            return None
        mention = FoundMention(len(mentions) + 1, *place, confidence, attributes)
        return mentions.setdefault(place, mention)

    for span in [*found["entities"], *found.get("answers", ())]:
        attributes = {
            **span.get("attributes", {}),
            **({SECTION: span[SECTION]} if span.get(SECTION) else {}),
            **{name: "true" for name in ASSERTIONS if span.get(name)},
            **{name: str(span[name]) for name in ENTITY_FIELDS if span.get(name) is not None},
        }
        place = (span["start"], span["end"], span.get("label", ANSWER_KEY))
        add(place, span["confidence"], attributes)
    relations: list[FoundRelation] = []
    for row in found.get("relations", ()):
        head, tail = (
            add((row[f"{end}_start"], row[f"{end}_end"], row[f"{end}_label"]), None, {})
            for end in ("head", "tail")
        )
        if head and tail:
            number, label = len(relations) + 1, row["label"]
            relations.append(FoundRelation(number, label, head, tail, row["confidence"]))
    return list(mentions.values()), relations


def find_lowest(mentions: Iterable[FoundMention]) -> float | None:
    """The lowest confidence of mentions; None if none has one."""
    given = (mention.confidence for mention in mentions if mention.confidence is not None)
    return min(given, default=None)


def pack_lines(rows: Iterable[object]) -> bytes:
    """Values as JSON lines."""
    lines = (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    return "".join(lines).encode()


def name_file(document: int, id: str, taken: set[str]) -> str:
    """A name for a document's file that is safe, visible and, also in another case, not taken.

    It has the number of the document if it is taken or too long. `taken` has names in lower case;
    the new one is added.
    """
    name = quote(id, safe=" ,;=@()[]+")
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{document}"
    while name.lower() in taken:
        name = f"{name}-{document}"
    taken.add(name.lower())
    return name
