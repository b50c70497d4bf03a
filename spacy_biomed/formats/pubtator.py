"""PubTator: a title line, an abstract line, then a line for each mention or relation."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from ..files.records import Record, read_text_lines
from ..files.sources import Item, RecordFile
from .documents import (
    Document,
    Mention,
    Relation,
    check_mention,
    list_files,
    number_lines,
    parse_offset,
)
from .findings import AnnotatedShard
from .offsets import Quoted, count_code_points
from .registry import Format
from .repairs import is_new, leaving_out, locate

SUFFIXES = (".txt", ".pubtator", ".tsv")

# The identifier, t (title) or a (abstract), and the text.
TEXT_LINE = re.compile(r"([^|\t\r]+)\|([ta])\|([^\r]*)")
# Numbers, or several with signs between: a type of relation is something else.
_NUMBER = re.compile(r"[+-]?\d[\d .,;:+-]*")


def read_pubtator(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read PubTator files: a file, or those in and below a folder.

    An `ID|t|title` line begins a document. Its text is title and abstract with one space between,
    as the offsets count. An abstract with another id also begins a document, since some documents
    have no title. A mention line is id, start, end, string, type and, optionally, the concept,
    which becomes the attribute "concept"; further columns become the attribute "further". A
    relation line is id, type and two concepts; `Relation.head` and `tail` are then concepts,
    because the format does not relate single mentions. `relations` is None in the documents of a
    file without relation lines.

    Raises:
        BiomedError: if a line is of another kind or has another document's id, if two documents
            have one id (`is_new`), or a mention lies beyond the text or reads differently.
    """
    known: dict[str, int] = {}
    for file in list_files(Path(path), SUFFIXES):
        documents = []
        for document, covered in parse_documents(number_lines(file, encoding), file):
            documents.append(document)
            placed = count_code_points(document.text, covered)
            for mention, (_, string, where) in zip(placed, covered, strict=True):
                with leaving_out():
                    if mention.start >= len(document.text):  # of a line that was left out
                        check_mention(document.text, mention, string, where)
                    document.mentions.append(locate(document.text, mention, string, where))
        has_relations = any(document.relations for document in documents)
        for document in documents:
            if not has_relations:
                document.relations = None
            with leaving_out():
                if is_new(document, known):
                    yield document


def parse_documents(
    lines: Iterable[tuple[int, str]], path: Path
) -> Iterator[tuple[Document, list[Quoted]]]:
    """Yield the documents of a file, each with its mentions, which are not checked.

    `lines` are those that are not blank, with their numbers. Raise BiomedError if a line is neither
    title, abstract, mention nor relation.
    """
    document: Document | None = None
    covered: list[Quoted] = []
    has_abstract, last = False, -1
    for number, line in lines:
        is_next, last = number == last + 1, number
        where = f"{path}:{number}"
        text_line = TEXT_LINE.fullmatch(line)
        id, kind, text = text_line.groups() if text_line else ("", "", "")
        is_other = document is None or id.strip() != document.id
        if text_line and (is_other or (kind == "t" and not is_next)):
            if document is not None:
                yield document, covered
            document = Document(id.strip(), text, [], [], source=where)
            covered, has_abstract = [], kind == "a"
            continue
        if document is None:
            raise BiomedError(
                f"{where}: expected a title, found {quote(line)}; a document begins with ID|t|title"
            )
        with leaving_out():
            if text_line:
                if kind == "t" or has_abstract or covered:
                    raise BiomedError(
                        f"{where}: an abstract after mentions or another abstract, or a second "
                        "title; write the title, and right after it the abstract"
                    )
                has_abstract = True
                document.text = f"{document.text} {text}"
            else:
                _add_fields(line, document, covered, where)
    if document is None:
        raise BiomedError(f"{path}: no document in this file; a document begins with ID|t|title")
    yield document, covered


