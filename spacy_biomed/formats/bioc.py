"""BioC (Comeau et al. 2013) as XML or JSON: collections of documents of passages."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import BiomedError, quote
from .documents import (
    Document,
    Mention,
    Offsets,
    Relation,
    list_concepts,
    list_files,
    parse_offset,
    read_text,
)
from .json_fields import get_covered, get_field, get_id, list_values, parse_json
from .repairs import is_new, leaving_out, locate_all
from .xml_elements import Element, read_xml

# Key of the documents in exports of PubTator's service.
PUBTATOR = "PubTator3"
# Key under which an object has its file and the line where it begins, for messages.
_WHERE = "\0where"
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_JSON_STRING = re.compile(r'"(?:[^"\\]+|\\.)*"')

# The parts of a document, and of a passage.
_UNITS = {"document": "passage", "passage": "sentence"}

# A document, passage, annotation or other part, as BioC's JSON has it.
_Part = dict[str, Any]


def read_bioc(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read BioC files (`.xml`, `.json`): one, or those in and below a folder.

    A document's text is its passages (or their sentences, if passages have no text) joined with
    spaces. Offsets in the file count from the offset of the passage, so gaps between passages do
    not matter, or from the passage itself, if the covered strings show that. An annotation's infon
    "type" is the label, its other infons are attributes; the values of infons with the same key are
    joined with semicolons. An annotation with several locations is a discontinuous mention; one
    without text and location is about the whole document and left out. A relation goes from its
    first node to each other node; without nodes, as in BC5CDR, it relates the concepts in its
    infons. Its label is the infon "type" or "relation". `relations` is None in the documents of a
    file without relations.

    The encoding that an XML file declares takes precedence over `encoding`.

    Raises:
        BiomedError: if a file is not BioC, two documents have one id (`is_new`), or an annotation
            lacks a type, lies beyond its passage or reads differently.
    """
    known: dict[str, int] = {}
    for file in list_files(Path(path), (".xml", ".json")):
        yield from _read_file(file, encoding, known)


def _read_file(path: Path, encoding: str, known: dict[str, int]) -> Iterator[Document]:
    if path.suffix.lower() == ".json":
        documents = _parse_json(read_text(path, encoding), path)
    else:
        collection = read_xml(path, encoding, "a BioC collection", "collection")
        documents = [_convert_unit(child) for child in collection.find("document")]
    if not documents:
        raise BiomedError(f"{path}: no document in this file; is it a BioC collection?")
    has_relations = any(_all_relations(document) for document in documents)
    for number, part in enumerate(documents, start=1):
        with leaving_out():
            document = _create_document(part, f"{path.stem}-{number}")
            if not has_relations:
                document.relations = None
            if not get_id(part, "id") or is_new(document, known):
                yield document


def _parts(part: _Part, key: str) -> list[_Part]:
    parts = part.get(key) or []
    if not isinstance(parts, list) or not all(isinstance(each, dict) for each in parts):
        raise BiomedError(f"{part[_WHERE]}: expected {key!r} to be a list of objects")
    return parts


def _all_relations(document: _Part) -> list[_Part]:
    passages = _parts(document, "passages")
    sentences = [one for passage in passages for one in _parts(passage, "sentences")]
    holders = [document, *passages, *sentences]
    return [relation for holder in holders for relation in _parts(holder, "relations")]


def _create_document(part: _Part, default_id: str) -> Document:
    id = get_id(part, "id") or default_id
    document = Document(id, "", [], [], source=part[_WHERE])
    if "passages" not in part:
        raise BiomedError(f"{document.source}: the document has no 'passages'; add them")
    for annotation in _parts(part, "annotations"):
        with leaving_out():
            raise BiomedError(
                f"{annotation[_WHERE]}: an annotation on a document; move it to its passage"
            )
    units: list[Offsets] = []
    are_sentences = True
    for passage in _parts(part, "passages"):
        sentences = _parts(passage, "sentences")
        if passage.get("text") or not sentences:
            are_sentences = False
            _add_text(document, passage, [passage, *sentences])
            continue
        units += [_add_text(document, sentence, [sentence]) for sentence in sentences]
        for annotation in _parts(passage, "annotations"):
            raise BiomedError(
                f"{annotation[_WHERE]}: an annotation on a passage whose text is in its "
                "sentences; move it to its sentence"
            )
    document.sentences = units if are_sentences else None
    _add_relations(document, _all_relations(part))
    return document


