"""brat's standoff format: a `.txt` file and an `.ann` file (or `.a1`, `.a2`) of the same name."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..errors import BiomedError, escape, quote
from . import documents
from .assertion_attributes import mark_scopes
from .documents import Document, Mention, Relation
from .findings import AnnotatedShard, Row, list_mentions, name_file
from .json_fields import list_values
from .offsets import Quoted
from .registry import Format
from .repairs import LEFT_OUT, keep_sound, leaving_out, locate_all, note

ANNOTATIONS = ".ann"
# The shared tasks of BioNLP separate given annotations from those to be found.
TASK_ANNOTATIONS = (".a1", ".a2")

# `file:line`, and the line.
_Placed = tuple[str, str]

_TEXT_LINE = re.compile(r"[^\r\n]+")
_MENTION = re.compile(r"(\S+) (-?\d+ -?\d+(?:; ?-?\d+ -?\d+)*)")
_SHAPES = {
    "T": "T1<TAB>Label 0 5<TAB>covered text",
    "R": "R1<TAB>Label Arg1:T1 Arg2:T2",
    "E": "E1<TAB>Label:T1 Role:T2",
    "A": "A1<TAB>Name T1 or A1<TAB>Name T1 Value",
    "M": "M1<TAB>Name T1 or M1<TAB>Name T1 Value",
    "N": "N1<TAB>Reference T1 Resource:Entry<TAB>text",
    "#": "#1<TAB>AnnotatorNotes T1<TAB>text",
    "*": "*<TAB>Equiv T1 T2",
}


def read_brat(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read the `.txt` and `.ann` pairs in and below a folder (or the single pair of a `.txt` file).

    An `.ann` file by itself gives no document, since it is read with its text. A text without
    `.ann` may have its annotations in `.a1` and `.a2`, as BioNLP's shared tasks publish them; both
    are read as if they were one file.

    Entities (T) become mentions. Fragments with only white space between them are joined, since
    brat splits a mention at the end of a line. Attributes (A, M), normalisations (N) and notes (#)
    on an entity, or on the event that it triggers, become its `attributes`; so do the attributes in
    a note of `write_brat`. Entities in the scope of a cue get "is_negated" or "is_uncertain"
    (`assertion_attributes.mark_scopes`). Relations (R) keep their label and arguments. An event (E)
    becomes a relation for each argument, labelled with the argument's role, from the event's
    trigger to the argument. An argument that is an event stands for that event's trigger, and
    "Theme2" beside "Theme" has the same role. An event without a trigger becomes a relation with
    the event's label from its first to its second argument, and a relation with the role as label
    to each further argument. An equivalence (*) becomes a relation from its first member to each
    other member.
    `relations` is a list in every document if any file has one of these, otherwise None.

    Offsets count code points of the unchanged file. If the covered strings show that they count
    other units, or the byte-order mark, they are read accordingly.

    Raises:
        BiomedError: if a line is of another kind, if an id is used but not defined, or if a mention
            lies beyond the text or reads differently. Also if a file lacks its counterpart (a text
            without mentions has an empty `.ann`).
    """
    root = Path(path)
    endings = (ANNOTATIONS, *TASK_ANNOTATIONS)
    texts = [
        one for one in documents.list_files(root, (".txt",)) if one.suffix.lower() not in endings
    ]
    for file in documents.list_files(root, endings):
        with leaving_out():
            if file.suffix.lower() in endings and not file.with_suffix(".txt").is_file():
                raise BiomedError(f"{file}: there is no {file.stem}.txt beside it; add its text")
    annotations = dict(keep_sound(lambda file: (file, _read_annotations(file, encoding)), texts))
    has_relations = any(
        line[:1] in ("R", "E", "*") for lines in annotations.values() for _, line in lines
    )
    folder = root if root.is_dir() else root.parent
    for file in list(annotations):
        with leaving_out():
            document = _read_pair(file, annotations.pop(file), encoding)
            document.id = file.relative_to(folder).with_suffix("").as_posix()
            if not has_relations:
                document.relations = None
            yield document