def _add_fields(line: str, document: Document, covered: list[Quoted], where: str) -> None:
    """Add a relation, or a mention, which is checked once the text is complete."""
    fields = line.split("\t")
    id = fields[0].strip()
    if id != document.id:
        raise BiomedError(
            f"{where}: a line of {quote(id)} within document {quote(document.id)}; a document "
            f"begins with ID|t|title, and all its lines have its id"
        )
    if "\r" in line:
        raise BiomedError(f"{where}: a CR within the line; convert the line ends to LF")
    if len(fields) >= 5 and fields[1].isdecimal() and fields[2].isdecimal():
        _, start, end, string, label, *others = fields
        concept, *further = [one.strip() for one in others] or [""]
        given = {"concept": concept, "further": "; ".join(filter(None, further))}
        attributes = {name: value for name, value in given.items() if value}
        place = (parse_offset(start), parse_offset(end))
        covered.append((Mention(label, (place,), "", attributes), string, where))
    elif len(fields) >= 4 and not _NUMBER.fullmatch(fields[1]) and all(fields[1:4]):
        document.relations.append(Relation(*fields[1:4]))
    else:
        raise BiomedError(
            f"{where}: malformed line {quote(line)}; write a mention as id, start, end, string, "
            f"type and concept, a relation as id, type, concept and concept, with tabs"
        )


class PubTatorFile(RecordFile):
    """A PubTator file, of which only titles and abstracts are read.

    The text is title and abstract with one space between, as the offsets of PubTator count. A
    document with a line that the reader of corpora refuses is not read.
    """

    def records(self, offset: int = 0) -> Iterator[Record]:
        block: list[Record] = []
        id = ""  # of the block; "" if it has no title and no abstract
        is_after_blank = False
        for line in read_text_lines(self.path, self.how.layout, offset):
            if not line.error and not line.value.strip():
                is_after_blank = True
                continue
            match = None if line.error else TEXT_LINE.fullmatch(line.value)
            name = match[1].strip() if match else id
            if match:
                # A second title of a document is an error of it, which `parse` finds.
                is_other = name != id and (match[2] == "t" or bool(id))
                begins = is_other or (is_after_blank and (match[2] == "t" or not id))
            else:  # an annotation, or something else
                begins = is_after_blank and not (id and (line.value or "").startswith(f"{id}\t"))
            if begins and block:
                yield _join(block)
                block, id = [], ""
            block.append(line)
            id, is_after_blank = name if match else id, False
        if block:
            yield _join(block)

    def parse(self, value: list[tuple[int, str]], place: str) -> Item:
        try:
            ((document, _),) = parse_documents(value, self.path)
        except BiomedError:  # its message quotes the line
            return Item(
                place,
                error="a line that is not a title, abstract, mention or relation of a document; "
                "`convert --format pubtator` names it",
            )
        first = TEXT_LINE.fullmatch(value[0][1])
        title = len(first[3]) if first and first[2] == "t" else None
        return Item(document.id or place, document.text, title_length=title)


def _join(block: list[Record]) -> Record:
    error = next((line.error for line in block if line.error), "")
    return block[0]._replace(error=error, value=[(line.line, line.value) for line in block])


def write_pubtator(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a file with titles, abstracts and mentions.

    The title is that of the input, or else the first line of the text. White space of other kinds
    becomes a space, so offsets stay the same. An entity's `kb_id`, or else its `id`, is the
    concept. A document whose id another one of the shard has gets its number too: `7-12`.
    """
    blocks = []
    names: set[str] = set()
    for number, item, doc, found in shard.documents:
        name = re.sub(r"[|\s]", "_", item.id)
        while name in names:
            name = f"{name}-{number}"
        names.add(name)
        end = item.title_length
        if end is None:
            end = len(doc.text.partition("\n")[0])
        title, abstract = doc.text[:end], doc.text[end + 1 :]
        lines = [f"{name}|t|{_one_line(title)}", f"{name}|a|{_one_line(abstract)}"]
        for span in found["entities"]:
            place, attributes = (str(span["start"]), str(span["end"])), span["attributes"]
            concept = attributes.get("kb_id") or attributes.get("id") or ""
            cells = [name, *place, *map(_one_line, (span["text"], span["label"], concept))]
            lines.append("\t".join(cells))
        blocks.append("\n".join([*lines, "", ""]))
    return {f"{shard.name}.pubtator": "".join(blocks).encode()}


def _one_line(text: str) -> str:
    return re.sub(r"[\t\r\n]", " ", text)


PUBTATOR = Format(read_pubtator, write_pubtator)
