"""Mentions in tables (TSV, CSV) beside their texts, as shared tasks and spreadsheets have them."""

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..errors import BiomedError, escape, quote
from ..files.records import Layout, Record, check_names, read_delimited, read_text_lines, show_names
from . import documents
from .documents import BYTE_ORDER_MARK, Document, Mention, Offsets
from .json_fields import list_values
from .offsets import Quoted, stands
from .repairs import keep_sound, leaving_out, locate_all

TEXT = ".txt"
TABLES = (".tsv", ".csv", ".tab")
# What columns are called, without case, spaces and signs; the first name that a table has counts.
_ROLES = {
    "start": "start off0 startspan spanstart spanini startchar charstart startoffset offsetstart "
    "begin beginoffset inicio",
    "end": "end off1 endspan spanend endchar charend endoffset offsetend fin",
    "spans": "position positions offsets spans span",
    "id": "mark annid annotationid mentionid",
    "concept": "code codes conceptid kbid cui ncbitax snomed snomedct identifier concept",
    "label": "label tag type entitytype entitylabel nertag category class etiqueta entity",
    "text": "mention mentionstring mentiontext entitytext coveredtext extraction fragment span "
    "string entity text texto term",
}
_PLACE = ("start", "end", "spans", "text")
# Of several, the column counts whose values are most often names of texts.
_DOCUMENT = (
    "filename file docid documentid noteid textid tweetsid tweetid name pmid id doc document"
)
_WHOLE_TEXT = "text notetext documenttext fulltext content texto tweet"
# A table of CodiEsp's task X, which has no header.
_CODIESP = ["filename", "label", "code", "text", "position"]
_SPANS = re.compile(r"[\[(]*\d+[ ,-]+\d+(?:[\])]*[;, ]+[\[(]*\d+[ ,-]+\d+)*[\])]*")
_OFFSET = re.compile(r"(\d+)(?:\.0)?")
_SUM = re.compile(r"[\w./:-]+(?: ?\+ ?[\w./:-]+)+")


class _Row(NamedTuple):
    """A row: `file:line`, the names that its document may have, and cells by role and by column."""

    where: str
    names: list[str]
    given: dict[str, str]
    others: dict[str, str]


class _Table(NamedTuple):
    path: Path
    names: list[str]
    rows: list[tuple[str, dict[str, str]]]

    def find(self, wanted: str, taken: Iterable[str] = ()) -> list[str]:
        """The columns that have one of the wanted names, in the order of these."""
        plain = {re.sub(r"[\W_]", "", name.lower()): name for name in reversed(self.names)}
        return [plain[one] for one in wanted.split() if one in plain and plain[one] not in taken]

    def find_roles(self) -> dict[str, str]:
        """The column of each role; none of a table without offsets."""
        roles: dict[str, str] = {}
        for role, wanted in _ROLES.items():
            is_wanted = role != "spans" or not {"start", "end"} <= roles.keys()
            if is_wanted and (found := self.find(wanted, roles.values())):
                roles[role] = found[0]
        return roles if {"start", "end"} <= roles.keys() or "spans" in roles else {}

    def list_rows(self) -> list[_Row]:
        roles = {column: role for role, column in self.find_roles().items()}
        columns = self.find(_DOCUMENT, roles)
        taken = {*roles, *columns[:1], *self.find(_WHOLE_TEXT, roles)[:1]}
        return [
            _Row(
                where,
                [_name(cells[one]) for one in columns] if columns else [self.path.stem],
                {role: cells[column].strip() for column, role in roles.items()},
                {one: value.strip() for one, value in cells.items() if one not in taken},
            )
            for where, cells in (self.rows if roles else ())
        ]


