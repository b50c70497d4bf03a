"""The formats in which terminologies are published."""

import csv
import io
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple
from xml.etree.ElementTree import Element, ParseError, iterparse

from ..errors import BiomedError, list_choices, quote
from ..files.compression import COMPRESSED_ENDINGS, max_line, open_binary, reading
from ..files.records import check_names, may_be_records

# SNOMED CT's codes of a fully specified name, and of the relation "is a".
_FULL_NAME, _IS_A = "900000000000003001", "116680003"
# Its associations of an inactive concept with the one in its place: "replaced by" and "same as".
_REPLACED = ("900000000000526001", "900000000000527005")
_TAG = re.compile(r"(.+) \(([^()]+)\)")
# Properties of OBO Graphs: an id that was merged into this one, and one that replaces this one.
_ALTERNATIVE, _REPLACEMENT = "hasAlternativeId", "IAO_0100001"
# Concepts that were merged one after the other.
_MOST_MERGERS = 10
_OBO_SYNONYM = re.compile(r'"((?:[^"\\]|\\.)*)" (?!BROAD)')
# Escapes of white space in OBO, other characters being themselves; what may follow a name there.
_OBO_ESCAPE = re.compile(r"\\([ntW])|\\(.)")
_OBO_SOURCES = re.compile(r'\s*(?<!\\)\{[\w:.-]+="[^{}]*"\}$')
# Kinds in names.dmp that are left out: names with an author, and specimens.
_NO_NAMES = ("authority", "type material")
_CSV_REASONS = {"unexpected end of data": "a quotation mark opens a field and none closes it"}
# Formats whose names have a language.
_WITH_LANGUAGES = ("rrf", "rf2")
# Kinds of RxNorm's own names that are not the normal name of their concept.
_RXNORM_SYNONYMS = ("SY", "TMSY", "PSN", "ET")
_UMLS_LANGUAGES = {"en": "ENG", "es": "SPA", "fr": "FRE", "de": "GER", "pt": "POR", "it": "ITA"}


class Term(NamedTuple):
    """A concept of a terminology.

    Attributes:
        names: the preferred name first.
        type: such as a semantic type, a semantic tag or a rank; "" without one.
        parent: id of a broader concept; "" without one.
        former: ids of concepts that were merged into it.
    """

    id: str
    names: tuple[str, ...]
    type: str = ""
    parent: str = ""
    former: tuple[str, ...] = ()


class Source(NamedTuple):
    """A terminology to read."""

    path: Path
    language: str | None  # ISO 639-1 code of the names to read, of formats that have several
    meta: dict[str, str]  # what the file says, which its reader sets: `version`, `licence`
    successors: dict[str, str]  # ids of merged concepts to what they became, which it sets too

    def find(self, pattern: str, *, needed: bool = True) -> list[Path]:
        """The files that fit a pattern, compressed or not, in or below the folder.

        If there are none, their parts: "MRCONSO.RRF.aa.gz", "MRCONSO.RRF.ab.gz". If the path is a
        file: the file itself where it fits, else those beside it.
        """
        whole, parts = (
            [f"{pattern}{part}{ending}" for ending in ("", *COMPRESSED_ENDINGS)]
            for part in ("", ".a[a-z]")
        )
        if self.path.is_file():
            found = [self.path] if any(map(self.path.match, whole)) else []
            folder, search = self.path.parent, Path.glob
        else:
            found, folder, search = [], self.path, Path.rglob
        for patterns in (whole, parts):
            found = found or sorted(path for one in patterns for path in search(folder, one))
        if needed and not found:
            raise BiomedError(f"{folder}: no file {pattern} there; give the unpacked release")
        return found


