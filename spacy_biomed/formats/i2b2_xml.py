"""i2b2's XML: `<TEXT>` and, at offsets in it, `<TAGS>` (2012: events and times; 2014: PHI)."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from ..errors import BiomedError, escape
from .documents import Document, Mention, Relation, list_files, look_up
from .offsets import Quoted
from .registry import Format
from .repairs import keep_sound, leaving_out, locate_all
from .xml_elements import Element, decode_xml, parse_xml

EVENT, TIME, SECTION_TIME, LINK = "EVENT", "TIMEX3", "SECTIME", "TLINK"

# The label of tags whose names are categories of labels.
CATEGORY_OF_TAG = "TYPE"
_PLACE = ("id", "start", "end", "text")
_QUOTED = re.compile(r'(?<==)"[^"]*"')
_BARE_AMPERSAND = re.compile(r"&(?!(?:[A-Za-z]+|#\d+|#x[0-9A-Fa-f]+);)")


def read_i2b2_2012(
    path: Path | str, encoding: str = "utf-8", *, temporal: bool = False
) -> Iterator[Document]:
    """Read the `.xml` files of the 2012 temporal relations task: one, or those below a folder.

    Events become mentions labelled with their type (PROBLEM, TEST, ...), with modality and polarity
    as attributes.

    Args:
        temporal: whether temporal expressions (DATE, TIME, DURATION, FREQUENCY) and section times
            (ADMISSION, DISCHARGE) become mentions too, and temporal links become relations. A link
            without a type is left out.

    Raises:
        BiomedError: if a file is not such XML, a tag lacks id, type or offsets, lies beyond the
            text or reads differently, or a link has an unknown id.
    """
    names = (EVENT, TIME, SECTION_TIME) if temporal else (EVENT,)
    for file in list_files(Path(path), (".xml",)):
        with leaving_out():
            text, tags = _read_file(file, encoding)
            mentions = _create_mentions(text, [tag for tag in tags if tag.name in names], "type")
            document = Document(file.stem, text, mentions, source=f"{file}:1")
            if temporal:
                links = [tag for tag in tags if tag.name == LINK and tag.attributes.get("type")]
                known = {mention.id: mention for mention in mentions}
                create = partial(_create_relation, known=known)
                document.relations = list(keep_sound(create, links))
            yield document


def read_i2b2_2014(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read the `.xml` files of the 2014 de-identification track: one, or those below a folder.

    Each tag becomes a mention whose label is the tag's TYPE (PATIENT, HOSPITAL, ...). The tag's
    name, the category (NAME, LOCATION, ...), is the attribute "category".

    Raises:
        BiomedError: if a file is not such XML, or a tag lacks id, TYPE or offsets, lies beyond the
            text or reads differently.
    """
    for file in list_files(Path(path), (".xml",)):
        with leaving_out():
            text, tags = _read_file(file, encoding)
            mentions = _create_mentions(text, tags, CATEGORY_OF_TAG)
            yield Document(file.stem, text, mentions, source=f"{file}:1")


def _read_file(path: Path, encoding: str) -> tuple[str, list[Element]]:
    """Return the text and the tags."""
    content = decode_xml(path.read_bytes(), path, encoding)
    before, end, after = content.rpartition("</TEXT>")

    def escape_quoted(quoted: re.Match[str]) -> str:
        return _BARE_AMPERSAND.sub("&amp;", quoted.group()).replace("<", "&lt;")

    # In some published files the quoted texts contain bare ampersands and angle brackets.
    root = parse_xml(before + end + _QUOTED.sub(escape_quoted, after), path, "i2b2's XML")
    text, tags = root.text_of("TEXT"), root.find("TAGS")
    if text is None or not tags:
        raise BiomedError(
            f"{root.where}: expected <TEXT> and <TAGS> in <{escape(root.name)}>; is it i2b2's XML?"
        )
    return text, tags[0].children


def _create_mentions(text: str, tags: list[Element], label_name: str) -> list[Mention]:
    def read(tag: Element) -> Quoted:
        return _create_mention(tag, label_name), tag.attributes.get("text", ""), tag.where

    # The owners' text begins with a line feed, which counts for some programs.
    return [one for _, one in locate_all(text, list(keep_sound(read, tags)), (0, 1, -1))]


def _create_mention(tag: Element, label_name: str) -> Mention:
    place = (tag.get_whole_number("start"), tag.get_whole_number("end"))
    known = (*_PLACE, label_name)
    others = {name: one for name, one in tag.attributes.items() if one and name not in known}
    if label_name == CATEGORY_OF_TAG:
        others["category"] = tag.name
    return Mention(tag.get(label_name), (place,), tag.get("id"), others)


def _create_relation(link: Element, known: Mapping[str, Mention]) -> Relation:
    head, tail = (
        look_up(known, id, link.where, f"{escape(id)} in this file").id
        for id in (link.get("fromID"), link.get("toID"))
    )
    return Relation(link.get("type"), head, tail, link.attributes.get("id", ""))


I2B2_2012_TEMPORAL = Format(partial(read_i2b2_2012, temporal=True))