def read_mention_tables(
    paths: Path | str | Sequence[Path], encoding: str = "utf-8", tag_label: str | None = None
) -> Iterator[Document]:
    """Read the tables of mentions and the texts in and below folders, or the files that are given.

    Texts are `.txt` files, or in a column of the table or of another one. Columns are known by
    their names (`_ROLES`): the document, the start and the end or all fragments (`12 20;30 40`),
    the label, the mention as the text has it, and its codes. Several codes may be joined by a plus
    sign; they become the attribute "concept". Other columns become attributes. A table in
    which no column names the document is about the text of its name. A text without rows has no
    mentions. If only tables were given, the texts near them that have rows are read.

    Args:
        tag_label: the label of mentions in tables without a column for it.

    Raises:
        BiomedError: if no table has offsets, a text is missing, a row is malformed, or a mention
            lies beyond the text or reads differently.
    """
    roots = [Path(paths)] if isinstance(paths, Path | str) else [*paths]
    Layout(encoding).check()
    files = [*chain.from_iterable(documents.list_files(one, (*TABLES, TEXT)) for one in roots)]
    others = (one for one in files if one.suffix.lower() != TEXT)
    tables = [*keep_sound(partial(_read_table, encoding=encoding), others)]
    if not any(one.find_roles() for one in tables):
        shown = "; ".join(
            f"{one.path.name} has {show_names(one.names)}" for one in tables[:2] if any(one.names)
        )
        raise BiomedError(
            f"{roots[0]}: no table here has columns for offsets, such as start and end "
            f"({escape(shown, 300) or 'there is no table'})"
        )
    rows = [one.list_rows() for one in tables]
    given = [one for one in files if one.suffix.lower() == TEXT]
    chosen = _choose_texts(given, rows, encoding)
    texts, near = ({} if chosen else _list_texts(tables)), list[Path]()
    if not chosen and not texts and not any(one.is_dir() for one in roots):
        near = _find_near(roots[0].absolute().parent, rows)
        chosen = _choose_texts(near, rows, encoding, are_given=False)
    for name, file in chosen.items():
        with leaving_out():
            texts[name] = (f"{file}:1", _read(file, encoding))
    sources = {Path(where.rpartition(":")[0]) for where, _ in texts.values()}
    sources |= {one.path for one in tables if one.find_roles()}
    _tell_others([one for one in [*files, *near] if one not in sources])
    by_text: dict[str, list[_Row]] = defaultdict(list)
    for name, row in _name_rows(rows, texts):
        by_text[name].append(row)
    for name in (one for one in by_text if one not in texts):
        with leaving_out():
            raise BiomedError(
                f"{by_text[name][0].where}: there is no text {quote(name)}; give its {TEXT} file, "
                "or a table with its text, together with this table"
            )
    found: Iterable[Document] = _create_documents(texts, by_text, tag_label)
    if not any("text" in one.find_roles() for one in tables):
        found = [*found]
        whole = [stands(one.text, each, None) for one in found for each in one.mentions or ()]
        if 2 * sum(whole) < len(whole):
            raise BiomedError(
                f"{roots[0]}: most mentions are not whole words ({sum(whole):,} of {len(whole):,} "
                "are); check that offsets count the characters of the whole text"
            )
    yield from found


def _create_documents(
    texts: Mapping[str, tuple[str, str]],
    by_text: Mapping[str, Sequence[_Row]],
    tag_label: str | None,
) -> Iterator[Document]:
    for name, (where, text) in texts.items():
        with leaving_out():
            mentions = _read_mentions(text, by_text.get(name, ()), tag_label)
            yield Document(name, text.removeprefix(BYTE_ORDER_MARK), mentions, source=where)


def _name_rows(
    tables: Iterable[Sequence[_Row]], known: Collection[str]
) -> Iterator[tuple[str, _Row]]:
    """Yield the name of each row's document, and the row."""
    for rows in tables:
        columns = [*zip(*(row.names for row in rows), strict=True)]
        names = max(columns, key=lambda column: len({*column}.intersection(known)), default=())
        yield from zip(names, rows, strict=True)


def _name(given: str) -> str:
    """The name of a text, as a table gives it, without its ending."""
    return re.sub(r"(?i)\.(txt|ann)$", "", given.strip().replace("\\", "/"))


def _read(file: Path, encoding: str) -> str:
    return documents.decode(file.read_bytes(), file, encoding, may_be_empty=True)