def _add_text(document: Document, unit: _Part, annotated: list[_Part]) -> Offsets:
    """Append a passage or sentence with its annotations, and return its place in the text."""
    text = get_field(unit, "text", str, unit[_WHERE]) if unit.get("text") else ""
    offset = _whole_number(unit, "offset")
    start, end = document.append(text)
    found = []
    for annotation in (one for part in annotated for one in _parts(part, "annotations")):
        with leaving_out():
            where, covered = annotation[_WHERE], get_covered(annotation, annotation[_WHERE])
            if locations := _parts(annotation, "locations"):
                found.append((_create_mention(annotation, locations, offset), covered, where))
            elif covered:
                raise BiomedError(
                    f"{where}: the annotation reads {quote(covered)} and has no locations; add them"
                )
    # Some programs count from the beginning of the passage.
    document.mentions.extend(one.move(start) for _, one in locate_all(text, found, (0, offset)))
    return start, end


def _whole_number(part: _Part, key: str) -> int:
    value = part.get(key)
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        return parse_offset(value.strip())
    return get_field(part, key, int, part[_WHERE])


def _infons(part: _Part) -> dict[str, str]:
    """The infons that are strings, numbers, or lists of these, as strings."""
    given = get_field(part, "infons", dict, part[_WHERE]) if part.get("infons") else {}
    shown = {key: list_values(value) for key, value in given.items() if key != _WHERE}
    return {key: "; ".join(values) for key, values in shown.items() if values}


def _create_mention(annotation: _Part, locations: list[_Part], offset: int) -> Mention:
    attributes = _infons(annotation)
    given = annotation.get("infons") or {}
    label = attributes.pop("type", "") if isinstance(given.get("type"), str) else ""
    if not label:
        raise BiomedError(
            f"{annotation[_WHERE]}: the annotation {quote(annotation.get('id'))} has no "
            f'type; add an infon with the key "type"'
        )
    fragments = []
    for location in locations:
        start = _whole_number(location, "offset") - offset
        fragments.append((start, start + _whole_number(location, "length")))
    return Mention(label, tuple(sorted(fragments)), get_id(annotation, "id"), attributes)


def _add_relations(document: Document, relations: list[_Part]) -> None:
    known = Counter(mention.id for mention in document.mentions)
    concepts = {name for mention in document.mentions for name in list_concepts(mention)}
    related: set[str] = set()
    for relation in relations:
        with leaving_out():
            infons = _infons(relation)
            labels = [infons.pop(key) for key in ("type", "relation") if key in infons]
            roles = _find_roles(relation)
            ids = [] if roles else _find_nodes(relation, known, document)
            if not ids:
                ids = roles or _find_concepts(infons, concepts)
                related.update(ids)
            if not labels or len(ids) < 2:
                raise BiomedError(
                    f'{relation[_WHERE]}: a relation needs an infon with the key "type" and two '
                    "nodes"
                )
            head, *tails = ids
            id = get_id(relation, "id")
            document.relations.extend(Relation(labels[0], head, tail, id) for tail in tails)
    # An annotation that is numbered as a related concept is another thing.
    document.mentions = [
        replace(one, id="") if one.id in related else one for one in document.mentions
    ]


