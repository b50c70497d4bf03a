"""The DDI corpus (Herrero-Zazo et al. 2013): an XML file per document, a tag per sentence."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ..errors import BiomedError, escape, quote
from . import documents
from .documents import Document, Mention, Relation
from .repairs import keep_sound, leaving_out, locate
from .xml_elements import Element, read_xml

# The guidelines' type of an interaction that is not described further.
UNSPECIFIED = "int"

# Tags that relate two entities: all pairs of a sentence, or only pairs that interact.
PAIR, INTERACTION = "pair", "ddi"

_OFFSETS = re.compile(r"\d+-\d+(?:;\d+-\d+)*")


def read_ddi(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read the `.xml` files: one, or those below a folder.

    The text is the document's sentences, without white space around them, joined with spaces;
    `sentences` has their offsets. Entities become mentions. Offsets in the file include the last
    character, and several (`0-4;12-19`) are fragments. Each `<pair>` with `ddi="true"` becomes a
    relation with its type as label, from its first entity to its second. So does each `<ddi>`,
    which the files of the 2013 task have instead of pairs. Without a type the label is "int". Files
    of the 2011 task, with `interaction="true"` and offsets after the last character, are read too.

    Raises:
        BiomedError: if a file is not such XML, an entity lies beyond its sentence or reads
            differently, or a pair has an unknown entity.
    """
    for file in documents.list_files(Path(path), (".xml",)):
        with leaving_out():
            root = read_xml(file, encoding, "a document of the DDI corpus", "document")
            yield _create_document(root)


def _create_document(root: Element) -> Document:
    document = Document(root.get("id"), "", [], [], sentences=[], source=root.where)
    for sentence in root.find("sentence"):
        text = sentence.attributes.get("text", "")
        stripped = text.strip()
        if not stripped:
            continue
        offsets = document.append(stripped)
        document.sentences.append(offsets)
        shift = offsets[0] - text.index(stripped)
        entities = sentence.find("entity")
        mentions = list(keep_sound(partial(_create_mention, text=text), entities))
        document.mentions.extend(mention.move(shift) for mention in mentions)
        known = {mention.id: mention for mention in mentions}
        pairs = [one for one in sentence.children if one.name in (PAIR, INTERACTION)]
        relations = keep_sound(partial(_create_relation, known=known), pairs)
        document.relations.extend(filter(None, relations))
    return document


def _create_mention(entity: Element, text: str) -> Mention:
    """Create a mention at offsets in its sentence."""
    offsets = entity.get("charOffset")
    if _OFFSETS.fullmatch(offsets) is None:
        raise BiomedError(
            f'{entity.where}: charOffset="{escape(offsets)}" is malformed; write it as "0-4" or '
            f'"0-4;12-19"'
        )
    fragments = sorted(
        (documents.parse_offset(start), documents.parse_offset(end) + 1)
        for start, end in re.findall(r"(\d+)-(\d+)", offsets)
    )
    mention = Mention(entity.get("type"), tuple(fragments), entity.get("id"))
    mention = locate(text, mention, entity.get("text"), entity.where)
    return documents.join_fragments(text, mention, entity.where)


def _create_relation(pair: Element, known: Mapping[str, Mention]) -> Relation | None:
    """Create the relation of a pair; None if it does not interact."""
    interacts = "true"
    if pair.name == PAIR:
        interacts = pair.get_truth("interaction" if "interaction" in pair.attributes else "ddi")
    head, tail = (
        documents.look_up(known, id, pair.where, f"entity {quote(id)} in this sentence").id
        for id in (pair.get("e1"), pair.get("e2"))
    )
    label = pair.attributes.get("type") or UNSPECIFIED
    relation = Relation(label, head, tail, pair.attributes.get("id", ""))
    return relation if interacts == "true" else None