def _read_table(path: Path, encoding: str) -> _Table:
    """Read a table; one that has neither mentions nor texts has no rows."""
    lines = (one.value or "" for one in read_text_lines(path, Layout(encoding)))
    first = next(filter(str.strip, lines), "")
    delimiter = max("\t;,|", key=first.count)
    names, is_tsv = [cell.strip(' "') for cell in first.split(delimiter)], delimiter == "\t"
    has_header = len(names) != len(_CODIESP) or not _SPANS.fullmatch(names[-1])
    table = _Table(path, names if has_header else _CODIESP, [])
    if not table.find_roles() and not table.find(_WHOLE_TEXT):
        return table
    names = table.names
    check_names(names, path)
    readings: list[list[Record]] = []
    for quoting in ("none", "minimal"):
        layout = Layout(encoding, delimiter, quoting)
        with suppress(BiomedError) if readings else nullcontext():
            readings.insert(0, [*read_delimited(path, names, layout, has_header=has_header)])
    # Shared tasks do not quote cells of TSV; a quotation mark in one must not join it with others.
    records = min(
        readings,
        key=lambda found: sum(bool(one.error) or one.is_doubtful * is_tsv for one in found),
    )
    for record in records:
        with leaving_out():
            if record.error:
                raise BiomedError(f"{path}:{record.line}: {record.error}")
            table.rows.append((f"{path}:{record.line}", record.value))
    return table


def _list_texts(tables: Iterable[_Table]) -> dict[str, tuple[str, str]]:
    """The texts in tables, by name, each with its `file:line`."""
    texts: dict[str, tuple[str, str]] = {}
    for table in tables:
        roles = table.find_roles().values()
        columns = table.find(_WHOLE_TEXT, roles)[:1]
        keys = table.find(_DOCUMENT, [*columns, *roles])[:1]
        for where, cells in table.rows if columns and keys else ():
            name, text = _name(cells[keys[0]]), cells[columns[0]]
            if texts.setdefault(name, (where, text))[1] != text:
                with leaving_out():
                    raise BiomedError(f"{where}: another text of {quote(name)}; keep one of them")
    return texts


def _find_near(folder: Path, tables: Sequence[Sequence[_Row]]) -> list[Path]:
    """The texts in the folder of a table, one below it, or one beside it, if all are there."""
    for place, pattern in ((folder, "*"), (folder, "*/*"), (folder.parent, "*/*")):
        found = [one for one in sorted(place.glob(pattern)) if one.suffix.lower() == TEXT]
        names = {one.stem for one in found}
        if all(name.rpartition("/")[2] in names for name, _ in _name_rows(tables, names)):
            return found
    return []


def _choose_texts(
    files: list[Path],
    tables: Sequence[Sequence[_Row]],
    encoding: str,
    *,
    are_given: bool = True,
) -> dict[str, Path]:
    """The texts by their names.

    A text is any file in or below the folder that has all texts with rows; files elsewhere, such as
    a description of the corpus, are not read. If the files were not given, those with rows are. Of
    files with one name, such as translations, those in the folder count whose texts read as the
    most rows quote them.
    """
    depth = max((row.names[0].count("/") for rows in tables for row in rows), default=0) + 1
    by_name: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        by_name["/".join(file.with_suffix("").parts[-depth:])].append(file)
    named = {name: row.given.get("text", "") for name, row in _name_rows(tables, by_name)}
    fitting = Counter[Path]()
    for name in named.keys() & by_name.keys():
        for file in by_name[name] if len(by_name[name]) > 1 else ():
            fitting[file.parent] += named[name] in _read(file, encoding)
    best = {
        name: max(found, key=lambda one: fitting[one.parent]) for name, found in by_name.items()
    }
    folders = [best[name].parent for name in named if name in best]
    top = Path(os.path.commonpath(folders or [Path()]))
    chosen = {}
    for name, file in best.items():
        if name in named or (are_given and (not named or top in file.parents)):
            chosen[name] = file
            for other in by_name[name]:
                may_be = other != file and fitting[other.parent] == fitting[file.parent]
                if may_be and _read(file, encoding) != _read(other, encoding):
                    raise BiomedError(
                        f"{file}: {other} has the same name and another text; give one of the two"
                    )
    return chosen


