"""ChemProt (BioCreative VI track 5) as its organisers publish it: three `.tsv` files per part."""

from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, escape, quote
from .documents import Document, Mention, Relation, list_files, look_up, number_lines, parse_offset
from .repairs import leaving_out, locate

ABSTRACTS, ENTITIES, RELATIONS = "abstracts", "entities", "relations"

_SHAPES = {
    ABSTRACTS: "id, title, abstract",
    ENTITIES: "id, T1, type, start, end, string",
    RELATIONS: "id, CPR:3, Y, ACTIVATOR, Arg1:T1, Arg2:T2",
}
_ARGUMENTS = ("Arg1:", "Arg2:")


def read_chemprot(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read the abstracts of a folder, or of one `..._abstracts....tsv` file.

    Entities and relations are in the files whose names have `entities` and `relations` in place
    of `abstracts`. A text is title and abstract with one space between, as the offsets count.
    Relations that the shared task evaluates (`Y` in the third column) become relations labelled
    with their group (`CPR:3`), from their first argument to their second. Other relations are
    negative in the task and left out.

    Raises:
        BiomedError: if a file is missing, a line is malformed, an abstract is given twice or
            missing, a mention lies beyond the text or reads differently, or an argument is unknown.
    """
    root = Path(path)
    files = [file for file in list_files(root, (".tsv",)) if f"_{ABSTRACTS}" in file.name]
    if not files:
        raise BiomedError(f"{root}: no ..._abstracts.tsv here; give the folder of one part")
    for file in files:
        yield from _read_part(file, encoding)


def _read_part(path: Path, encoding: str) -> list[Document]:
    documents: dict[str, Document] = {}
    for where, (id, title, abstract) in _read_rows(path, ABSTRACTS, encoding):
        if id in documents:
            raise BiomedError(f"{where}: abstract {escape(id)} is there twice; remove one")
        documents[id] = Document(id, f"{title} {abstract}", [], [], source=where)
    entities = path.with_name(path.name.replace(ABSTRACTS, ENTITIES))
    known: dict[str, set[str]] = {id: set() for id in documents}
    for where, (id, entity, label, start, end, string) in _read_rows(entities, ENTITIES, encoding):
        with leaving_out():
            document = look_up(documents, id, where, f"abstract {escape(id)}")
            if not (start.isdecimal() and end.isdecimal()):
                raise BiomedError(
                    f"{where}: {quote(start)} and {quote(end)} are not offsets; write whole numbers"
                )
            mention = Mention(label, ((parse_offset(start), parse_offset(end)),), entity)
            document.mentions.append(locate(document.text, mention, string, where))
            known[id].add(entity)
    relations = path.with_name(path.name.replace(ABSTRACTS, RELATIONS))
    for where, (id, group, evaluated, _, *arguments) in _read_rows(relations, RELATIONS, encoding):
        with leaving_out():
            document = look_up(documents, id, where, f"abstract {escape(id)}")
            head, tail = _parse_arguments(arguments, known[id], where)
            if evaluated.strip() not in ("Y", "N"):
                raise BiomedError(f"{where}: {quote(evaluated)} in the third column; write Y or N")
            if evaluated.strip() == "Y":
                document.relations.append(Relation(group, head, tail))
    return list(documents.values())


def _read_rows(path: Path, kind: str, encoding: str) -> Iterator[tuple[str, list[str]]]:
    """Yield `file:line` and the fields of each line."""
    count = len(_SHAPES[kind].split(", "))
    for number, line in number_lines(path, encoding):
        fields = line.split("\t")
        if len(fields) != count:
            raise BiomedError(
                f"{path}:{number}: {len(fields)} columns; write {_SHAPES[kind]} with tabs between"
            )
        yield f"{path}:{number}", fields


def _parse_arguments(arguments: list[str], known: set[str], where: str) -> list[str]:
    ids = []
    for argument, prefix in zip(arguments, _ARGUMENTS, strict=True):
        id = argument.strip().removeprefix(prefix)
        if not argument.startswith(prefix) or id not in known:
            raise BiomedError(
                f"{where}: {quote(argument)} is not an entity of this abstract; write {prefix} and "
                "its id"
            )
        ids.append(id)
    return ids