def read_terms(
    path: Path, format: str, language: str | None = None
) -> tuple[list[Term], dict[str, str]]:
    """Read a terminology.

    Args:
        path: the file, which may be compressed (.gz, .xz), or a folder for "rrf", "rf2" and
            "taxonomy".
        format: one of `FORMATS`.
        language: of the names, for "rrf" and "rf2" alone.

    Returns:
        the concepts, each once, with names that differ; and what the file says of its version and
        licence.

    Raises:
        BiomedError: if the format is unknown or has no languages, or the file cannot be read or has
            no concepts.
    """
    if format not in FORMATS:
        raise BiomedError(f"--format {quote(format)}: {list_choices(format, FORMATS)}")
    if language and format not in _WITH_LANGUAGES:
        raise BiomedError(
            f"--language {quote(language)}: names of the format {format} have no language; leave "
            f"--language out, which is for {' and '.join(_WITH_LANGUAGES)}"
        )
    if not path.exists():
        raise BiomedError(f"{path}: no such file or folder; check the path")
    source = Source(path, language, {}, {})
    merged: dict[str, Term] = {}
    for term in FORMATS[format](source):
        known = merged.get(term.id)
        names = (*(known.names if known else ()), *term.names)
        names = tuple(dict.fromkeys(name for name in map(str.strip, names) if name))
        if term.id and names:
            merged[term.id] = (known or term)._replace(names=names)
    if not merged:
        option = "--format, --language" if language else "--format"
        raise BiomedError(f"{path}: no concepts of the format {format}; check {option} and file")
    _add_former(merged, source.successors)
    return list(merged.values()), source.meta


def _add_former(terms: dict[str, Term], successors: Mapping[str, str]) -> None:
    """Give terms the ids of concepts that were merged into them, perhaps in several steps."""
    former: dict[str, list[str]] = defaultdict(list)
    for old, id in successors.items():
        for _ in range(_MOST_MERGERS):
            id = id if id in terms else successors.get(id, id)
        if old and id in terms and old not in terms:
            former[id].append(old)
    for id, ids in former.items():
        terms[id] = terms[id]._replace(former=tuple(ids))


def _read_lines(path: Path, newline: Literal["", "\n"] = "\n") -> Iterator[str]:
    """The lines of a text file in UTF-8, with their ends."""
    with reading(path), open_binary(path, "rb", path.suffix) as stream:
        yield from io.TextIOWrapper(stream, "utf-8-sig", newline=newline)


def _split_lines(paths: Iterable[Path], separator: str, least: int) -> Iterator[list[str]]:
    for path in paths:
        for number, line in enumerate(_read_lines(path), 1):
            fields = line.rstrip("\r\n").split(separator)
            if fields == [""]:
                continue
            if len(fields) < least:
                raise BiomedError(
                    f"{path}:{number}: fewer than {least} fields; check --format and file"
                )
            yield fields


def _read_csv(source: Source) -> Iterator[Term]:
    lines = _read_lines(source.path, newline="")
    first = next(lines, "")
    delimiter = max(",;\t", key=first.count)
    csv.field_size_limit(max_line())
    rows = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    begin, doubtful = 1, []
    try:
        header = [name.strip().lower() for name in next(rows, [])]
        if header.count("id") != 1 or header.count("name") != 1:
            raise csv.Error(
                "not one column id and one column name, with a comma, semicolon or tab between; "
                "write a header such as id,name,synonyms,type,parent"
            )
        check_names(header, source.path)
        begin = rows.line_num + 1
        for row in rows:
            doubtful += [begin] if may_be_records(row, delimiter) else []
            # A cell may have line ends.
            values = [" ".join(cell.split()) for cell in row]
            if any(values):
                if len(values) != len(header):
                    raise csv.Error(f"{len(values)} of {len(header)} fields")
                cells = dict(zip(header, values, strict=True))
                if empty := [name for name in ("id", "name") if not cells[name]]:
                    raise csv.Error(f"the {empty[0]} is empty")
                names = (cells["name"], *cells.get("synonyms", "").split("|"))
                yield Term(cells["id"], names, cells.get("type", ""), cells.get("parent", ""))
            begin = rows.line_num + 1
    except csv.Error as error:
        reason = _CSV_REASONS.get(str(error), error)
        raise BiomedError(f"{source.path}:{begin}: {reason}; correct the line") from error
    if doubtful:
        print(
            f"⚠ {source.path}:{doubtful[0]}: a quoted field of several lines, each of which would "
            f"be a record by itself ({len(doubtful):,} in the file); if they are, correct the "
            "quotation marks",
            file=sys.stderr,
        )


