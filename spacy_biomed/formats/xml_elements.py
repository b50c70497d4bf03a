"""XML as elements that know their line, for messages that name it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from ..errors import BiomedError, escape, quote
from .documents import BYTE_ORDER_MARK, decode, parse_offset

_DECLARED = re.compile(rb"<\?xml[^>]*\bencoding\s*=\s*[\"']([\w.-]+)[\"']")


@dataclass(slots=True)
class Element:
    """An XML element: the `file:line` of its start tag, and what is directly inside it."""

    name: str
    attributes: dict[str, str]
    where: str
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def find(self, name: str) -> list[Element]:
        return [child for child in self.children if child.name == name]

    def text_of(self, name: str) -> str | None:
        """The text of the first child with a name; None if there is none."""
        return next((child.text for child in self.find(name)), None)

    def get(self, name: str) -> str:
        """The value of an attribute; raise BiomedError if it is missing or empty."""
        value = self.attributes.get(name)
        if not value:
            raise BiomedError(f'{self.where}: <{escape(self.name)}> has no {name}="..."; add it')
        return value

    def get_whole_number(self, name: str) -> int:
        value = self.get(name)
        if not value.isdecimal():
            raise BiomedError(
                f'{self.where}: expected {name}="..." with a whole number, found {quote(value)}'
            )
        return parse_offset(value)

    def get_truth(self, name: str) -> str:
        """The value of an attribute, which is "true" or "false"."""
        value = self.get(name)
        if value not in ("true", "false"):
            raise BiomedError(f'{self.where}: {name}="{escape(value)}"; write "true" or "false"')
        return value


def decode_xml(content: bytes, path: Path, encoding: str) -> str:
    """Decode XML in the encoding that it declares; if it declares none, in `encoding`."""
    declared = _DECLARED.search(content[:200])
    return decode(content, path, declared.group(1).decode() if declared else encoding)


def parse_xml(text: str, path: Path, kind: str) -> Element:
    """Parse XML and return its root. All line ends become line feeds.

    Raise BiomedError if it is not well-formed (is it `kind`?) or declares an entity.
    """
    file, root = str(path), Element("", {}, "")
    open_elements, texts = [root], [[""]]
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True

    def start(name: str, attributes: dict[str, str]) -> None:
        element = Element(name, attributes, f"{file}:{parser.CurrentLineNumber}")
        open_elements[-1].children.append(element)
        open_elements.append(element)
        texts.append([])

    def end(name: str) -> None:
        open_elements.pop().text = "".join(texts.pop())

    def refuse_entity(name: str, *rest: object) -> None:
        raise BiomedError(
            f"{path}:{parser.CurrentLineNumber}: declares the entity {quote(name)}; write it out"
        )

    parser.StartElementHandler = start
    # Declared entities could multiply, or include another file.
    parser.EntityDeclHandler = refuse_entity
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda text: texts[-1].append(text)
    try:
        parser.Parse(text.removeprefix(BYTE_ORDER_MARK).encode("utf-8"), True)
    except expat.ExpatError as error:
        raise BiomedError(
            f"{path}:{error.lineno}: no XML at column {error.offset + 1} "
            f"({expat.ErrorString(error.code)}); is it {kind}?"
        ) from None
    return root.children[0]


def read_xml(path: Path, encoding: str, kind: str, root_name: str | None = None) -> Element:
    """Read an XML file and return its root, which must have a name if one is given."""
    root = parse_xml(decode_xml(path.read_bytes(), path, encoding), path, kind)
    if root_name not in (None, root.name):
        raise BiomedError(
            f"{root.where}: expected <{root_name}>, found <{escape(root.name)}>; is it {kind}?"
        )
    return root