def _read_annotations(text_file: Path, encoding: str) -> list[_Placed]:
    """Read the lines of a text's annotations, each with its `file:line`."""
    files = [text_file.with_suffix(suffix) for suffix in (ANNOTATIONS, *TASK_ANNOTATIONS)]
    files = [file for file in files if file.is_file()]
    if not files:
        raise BiomedError(
            f"{text_file}: there is no {text_file.stem}{ANNOTATIONS} beside it; add one, even empty"
        )
    return [
        (f"{file}:{number}", line)
        for file in (files[:1] if files[0].suffix == ANNOTATIONS else files)
        for number, line in documents.number_lines(file, encoding, may_be_empty=True)
    ]


class _Line:
    """One line of annotations: its place, kind (`T`), id (`T1`), and further fields."""

    def __init__(self, where: str, text: str) -> None:
        self.where = where
        self.id, *self.fields = text.split("\t")
        self.kind = self.id[:1]
        self.text = text
        if self.kind not in _SHAPES or not self.fields or not self.fields[0].strip():
            raise self.malformed()

    def malformed(self) -> BiomedError:
        shape = _SHAPES.get(self.kind, _SHAPES["T"])
        return BiomedError(
            f"{self.where}: malformed line {quote(self.text)}; write it as {shape} with tabs"
        )

    def find(self, id: str, arguments: dict[str, Mention]) -> Mention:
        """The mention that an argument, an entity or an event, stands for."""
        return documents.look_up(arguments, id, self.where, f"{escape(id)} in this file")


def _read_pair(text_path: Path, lines: list[_Placed], encoding: str) -> Document:
    parsed = list(keep_sound(lambda placed: _Line(*placed), lines))
    entities = list(keep_sound(_parse_entity, (line for line in parsed if line.kind == "T")))
    # A text may be empty if nothing is annotated in it.
    content = documents.decode(text_path.read_bytes(), text_path, encoding, may_be_empty=not lines)
    # Programs differ in whether they count a byte-order mark.
    shifts = (0, -1) if content.startswith(documents.BYTE_ORDER_MARK) else (0,)
    text = content.removeprefix(documents.BYTE_ORDER_MARK)
    mentions: dict[str, Mention] = {}
    for number, mention in locate_all(text, entities, shifts):
        *_, where = entities[number]
        with leaving_out():
            if mention.id in mentions:
                raise BiomedError(
                    f"{where}: {escape(mention.id)} is there twice; give each its own id"
                )
            mentions[mention.id] = documents.join_fragments(text, mention, where)
    arguments = mentions | _find_triggers(parsed, mentions)
    relations: list[Relation] = []
    for line in parsed:
        with leaving_out():
            if line.kind in "RE*":
                relations.extend(_parse_relations(line, arguments))
            elif line.kind in "AMN#":
                _add_attribute(line, arguments)
    mark_scopes(mentions.values(), relations)
    found = list(mentions.values())
    return Document(text_path.stem, text, found, relations, source=f"{text_path}:1")


def _parse_entity(line: _Line) -> Quoted:
    match = _MENTION.fullmatch(line.fields[0])
    if match is None or len(line.fields) < 2:
        raise line.malformed()
    label, offsets = match.groups()
    fragments = tuple(
        (documents.parse_offset(start), documents.parse_offset(end))
        for start, end in (pair.split() for pair in offsets.split(";"))
    )
    return Mention(label, fragments, line.id), "\t".join(line.fields[1:]), line.where


def _find_triggers(lines: list[_Line], mentions: dict[str, Mention]) -> dict[str, Mention]:
    """Map each event's id to the entity that is its trigger, or its first argument."""
    triggers = {}
    for line in (line for line in lines if line.kind == "E"):
        with leaving_out():
            trigger = re.search(":(\\S*)", line.fields[0])
            if not trigger or not trigger[1]:
                raise line.malformed()
            if trigger[1] in mentions:
                triggers[line.id] = mentions[trigger[1]]
    return triggers