def _read_obo(source: Source) -> Iterator[Term]:
    stanza: dict[str, list[str]] = defaultdict(list)
    kind, begin = "", 1
    for number, line in enumerate(chain(_read_lines(source.path), ["[]"]), 1):
        if not line.startswith("["):
            tag, _, value = line.partition(":")
            stanza[tag].append(value.strip())
            continue
        if not kind:
            source.meta["version"] = next(iter(stanza["data-version"]), "")
            licences = [one for one in stanza["property_value"] if "license" in one]
            source.meta["licence"] = licences[0].partition(" ")[2] if licences else ""
        elif kind == "[Term]":
            tags = ("id", "namespace", "is_a", "replaced_by")
            id, type, parent, replacement = ([*stanza[tag], ""][0].split(" ")[0] for tag in tags)
            if not id:
                raise BiomedError(f"{source.path}:{begin}: a [Term] has no id; correct the file")
            if "true" in "".join(stanza["is_obsolete"]):
                source.successors.setdefault(id, replacement)
            else:
                found = [_OBO_SOURCES.sub("", one) for one in stanza["name"]]
                found += (one[1] for one in map(_OBO_SYNONYM.match, stanza["synonym"]) if one)
                names = tuple(_OBO_ESCAPE.sub(lambda m: m[2] or " ", one) for one in found)
                source.successors.update((one.split(" ")[0], id) for one in stanza["alt_id"])
                yield Term(id, names, type, parent)
        stanza, kind, begin = defaultdict(list), line.strip(), number


def _read_owl_json(source: Source) -> Iterator[Term]:
    """OBO Graphs, as OWL ontologies are published in JSON."""
    try:
        graphs = json.loads("".join(_read_lines(source.path)))["graphs"]
        meta = graphs[0].get("meta") or {}
        licences = [
            one["val"] for one in _list(meta, "basicPropertyValues") if "license" in one["pred"]
        ]
        source.meta["version"] = meta.get("version") or ""
        source.meta["licence"] = licences[0] if licences else ""
        edges = [edge for graph in graphs for edge in _list(graph, "edges")]
        parents = {_shorten(one["sub"]): one["obj"] for one in edges if one["pred"] == "is_a"}
        for node in (node for graph in graphs for node in _list(graph, "nodes")):
            meta, id = node.get("meta") or {}, _shorten(node["id"])
            for one in _list(meta, "basicPropertyValues"):
                if one["pred"].endswith(_REPLACEMENT) and meta.get("deprecated"):
                    source.successors[id] = _shorten(str(one["val"]))
                elif one["pred"].endswith(_ALTERNATIVE):
                    source.successors[_shorten(str(one["val"]))] = id
            if node.get("type") == "CLASS" and node.get("lbl") and not meta.get("deprecated"):
                synonyms = _list(meta, "synonyms")
                names = [one["val"] for one in synonyms if one["pred"] != "hasBroadSynonym"]
                found = tuple(str(name) for name in (node["lbl"], *names) if name is not None)
                yield Term(id, found, "", _shorten(parents.get(id, "")))
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BiomedError(
            f"{source.path}: not OBO Graphs in JSON ({error!r}); check --format and file"
        ) from error


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    """The list of a field, which may be missing or null."""
    return fields.get(name) or []


def _shorten(iri: str) -> str:
    """HP:0000001 of http://purl.obolibrary.org/obo/HP_0000001."""
    return re.split("[/#]", iri)[-1].replace("_", ":", 1)


def _read_rrf(source: Source) -> Iterator[Term]:
    """UMLS or RxNorm: names, semantic types, and what was merged, in three files."""
    is_rxnorm = not source.find("MRCONSO.RRF", needed=False) and bool(
        source.find("RXNCONSO.RRF", needed=False)
    )
    prefix = "RXN" if is_rxnorm else "MR"
    semantic_types = _split_lines(source.find(f"{prefix}STY.RRF", needed=False), "|", 4)
    types = {row[0]: row[3] for row in semantic_types}
    # What says that one concept took the place of another, and the column with that one.
    column, kind, successor = (3, "1", 4) if is_rxnorm else (2, "SY", 5)
    retired = _split_lines(source.find(f"{prefix}CUI.RRF", needed=False), "|", successor + 1)
    source.successors.update((row[0], row[successor]) for row in retired if row[column] == kind)
    language = _UMLS_LANGUAGES.get(source.language or "", (source.language or "").upper())
    names: dict[str, list[str]] = defaultdict(list)
    for row in _split_lines(source.find(f"{prefix}CONSO.RRF"), "|", 17):
        if language not in ("", row[1]) or row[16] != "N":
            continue
        if is_rxnorm:
            is_preferred = row[11] == "RXNORM" and row[12] not in _RXNORM_SYNONYMS
        else:
            is_preferred = row[1:3] == [language or "ENG", "P"] and (row[4], row[6]) == ("PF", "Y")
        names[row[0]].insert(0 if is_preferred else len(names[row[0]]), row[14])
    return (Term(id, tuple(found), types.get(id, "")) for id, found in names.items())


