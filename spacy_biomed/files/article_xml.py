"""The texts of articles in XML: PubMed, PubMed Central, SciELO and others, one record at a time.

The element at the root tells the format:

PubmedArticleSet, MedlineCitationSet: citations of PubMed, as its yearly files have them.
article, pmc-articleset:              articles in JATS, of PubMed Central, SciELO and others.
collection:                           documents of BioC.
OAI-PMH:                              records of OAI, in JATS or Dublin Core.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from ..errors import BiomedError, escape, quote
from .decompression import LINE_VARIABLE, max_line

_BLOCK = 2**16
_DEEPEST = 500

# Elements that begin and end a paragraph, and elements that are not running text.
_PARAGRAPHS = {
    *("AbstractText", "abstract", "article-title", "body", "break", "def", "disp-quote"),
    *("list-item", "p", "sec", "term", "text", "title", "trans-abstract", "trans-title"),
}
_NO_TEXT = {
    *("alternatives", "disp-formula", "fig", "fig-group", "fn", "fn-group", "graphic"),
    *("inline-formula", "label", "math", "media", "object-id", "ref-list"),
    *("supplementary-material", "table", "table-wrap", "table-wrap-foot", "tex-math"),
}
# What is left of "[3, 4]" and of superscripts without the numbers of the references.
_EMPTY_BRACKETS = re.compile(r"\s?[\[(][\s,;–-]*[\])]")
# Parts of articles in BioC, as PubMed Central names them.
_NO_TEXT_PASSAGES = ("REF", "TABLE")


@dataclass(slots=True)
class _Element:
    name: str
    attributes: dict[str, str]
    content: list[_Element | str] = field(default_factory=list)

    @property
    def children(self) -> list[_Element]:
        return [one for one in self.content if isinstance(one, _Element)]

    @property
    def language(self) -> str:
        return self.attributes.get("xml:lang", "")

    def find(self, *names: str) -> list[_Element]:
        """The elements at a path below this one."""
        found = [self]
        for name in names:
            found = [child for one in found for child in one.children if child.name == name]
        return found

    def search(self, name: str) -> Iterator[_Element]:
        """The elements with a name anywhere below this one, without those inside of others."""
        for child in self.children:
            if child.name == name:
                yield child
            else:
                yield from child.search(name)


def read_articles(file: BinaryIO, path: Path) -> Iterator[str]:
    """Yield the texts of the records of an XML file, with constant memory.

    A record's title, abstract and body are one text, whose paragraphs are divided by blank lines.
    Translations of an article or abstract, and articles within articles, are texts of their own.
    Left out are tables, figures, formulas, footnotes, references and their numbers in the text, and
    citations of PubMed without an abstract.

    Args:
        file: its bytes.
        path: its path, for messages.

    Raises:
        BiomedError: while reading, if the file is not well-formed XML, has another root, declares
            entities, is nested too deeply, or has a record of over `max_line()` bytes.
    """
    records = _Records(path)
    while block := file.read(_BLOCK):
        yield from records.read(block)
    yield from records.read(b"", is_last=True)


class _Records:
    """Collects the records of an XML file that is read block by block."""

    def __init__(self, path: Path):
        self._path = path
        self._readers: dict[str, Callable[[_Element], Iterator[str]]] = {}
        self._open: list[_Element] = []
        self._begin = 0
        self._finished: list[_Element] = []
        self._limit = max_line()
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        # JATS names characters that are declared in a file on the web.
        parser.SkippedEntityHandler = self._add_character
        # Declared entities could multiply, or include another file.
        parser.EntityDeclHandler = self._refuse_entity
        self._is_empty = True

    def read(self, block: bytes, is_last: bool = False) -> Iterator[str]:
        """The texts of the records that end in a block."""
        try:
            self._parser.Parse(block, is_last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise BiomedError(
                f"{self._path}:{error.lineno}: no XML at column {error.offset + 1} ({reason}); "
                "check that the file is complete and well-formed"
            ) from None
        except BiomedError:
            raise
        except (LookupError, ValueError):
            raise self._error("declares an encoding that is unknown; convert it to UTF-8") from None
        if self._open and self._parser.CurrentByteIndex - self._begin > self._limit:
            raise self._error(
                f"a record of over {self._limit >> 20} MB; divide it, or set {LINE_VARIABLE} higher"
            )
        finished, self._finished = self._finished, []
        for record in finished:
            yield from filter(None, self._readers[record.name](record))

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if self._is_empty:
            self._is_empty = False
            if name not in _FORMATS:
                raise self._error(
                    f"articles in XML begin with {', '.join(f'<{one}>' for one in _FORMATS)}, and "
                    f"this file with <{escape(name, 80)}>; convert it to one of them, or to text"
                )
            self._readers = _FORMATS[name]
        if not self._open:
            if name not in self._readers:
                return
            self._begin = self._parser.CurrentByteIndex
        if len(self._open) >= _DEEPEST:
            raise self._error(f"nested over {_DEEPEST} elements deep; is it an article?")
        element = _Element(name, attributes)
        if self._open:
            self._open[-1].content.append(element)
        self._open.append(element)

    def _end(self, tag: str) -> None:
        if self._open:
            element = self._open.pop()
            if not self._open:
                self._finished.append(element)

    def _add_text(self, text: str) -> None:
        if self._open:
            self._open[-1].content.append(text)

    def _add_character(self, name: str, is_parameter: bool) -> None:
        named = f"&{name};"
        if not is_parameter and html.unescape(named) != named:
            self._add_text(html.unescape(named))

    def _refuse_entity(self, name: str, *rest: object) -> None:
        raise self._error(
            f"declares the entity {quote(name)}; write what it stands for in its places"
        )

    def _error(self, problem: str) -> BiomedError:
        return BiomedError(f"{self._path}:{self._parser.CurrentLineNumber}: {problem}")


def _join(elements: Collection[_Element]) -> str:
    """The running text of elements, with a blank line between paragraphs."""
    parts: list[str] = []
    for element in elements:
        _flatten(element, parts)
        parts.append("\n")
    text = _EMPTY_BRACKETS.sub("", "".join(parts))
    paragraphs = (" ".join(part.split()) for part in text.split("\n"))
    return "\n\n".join(filter(None, paragraphs))


def _flatten(element: _Element, parts: list[str]) -> None:
    if element.name in _NO_TEXT or _is_citation(element):
        return
    own: list[str] = []
    for one in element.content:
        if isinstance(one, str):
            own.append(re.sub(r"\s+", " ", one))
        else:
            _flatten(one, own)
    if element.name == "sup" and any(map(_is_citation, element.children)):
        own = [] if not re.search(r"\w", "".join(own)) else own
    around = ["\n"] if element.name in _PARAGRAPHS else []
    parts.extend([*around, *own, *around])


def _is_citation(element: _Element) -> bool:
    """Whether an element is the number of a reference; names of authors belong to the text."""
    is_reference = element.name == "xref" and element.attributes.get("ref-type") == "bibr"
    return is_reference and not re.search(r"[^\W\d_]", _text_of(element))


def _text_of(element: _Element) -> str:
    return "".join(one if isinstance(one, str) else _text_of(one) for one in element.content)


def _read_citation(record: _Element) -> Iterator[str]:
    titles = list(record.search("ArticleTitle"))[:1]
    abstracts = [one.find("AbstractText") for one in record.search("Abstract")][:1]
    if abstracts and _join(abstracts[0]):
        yield _join([*titles, *abstracts[0]])
    for other in record.search("OtherAbstract"):
        yield _join(other.find("AbstractText"))


def _read_article(article: _Element) -> Iterator[str]:
    fronts = [*article.find("front", "article-meta"), *article.find("front-stub")]
    titles = [one for front in fronts for one in front.find("title-group", "article-title")]
    abstracts = [one for front in fronts for one in front.find("abstract")]
    yield _join([*titles, *abstracts, *article.find("body")])
    for front in fronts:
        translated = front.find("title-group", "trans-title-group")
        for abstract in front.find("trans-abstract"):
            own = [one for one in translated if one.language == abstract.language]
            yield _join([*(title for one in own for title in one.find("trans-title")), abstract])
    for inner in (*article.find("sub-article"), *article.find("response")):
        yield from _read_article(inner)


def _read_bioc(document: _Element) -> Iterator[str]:
    def is_read(passage: _Element) -> bool:
        kinds = map(_text_of, passage.find("infon"))
        return not any(kind in _NO_TEXT_PASSAGES for kind in kinds)

    passages = filter(is_read, document.find("passage"))
    # A passage has a text, or sentences that have one each.
    yield _join([text for passage in passages for text in passage.search("text")])


def _read_record(record: _Element) -> Iterator[str]:
    articles = list(record.search("article"))
    for article in articles:
        yield from _read_article(article)
    if not articles:
        titles, texts = list(record.search("title")), list(record.search("description"))
        if len(titles) != len(texts):
            titles = []  # which title is of which language cannot be known
        for place, text in enumerate(texts):
            yield _join([*titles[place : place + 1], text])


# By the root's name, the readers of its records.
_FORMATS: dict[str, dict[str, Callable[[_Element], Iterator[str]]]] = {
    "PubmedArticleSet": {"PubmedArticle": _read_citation, "PubmedBookArticle": _read_citation},
    "MedlineCitationSet": {"MedlineCitation": _read_citation},
    "article": {"article": _read_article},
    "pmc-articleset": {"article": _read_article},
    "collection": {"document": _read_bioc},
    "OAI-PMH": {"record": _read_record},
}