def _find_nodes(relation: _Part, known: Counter[str], document: Document) -> list[str]:
    """Find the annotations that a relation names, each of which must be there once."""
    nodes = _parts(relation, "nodes")
    ids = [get_id(node, "refid") for node in nodes]
    for node, id in zip(nodes, ids, strict=True):
        if known[id] != 1:
            found = "are several annotations" if id in known else "is no annotation"
            raise BiomedError(
                f"{node[_WHERE]}: there {found} {quote(id)} in document "
                f"{quote(document.id)}; write the id of one annotation as refid"
            )
    return ids


def _find_roles(relation: _Part) -> list[str]:
    """Find the concepts that PubTator3 relates: infons that are objects, since nodes name none."""
    infons = relation.get("infons") or {}
    roles = (infons.get(key) for key in ("role1", "role2"))
    found = [get_id(role, "identifier") for role in roles if isinstance(role, dict)]
    return found if len(found) == 2 and all(found) else []


def _find_concepts(infons: dict[str, str], known: set[str]) -> list[str]:
    """Find the arguments of a relation without nodes.

    They are the values of infons that are concepts of mentions. Other values, such as BioRED's
    "novel", count only if fewer than two are concepts.
    """
    concepts = [value for value in infons.values() if value in known]
    return concepts if len(concepts) > 1 else list(infons.values())


def _parse_json(text: str, path: Path) -> list[_Part]:
    """The documents of a collection, of a list of collections or documents, or one document.

    A list may be JSON lines, with a document or a collection each.
    """
    advice = "is it a BioC collection?"
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1 and all(line.startswith("{") for _, line in lines):
        parsed: Any = [
            parse_json(line, f"{path}:{number}", advice, has_lines=False) for number, line in lines
        ]
    else:
        parsed = parse_json(text, str(path), advice)
    _add_places(parsed, text, path)
    documents: list[_Part] = []
    for one in parsed if isinstance(parsed, list) else [parsed]:
        if not isinstance(one, dict):
            raise BiomedError(f"{path}: {quote(one)} in place of a document; {advice}")
        if "passages" in one:
            documents.append(one)
        else:
            documents += _parts(one, PUBTATOR if PUBTATOR in one else "documents")
    return documents


def _add_places(parsed: Any, text: str, path: Path) -> None:
    """Store in each object where it begins. Objects have the order of their braces in the text."""
    lines = enumerate(_JSON_STRING.sub("", text).split("\n"), start=1)
    places = (f"{path}:{number}" for number, line in lines for _ in range(line.count("{")))
    waiting = [parsed]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            value[_WHERE] = next(places)
            value = [*value.values()]
        if isinstance(value, list):
            waiting += reversed(value)


def _convert_unit(element: Element) -> _Part:
    """Convert a document, a passage or a sentence, with the parts in it."""
    part = _UNITS.get(element.name)
    return {
        _WHERE: element.where,
        "id": element.text_of("id"),
        "offset": element.text_of("offset"),
        "text": _read_text(element),
        **({f"{part}s": [_convert_unit(child) for child in element.find(part)]} if part else {}),
        "annotations": [_convert_leaf(child) for child in element.find("annotation")],
        "relations": [_convert_leaf(child) for child in element.find("relation")],
    }


def _read_text(element: Element) -> str | None:
    """The text of a unit; raise BiomedError if a part of it would not be read."""
    texts = element.find("text")
    if len(texts) > 1 or any(text.children for text in texts):
        raise BiomedError(
            f"{texts[-1].where}: a second <text>, or one with elements in it; write one plain text"
        )
    return texts[0].text if texts else None


def _convert_leaf(element: Element) -> _Part:
    """Convert an annotation or a relation; an infon that is there again has several values."""
    infons: dict[str, str] = {}
    for child in element.find("infon"):
        key = child.attributes.get("key", "")
        infons[key] = f"{infons[key]}; {child.text}" if key in infons else child.text
    return {
        _WHERE: element.where,
        "id": element.attributes.get("id"),
        "infons": infons,
        "text": element.text_of("text"),
        "locations": [{_WHERE: at.where, **at.attributes} for at in element.find("location")],
        "nodes": [{_WHERE: node.where, **node.attributes} for node in element.find("node")],
    }