def _tell_others(files: list[Path]) -> None:
    if files:
        shown = ", ".join(escape(one.name) for one in files[:5])
        more = f" and {len(files) - 5:,} more" if len(files) > 5 else ""
        print(
            f"⚠ {files[0].parent}: {shown}{more}: not read, since no row is about these texts, or "
            "these tables have no offsets",
            file=sys.stderr,
        )


def _parse_row(tag_label: str | None, row: _Row) -> Quoted:
    """A mention, its text as the row has it, and `file:line`."""
    given = row.given
    if "spans" in given:
        numbers = re.findall(r"\d+", given["spans"]) if _SPANS.fullmatch(given["spans"]) else []
    else:
        found = [_OFFSET.fullmatch(given[role]) for role in ("start", "end")]
        numbers = [one[1] for one in found if one]
    if len(numbers) < 2:
        shown = " and ".join(quote(given[one]) for one in _PLACE[:3] if one in given)
        raise BiomedError(f"{row.where}: {shown} for the offsets; write whole numbers")
    label = given.get("label", tag_label)
    if label is None:
        raise BiomedError(f"{row.where}: no column has labels; give one to all with --tag-label")
    offsets = [*map(documents.parse_offset, numbers)]
    fragments: tuple[Offsets, ...] = tuple(zip(offsets[::2], offsets[1::2], strict=True))
    attributes = {**row.others, "concept": _join_codes(given.get("concept", ""), row.others)}
    # What `annotate` writes.
    with suppress(AttributeError, RecursionError, ValueError):
        written = json.loads(attributes.get("attributes", "")).items()
        del attributes["attributes"]
        attributes |= {name: "; ".join(list_values(one)) for name, one in written}
        attributes["concept"] = attributes.pop("kb_id", attributes["concept"])
    attributes = {name: value for name, value in attributes.items() if value}
    mention = Mention(label, fragments, given.get("id", ""), attributes)
    return mention, given.get("text") or None, row.where


def _join_codes(value: str, others: Mapping[str, str]) -> str:
    """The codes of a cell as `split_ids` separates them."""
    if "isH" in others or "isN" in others:  # LivingNER marks codes that are not exact
        value = re.sub(r"\|[HN](?=\||$)", "", value)
    return re.sub(r" ?\+ ?", "; ", value) if _SUM.fullmatch(value) else value


def _read_mentions(content: str, rows: Iterable[_Row], tag_label: str | None) -> list[Mention]:
    """The mentions of a text, which may begin with a byte-order mark."""
    # Programs differ in whether they count a byte-order mark.
    shifts = (0, -1) if content.startswith(BYTE_ORDER_MARK) else (0,)
    text = content.removeprefix(BYTE_ORDER_MARK)
    # A row of a text without mentions may have no offsets.
    filled = (row for row in rows if any(row.given.get(role) for role in _PLACE))
    found = [*keep_sound(partial(_parse_row, tag_label), filled)]
    mentions: list[Mention] = []
    tables: dict[str, dict[str, set[tuple[Offsets, ...]]]] = defaultdict(lambda: defaultdict(set))
    for number, placed in locate_all(text, found, shifts):
        where = found[number][2]
        with leaving_out():
            mention = documents.join_fragments(text, placed, where)
            mentions.append(mention)
            tables[mention.label][where.rpartition(":")[0]].add(mention.fragments)
    for label, by_table in tables.items():
        most = max(by_table, key=lambda one: len(by_table[one]))
        for table in (one for one in by_table if not by_table[one] <= by_table[most]):
            raise BiomedError(
                f"{table}: mentions of {quote(label)} that {most} does not have in the same text, "
                "and the reverse; give the table of one annotator, or join the tables"
            )
    return mentions
