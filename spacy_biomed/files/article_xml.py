"""The texts of articles in XML: PubMed, PubMed Central, SciELO and others, one record at a time.

The element at the root tells the format:

PubmedArticleSet, MedlineCitationSet: citations of PubMed, as its yearly files have them.
article, pmc-articleset:              articles in JATS, of PubMed Central, SciELO and others.
collection:                           documents of BioC.
OAI-PMH:                              records of OAI, in JATS or Dublin Core.
"""

import html
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from ..errors import BiomedError, escape, quote
from .compression import LINE_VARIABLE, max_line

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
_LANGUAGE = "xml:lang"


def read_articles(file: BinaryIO, path: Path) -> Iterator[str]:
    """Yield the texts of the records of an XML file, with constant memory.

    A record's title, abstract and body are one text, with blank lines between paragraphs, and
    translations and articles within articles are others. Tables, figures, formulas, footnotes,
    references and their numbers, and citations of PubMed without an abstract are left out.
    """
    records = _Records(path)
    while block := file.read(_BLOCK):
        yield from records.read(block)
    yield from records.read(b"", is_last=True)


class _Records:
    """Collects the records of an XML file that is read block by block."""

    def __init__(self, path: Path):
        self._path = path
        self._readers: dict[str, Callable[[Element], Iterator[str]]] = {}
        self._builder = TreeBuilder()
        self._depth = 0
        self._begin = 0
        self._finished: list[Element] = []
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
        if self._depth and self._parser.CurrentByteIndex - self._begin > self._limit:
            raise self._error(
                f"a record of over {self._limit >> 20} MB; divide it, or set {LINE_VARIABLE} higher"
            )
        finished, self._finished = self._finished, []
        for record in finished:
            yield from filter(None, self._readers[record.tag](record))

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if not self._readers:  # of the root
            if name not in _FORMATS:
                raise self._error(
                    f"articles in XML begin with {', '.join(f'<{one}>' for one in _FORMATS)}, and "
                    f"this file with <{escape(name, 80)}>; convert it to one of them, or to text"
                )
            self._readers = _FORMATS[name]
        if not self._depth:
            if name not in self._readers:
                return
            self._begin = self._parser.CurrentByteIndex
            self._builder = TreeBuilder()
        if self._depth >= _DEEPEST:
            raise self._error(f"nested over {_DEEPEST} elements deep; is it an article?")
        self._builder.start(name, attributes)
        self._depth += 1

    def _end(self, tag: str) -> None:
        if self._depth:
            self._builder.end(tag.rpartition(":")[2])
            self._depth -= 1
            if not self._depth:
                self._finished.append(self._builder.close())

    def _add_text(self, text: str) -> None:
        if self._depth:
            self._builder.data(text)

    def _add_character(self, name: str, is_parameter: bool) -> None:
        named = f"&{name};"
        if not is_parameter and html.unescape(named) != named:
            self._add_text(html.unescape(named))

    def _refuse_entity(self, name: str, *rest: object) -> None:
        raise self._error(f"declares the entity {quote(name)}; write what it means in its places")

    def _error(self, problem: str) -> BiomedError:
        return BiomedError(f"{self._path}:{self._parser.CurrentLineNumber}: {problem}")


def _join(elements: Collection[Element]) -> str:
    """The running text of elements, with a blank line between paragraphs."""
    text = _EMPTY_BRACKETS.sub("", "\n".join(map(_flatten, elements)))
    paragraphs = (" ".join(part.split()) for part in text.split("\n"))
    return "\n\n".join(filter(None, paragraphs))


def _flatten(element: Element) -> str:
    """The running text of an element, its paragraphs between line feeds."""
    if element.tag in _NO_TEXT or _is_citation(element):
        return ""
    parts = [_to_line(element.text)]
    for child in element:
        parts += _flatten(child), _to_line(child.tail)
    own = "".join(parts)
    if element.tag == "sup" and any(map(_is_citation, element)) and not re.search(r"\w", own):
        return ""
    return f"\n{own}\n" if element.tag in _PARAGRAPHS else own


def _to_line(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "")


def _is_citation(element: Element) -> bool:
    """Whether an element is the number of a reference; names of authors belong to the text."""
    is_reference = element.tag == "xref" and element.get("ref-type") == "bibr"
    return is_reference and not re.search(r"[^\W\d_]", "".join(element.itertext()))


def _read_citation(record: Element) -> Iterator[str]:
    titles = list(record.iter("ArticleTitle"))[:1]
    abstract = next(record.iter("Abstract"), Element(""))
    texts = abstract.findall("AbstractText")
    if _join(texts):
        yield _join([*titles, *texts])
    for other in record.iter("OtherAbstract"):
        yield _join(other.findall("AbstractText"))


def _read_article(article: Element) -> Iterator[str]:
    fronts = [*article.findall("front/article-meta"), *article.findall("front-stub")]
    titles = [one for front in fronts for one in front.findall("title-group/article-title")]
    abstracts = [one for front in fronts for one in front.findall("abstract")]
    yield _join([*titles, *abstracts, *article.findall("body")])
    for front in fronts:
        translated = front.findall("title-group/trans-title-group")
        for abstract in front.findall("trans-abstract"):
            own = [one for one in translated if one.get(_LANGUAGE) == abstract.get(_LANGUAGE)]
            yield _join([*(title for one in own for title in one.findall("trans-title")), abstract])
    for inner in (*article.findall("sub-article"), *article.findall("response")):
        yield from _read_article(inner)


def _read_bioc(document: Element) -> Iterator[str]:
    texts: list[Element] = []
    for passage in document.findall("passage"):
        if not any(infon.text in _NO_TEXT_PASSAGES for infon in passage.findall("infon")):
            texts += passage.iter("text")  # one, or one of each sentence
    yield _join(texts)


def _read_record(record: Element) -> Iterator[str]:
    articles = list(record.iter("article"))
    for article in articles:
        yield from _read_article(article)
    if not articles:
        titles, texts = list(record.iter("title")), list(record.iter("description"))
        if len(titles) != len(texts):
            titles = []  # which title is of which language cannot be known
        for place, text in enumerate(texts):
            yield _join([*titles[place : place + 1], text])


# By the root's name, the readers of its records.
_FORMATS: dict[str, dict[str, Callable[[Element], Iterator[str]]]] = {
    "PubmedArticleSet": {"PubmedArticle": _read_citation, "PubmedBookArticle": _read_citation},
    "MedlineCitationSet": {"MedlineCitation": _read_citation},
    "article": {"article": _read_article},
    "pmc-articleset": {"article": _read_article},
    "collection": {"document": _read_bioc},
    "OAI-PMH": {"record": _read_record},
}
