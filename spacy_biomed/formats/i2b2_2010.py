"""i2b2/VA 2010: a text, its concepts (`.con`), assertions (`.ast`) and relations (`.rel`).

A concept is `c="its text" 20:1 20:3`: from the second word of line 20 to the fourth. Lines count
from 1, words between white space from 0.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from ..errors import BiomedError, escape, quote
from . import documents
from .documents import Document, Mention, Offsets, Relation
from .repairs import leaving_out, locate

TEXT, CONCEPTS, ASSERTIONS, RELATIONS = ".txt", ".con", ".ast", ".rel"

_CONCEPT = r'c="(.*)" (\d+:\d+ \d+:\d+)'
_LINES = {
    CONCEPTS: re.compile(rf'{_CONCEPT}\|\|t="([^"]+)"'),
    ASSERTIONS: re.compile(rf'{_CONCEPT}\|\|t="([^"]+)"\|\|a="([^"]+)"'),
    RELATIONS: re.compile(rf'{_CONCEPT}\|\|r="([^"]+)"\|\|{_CONCEPT}'),
}
_SHAPES = {
    CONCEPTS: 'c="text" 20:1 20:3||t="problem"',
    ASSERTIONS: 'c="text" 20:1 20:3||t="problem"||a="present"',
    RELATIONS: 'c="text" 20:1 20:3||r="TrAP"||c="text" 20:5 20:5',
}
_TEXT_LINE = re.compile(r"^.*$", re.MULTILINE)
_WORD = re.compile(r"\S+")


def read_i2b2_2010(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read the reports below a folder; texts and annotations may lie in any sub-folders.

    All files of a report have the same name. A text without concepts is not annotated (the owners
    publish such texts) and left out. Concepts become mentions whose id is their place
    (`20:1 20:3`), assertions their attribute "assertion". A relation goes from its first to its
    second concept. `relations` is None in every document if the folder has no `.rel` file. A line
    is a sentence, and words between white space are tokens, as the corpus is published.

    Raises:
        BiomedError: if a line is malformed, if a place is not in the text, or if a concept reads
            differently (case aside). Also if an assertion or relation has a concept that is not in
            the `.con` file, if concepts have no text, or if two files of a kind have the same name.
    """
    root = Path(path)
    reports = _group_files(root)
    annotated = {name: files for name, files in reports.items() if CONCEPTS in files}
    if not annotated:
        raise BiomedError(
            f"{root}: no {CONCEPTS} file in this folder; give the folder of texts and concepts"
        )
    has_relations = any(RELATIONS in files for files in reports.values())
    for name, files in annotated.items():
        with leaving_out():
            document = _read_report(name, files, encoding)
            if not has_relations:
                document.relations = None
            yield document


def _group_files(root: Path) -> dict[str, dict[str, Path]]:
    """Map the name of each report to its files, by suffix."""
    reports: dict[str, dict[str, Path]] = {}
    for file in documents.list_files(root, (TEXT, *_LINES)):
        files = reports.setdefault(file.stem, {})
        suffix = file.suffix.lower()
        if suffix in files:
            raise BiomedError(
                f"{file}: there is {files[suffix]} of this name already; keep one of them"
            )
        files[suffix] = file
    for name, files in sorted(reports.items()):
        if TEXT not in files:
            file = next(iter(files.values()))
            raise BiomedError(f"{file}: there is no {name}.txt for it; unpack the texts as well")
    return dict(sorted(reports.items()))


def _find_place(lines: dict[int, list[Offsets]], place: str, where: str) -> Offsets:
    """Return the offsets of a place, `20:1 20:3`, in lines of words."""
    line, first, last_line, last = map(documents.parse_offset, re.split("[: ]", place))
    try:
        return lines[line][first][0], lines[last_line][last][1]
    except LookupError:
        raise BiomedError(
            f"{where}: the text has no words at {escape(place)}; check that text and annotations "
            f"belong together"
        ) from None


def _read_report(name: str, files: dict[str, Path], encoding: str) -> Document:
    content = documents.read_text(files[TEXT], encoding)
    lines = {
        number: [word.span() for word in _WORD.finditer(content, *line.span())]
        for number, line in enumerate(_TEXT_LINE.finditer(content), start=1)
    }
    mentions: list[Mention] = []
    for where, match in _read_lines(files, CONCEPTS, encoding):
        covered, place, label = match.groups()
        with leaving_out():
            mention = Mention(label, (_find_place(lines, place, where),), place)
            read = mention.read(content)
            is_same = read.lower().split() == covered.lower().split()  # it is quoted in lower case
            mentions.append(locate(content, mention, read if is_same else covered, where))
    by_place = {mention.id: mention for mention in mentions}
    by_label = {(mention.id, mention.label): mention for mention in mentions}

    def find(place: str, where: str) -> Mention:
        return documents.look_up(
            by_place, place, where, f"concept at {escape(place)} in the .con file"
        )

    for where, match in _read_lines(files, ASSERTIONS, encoding):
        _, place, label, assertion = match.groups()
        with leaving_out():
            mention = by_label.get((place, label)) or find(place, where)
            mention.attributes["assertion"] = assertion
    relations = []
    for where, match in _read_lines(files, RELATIONS, encoding):
        _, head, label, _, tail = match.groups()
        with leaving_out():
            relations.append(Relation(label, find(head, where).id, find(tail, where).id))
    document = Document(name, content, mentions, relations, source=f"{files[TEXT]}:1")
    document.tokens = [*chain.from_iterable(lines.values())]
    document.sentences = [(line[0][0], line[-1][1]) for line in lines.values() if line]
    return document


def _read_lines(
    files: dict[str, Path], suffix: str, encoding: str
) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield `file:line` and the match of each line of a file, if the report has the file."""
    if suffix not in files:
        return
    for number, line in documents.number_lines(files[suffix], encoding, may_be_empty=True):
        where = f"{files[suffix]}:{number}"
        match = _LINES[suffix].fullmatch(line.strip())
        with leaving_out():
            if match is None:
                raise BiomedError(
                    f"{where}: malformed line {quote(line)}; write it as {_SHAPES[suffix]}"
                )
            yield where, match