def _parse_relations(line: _Line, arguments: dict[str, Mention]) -> Iterator[Relation]:
    label, *parts = line.fields[0].split()
    roles = [part.partition(":") if line.kind != "*" else ("", ":", part) for part in parts]
    has_trigger = line.kind == "E" and ":" in label
    is_short = len(roles) < 2 and not has_trigger
    if is_short or not all(colon and id for _, colon, id in roles):
        raise line.malformed()
    ids = [line.find(id, arguments).id for _, _, id in roles]
    if line.kind == "R" and len(ids) != 2:
        raise line.malformed()
    labels = [role for role, _, _ in roles]
    # "Theme2" beside "Theme" is a second theme.
    labels = [stem if (stem := one.rstrip("0123456789")) in labels else one for one in labels]
    if has_trigger:
        head = line.find(line.id, arguments).id
    else:
        head, *ids = ids
        labels = [label, *(role or label for role in labels[2:])]
    for role, id in zip(labels, ids, strict=True):
        yield Relation(role, head, id, line.id)


def _add_attribute(line: _Line, arguments: dict[str, Mention]) -> None:
    """Add an attribute, a normalisation or a note to its mention.

    Attributes of relations and those without an id are left out: only mentions have attributes.
    """
    name, *rest = line.fields[0].split()
    if not rest:
        raise line.malformed()
    target = rest[0].removeprefix("Annotation:")
    if target[:1] not in ("T", "E"):
        if line.kind in "AM":
            note(LEFT_OUT, f"{line.where}: the attribute {quote(name)} of {escape(target)}")
        return
    attributes = line.find(target, arguments).attributes
    value = " ".join(rest[1:]) or "true"
    if line.kind == "N" and target != rest[0]:
        value = value.removeprefix("Referent:")
    elif line.kind == "N":
        name, colon, value = value.partition(":")
        if not colon:
            raise line.malformed()
    elif line.kind == "#":
        value = " ".join(line.fields[1:])
        with suppress(AttributeError, RecursionError, ValueError):  # not a note of `write_brat`
            written = json.loads(value).items()
            attributes |= {name: "; ".join(list_values(one)) for name, one in written}
            return
    attributes[name] = f"{attributes[name]}; {value}" if name in attributes else value


def write_brat(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a `.txt` and an `.ann` file for each document, named after its identifier.

    Entities and answers have a note with their confidence and attributes as JSON. Relations follow.
    """
    files: dict[str, bytes] = {}
    taken: set[str] = set()
    for number, item, doc, found in shard.documents:
        name = name_file(number, item.id, taken)
        files[f"{name}.txt"] = doc.text.encode()
        files[f"{name}.ann"] = "".join(_standoff(doc.text, found)).encode()
    return files


BRAT = Format(read_brat, write_brat, is_folder=True)


def _standoff(text: str, found: Row) -> Iterator[str]:
    """The lines of an `.ann` file."""
    mentions, relations = list_mentions(text, found)
    for mention in mentions:
        # A fragment for each line of the text, as brat requires.
        lines = [one.span() for one in _TEXT_LINE.finditer(text, mention.start, mention.end)]
        places = ";".join(f"{start} {end}" for start, end in lines)
        covered = " ".join(text[start:end] for start, end in lines)
        yield f"T{mention.number}\t{_one_word(mention.label)} {places}\t{covered}\n"
        note = {"confidence": mention.confidence, **mention.attributes}
        note = {name: value for name, value in note.items() if value is not None}
        if note:
            shown = json.dumps(note, ensure_ascii=False)
            yield f"#{mention.number}\tAnnotatorNotes T{mention.number}\t{shown}\n"
    for relation in relations:
        arguments = f"Arg1:T{relation.head.number} Arg2:T{relation.tail.number}"
        yield f"R{relation.number}\t{_one_word(relation.label)} {arguments}\n"


def _one_word(label: str) -> str:
    return re.sub(r"\s", "_", label) or "_"
