"""ShARe/CLEF eHealth 2013 task 1: reports, and disorders in files of fields between `||`.

A line of those is `report.txt||Disease_Disorder||C0027051||12||20||31||36`: the report, the type,
the concept, and the start and end of each fragment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import (
    BYTE_ORDER_MARK,
    Document,
    Mention,
    check_mention,
    join_fragments,
    list_files,
    parse_offset,
    read_lines,
    read_text,
)
from .repairs import leaving_out

PIPE_SUFFIX = ".pipe"

_LINE = re.compile(r"([^|]+)\|\|([^|]+)\|\|([^|]+)((?:\|\|\d+\|\|\d+)+)")
_BEGINS_AS_LINE = re.compile(r"[^|\n]+\|\|[^|\n]+\|\|")


def read_share_clef(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read the reports below a folder with their disorders, however both lie in sub-folders.

    The disorders of `NAME.txt` are in `NAME.pipe.txt`, or in another `NAME.txt` that has nothing
    but lines of fields. The concept is the mention's attribute "concept". A report without a file
    of disorders has none.

    Raises BiomedError where no report has such a file, on such a file without its report, a
    malformed line or one about another report, fragments that overlap, and a mention beyond the
    text. The format quotes no text: that offsets are right cannot be checked.
    """
    root = Path(path)
    texts, disorders = _sort_files(list_files(root, (".txt",)), encoding)
    if not disorders:
        raise BiomedError(
            f"{root}: no file of disorders (NAME.pipe.txt) in this folder; give the folder that "
            f"holds both reports and disorders"
        )
    for name, file in disorders.items():
        if name not in texts:
            raise BiomedError(f"{file}: there is no report {name}.txt; unpack the reports as well")
    for name, file in sorted(texts.items()):
        with leaving_out():
            text = read_text(file, encoding).removeprefix(BYTE_ORDER_MARK)
            mentions = []
            if name in disorders:
                mentions = list(_read_disorders(disorders[name], name, text, encoding))
            yield Document(id=name, text=text, mentions=mentions, source=f"{file}:1")


def _sort_files(files: list[Path], encoding: str) -> tuple[dict[str, Path], dict[str, Path]]:
    """Map names of reports to their texts, and to their disorders."""
    texts: dict[str, Path] = {}
    disorders: dict[str, Path] = {}
    count = Counter(file.name for file in files)
    for file in files:
        is_pipe = file.stem.endswith(PIPE_SUFFIX) or (
            count[file.name] > 1 and _has_fields(file, encoding)
        )
        name = file.stem.removesuffix(PIPE_SUFFIX)
        kind = disorders if is_pipe else texts
        if name in kind:
            raise BiomedError(f"{file}: there is {kind[name]} of this name already; keep one")
        kind[name] = file
    return texts, disorders


def _has_fields(file: Path, encoding: str) -> bool:
    """Tell whether a file is one of disorders: it begins like one, or is empty."""
    content = read_text(file, encoding, may_be_empty=True).lstrip(BYTE_ORDER_MARK + " \r\n")
    return not content or _BEGINS_AS_LINE.match(content) is not None


def _read_disorders(file: Path, name: str, text: str, encoding: str) -> Iterator[Mention]:
    for number, line in enumerate(read_lines(file, encoding, may_be_empty=True), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        with leaving_out():
            yield _parse_line(line, where, name, text)


def _parse_line(line: str, where: str, name: str, text: str) -> Mention:
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise BiomedError(
            f"{where}: malformed line {quote(line)}; write it as "
            f"report||type||concept||start||end, a start and an end for each fragment"
        )
    report, label, concept, offsets = match.groups()
    if report.removesuffix(".txt") != name:
        raise BiomedError(f"{where}: a line about {quote(report)} in the file of {name}; move it")
    numbers = [parse_offset(number) for number in offsets.split("||")[1:]]
    fragments = tuple(sorted(zip(numbers[::2], numbers[1::2], strict=True)))
    mention = Mention(label, fragments, "", {"concept": concept})
    check_mention(text, mention, None, where)
    return join_fragments(text, mention, where)