def _read_rf2(source: Source) -> Iterator[Term]:
    """SNOMED CT; the tag of the full name is the type."""
    concepts = _split_lines(source.find("sct2_Concept_*Snapshot*.txt", needed=False), "\t", 3)
    inactive = {row[0] for row in concepts if row[2] == "0"}
    relations = _split_lines(source.find("sct2_Relationship_*Snapshot*.txt", needed=False), "\t", 8)
    parents = {row[4]: row[5] for row in relations if row[2] == "1" and row[7] == _IS_A}
    associations = source.find("der2_cRefset_Association*Snapshot*.txt", needed=False)
    for row in _split_lines(associations, "\t", 7):
        if row[2] == "1" and row[4] in _REPLACED:
            source.successors[row[5]] = row[6]
    language = (source.language or "").lower()
    names: dict[str, list[str]] = defaultdict(list)
    types: dict[str, str] = {}
    for row in _split_lines(source.find("sct2_Description_*Snapshot*.txt"), "\t", 8):
        id, name = row[4], row[7]
        if row[2] != "1" or id in inactive or language not in ("", row[5]):
            continue
        place = len(names[id])
        if row[6] == _FULL_NAME and (tagged := _TAG.fullmatch(name)):
            name, place = tagged[1], place if id in types else 0
            types.setdefault(id, tagged[2])
        names[id].insert(place, name)
    for id, found in names.items():
        yield Term(id, tuple(found), types.get(id, ""), parents.get(id, ""))


def _read_mesh(source: Source) -> Iterator[Term]:
    """MeSH descriptors or supplementary records; the first letter of the tree is the type."""
    trees: dict[str, str] = {}
    rows: list[tuple[str, tuple[str, ...], list[str], str]] = []
    for record in _iterate_xml(source.path, ("DescriptorRecord", "SupplementalRecord")):
        is_supplement = record.tag.startswith("S")
        kind = record.tag if is_supplement else "Descriptor"
        id = record.findtext(f"{kind}UI", "")
        terms = (one.text or "" for one in record.iterfind(".//Term/String"))
        own = [one.text or "" for one in record.iterfind("TreeNumberList/TreeNumber")]
        trees |= dict.fromkeys(own, id)
        # A descriptor refers to related ones, which are not above it.
        referred = ".//DescriptorReferredTo/DescriptorUI"
        mapped = record.findtext(referred, "").lstrip("*") if is_supplement else ""
        rows.append((id, (record.findtext(f"{kind}Name/String", ""), *terms), own, mapped))
    for id, names, own, mapped in rows:
        above = own[0].rpartition(".")[0] if own else ""
        yield Term(id, names, own[0][0] if own and own[0] else "", trees.get(above, mapped))


def _iterate_xml(path: Path, tags: Iterable[str]) -> Iterator[Element]:
    with reading(path), open_binary(path, "rb", path.suffix) as stream:
        try:
            for _, element in iterparse(stream):
                if element.tag in tags:
                    yield element
                    element.clear()
        except ParseError as error:
            raise BiomedError(
                f"{path}: not readable as XML ({error}); check --format and file"
            ) from error


def _read_taxonomy(source: Source) -> Iterator[Term]:
    """The dump of the NCBI Taxonomy; the rank is the type."""
    nodes = _split_lines(source.find("nodes.dmp"), "\t|\t", 3)
    places = {row[0]: (row[2].removesuffix("\t|"), row[1]) for row in nodes}
    source.meta["licence"] = "public domain"
    merged = _split_lines(source.find("merged.dmp", needed=False), "\t|\t", 2)
    source.successors.update((old, id.removesuffix("\t|")) for old, id, *_ in merged)
    names: dict[str, list[str]] = {id: [] for id in places}
    for id, name, _, kind, *_ in _split_lines(source.find("names.dmp"), "\t|\t", 4):
        kind = kind.removesuffix("\t|")
        if id in names and kind not in _NO_NAMES:
            names[id].insert(0 if kind == "scientific name" else len(names[id]), name)
    return (Term(id, tuple(found), *places[id]) for id, found in names.items())


FORMATS: dict[str, Callable[[Source], Iterable[Term]]] = {
    "csv": _read_csv,
    "obo": _read_obo,
    "owl-json": _read_owl_json,
    "rrf": _read_rrf,
    "rf2": _read_rf2,
    "mesh-xml": _read_mesh,
    "taxonomy": _read_taxonomy,
}
