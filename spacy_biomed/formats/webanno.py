"""WebAnno TSV 3, as INCEpTION and WebAnno export documents: a line for each token."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product, zip_longest
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, Mention, Relation, look_up, parse_offset
from .offsets import Quoted
from .repairs import leaving_out, locate_all

HEADER = "#FORMAT=WebAnno TSV"

# Layers with these names describe the document or its words, except for named entities.
BUILT_IN = ("uima.", "de.tudarmstadt.ukp.", "org.dkpro.", "org.apache.")
NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
# Features that have the label of a span or a relation, if the layer has them.
LABELS = ("label", "value")

_LAYER = re.compile(r"#T_(SP|RL|CH)=([^|]*)\|?(.*)")
_TEXT = "#Text="
_TOKEN = re.compile(r"(\d+-\d+(?:\.\d+)?)\t(\d+)-(\d+)\t([^\t]*)\t(.*)")
_NOTHING, _NO_VALUE, _ANY = "_", "*", "uima.tcas.Annotation"
# How the features begin that name the roles of links, and what a relation is between.
_ROLE, _BASE = "ROLE_", "BT_"
# The number of an annotation behind its value; of a relation, the numbers of both ends.
_NUMBERED = re.compile(r"(.*?)(?<!\\)\[(\d+)(?:_(\d+))?\]")
_ESCAPED = re.compile(r"\\(->|.)")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_NOT_A_LABEL = re.compile(r"true|false|[-+]?\d+(\.\d+)?")


@dataclass(slots=True)
class _Row:
    """A token, or a part of one: its number, offsets, string and cells."""

    where: str
    unit: str
    start: int
    end: int
    token: str
    cells: list[str]


def read_tsv(content: str, path: Path, id: str) -> Document:
    """Read a document. Chains are not read; other layers as from a UIMA CAS (`inception`).

    Raises:
        BiomedError: if the file is not WebAnno TSV 3, a line has too few columns, or a relation has
            no annotation at an end.
    """
    text, layers, rows = _read_rows(content, path)
    found: dict[tuple[str, ...], Quoted] = {}
    names: dict[str, set[str]] = defaultdict(set)
    arcs: list[tuple[str, str, str, str]] = []  # place, label, and the names of both ends
    for row in rows:
        cells = iter(row.cells)
        for kind, layer, features in layers:
            columns = [_split(next(cells), "|") for _ in features]
            if layer.startswith(BUILT_IN) and layer != NAMED_ENTITY:
                continue
            for place, values in enumerate(zip_longest(*columns, fillvalue=_NOTHING)):
                if kind == "CH" or set(values) == {_NOTHING}:
                    continue
                given = dict(zip(features, values, strict=True))
                label, attributes, number = _read_features(layer, given)
                if kind == "RL":
                    arcs.append((row.where, label, *_find_ends(given, row.unit)))
                    continue
                key = (layer, number) if number else (layer, row.unit, str(place))
                if key not in found:
                    mention = Mention(label, ((row.start, row.end),), str(len(found)), attributes)
                    found[key] = mention, row.token, row.where
                    here = _name(layer, row.unit, number)
                    arcs += [(row.where, role, here, end) for role, end in _list_links(given)]
                else:
                    mention, covered, where = found[key]
                    mention = replace(mention, fragments=((mention.start, row.end),))
                    found[key] = mention, f"{covered}{row.token}", where
                for one, what in product((layer, _ANY), (number, "")):
                    names[_name(one, row.unit, what)].add(mention.id)
    mentions = [mention for _, mention in locate_all(text, list(found.values()))]
    kept = {mention.id for mention in mentions}
    ids = {name: min(given) for name, given in names.items() if len(given) == 1 and given <= kept}
    relations = []
    for where, label, *ends in arcs:
        with leaving_out():
            found_ends = (look_up(ids, one, where, f"single span {quote(one)}") for one in ends)
            relations.append(Relation(label, *found_ends))
    return Document(id, text, mentions, relations, source=str(path))


def _read_rows(
    content: str, path: Path
) -> tuple[str, list[tuple[str, str, list[str]]], list[_Row]]:
    """The text of a file, its layers (kind, name and features), and its tokens.

    Sentences follow each other with as many spaces as their offsets leave.
    """
    if not content.startswith(f"{HEADER} 3"):
        raise BiomedError(f"{path}: not WebAnno TSV 3; export the document again")
    layers: list[tuple[str, str, list[str]]] = []
    rows: list[_Row] = []
    text, sentence = "", list[str]()
    for number, line in enumerate(content.replace("\r\n", "\n").split("\n"), start=1):
        where = f"{path}:{number}"
        if layer := _LAYER.fullmatch(line):
            layers.append((layer[1], layer[2], layer[3].split("|")))
        elif line.startswith(_TEXT):
            sentence.append(_unescape(line.removeprefix(_TEXT)))
        elif line.strip() and not line.startswith("#"):
            columns = sum(len(features) for *_, features in layers)
            token = _TOKEN.fullmatch(line if columns else f"{line}\t")
            cells = token[5].split("\t") if token else []
            if not token or len(cells) < columns:
                raise BiomedError(
                    f"{where}: malformed line {quote(line)}; write the number of the token, its "
                    "offsets, the token, and a cell for each feature, with tabs"
                )
            start, end = parse_offset(token[2]), parse_offset(token[3])
            if sentence:
                gap = start - max((row.end for row in rows[-50:]), default=0)
                gap -= len(text) - len(text.rstrip())  # no token has the white space at its end
                text += " " * min(max(gap, 0), len(content)) + "\n".join(sentence)
                sentence = []
            rows.append(_Row(where, token[1], start, end, _unescape(token[4]), cells))
    return text, layers, rows


def _split(cell: str, separator: str) -> list[str]:
    return re.split(rf"(?<!\\){re.escape(separator)}", cell)


def _unescape(value: str) -> str:
    return _ESCAPED.sub(lambda one: _CONTROLS.get(one[1], one[1]), value)


def _read_features(layer: str, given: dict[str, str]) -> tuple[str, dict[str, str], str]:
    """The label of an annotation, its other features, and its number."""
    targets = {second for first, second in pairwise(given) if first.startswith(_ROLE)}
    number, values = "", {}
    for feature, value in given.items():
        if feature in targets or feature.startswith(_BASE):
            continue
        if numbered := _NUMBERED.fullmatch(value):
            value, number = numbered[1], numbered[2]
        if not feature.startswith(_ROLE) and value not in (_NOTHING, _NO_VALUE):
            values[feature] = _unescape(value)
    names = [name for name in LABELS if name in given] or [
        name for name, value in values.items() if not _NOT_A_LABEL.fullmatch(value)
    ]
    found = next((name for name in names if name in values), None)
    label = values.pop(found) if found else layer.rpartition(".")[2]
    return label, values, number


def _name(layer: str, unit: str, number: str) -> str:
    """What names an annotation: its layer, a token of it, and the number if others are there."""
    return f"{layer} {unit} {number}".rstrip()


def _find_ends(given: dict[str, str], unit: str) -> tuple[str, str]:
    """The names of both ends of a relation, which stands at the second."""
    base, value = next(reversed(given.items()))
    base = base.removeprefix(_BASE)
    if (numbered := _NUMBERED.fullmatch(value)) is None:
        return _name(base, value, ""), _name(base, unit, "")
    first, second = ("" if one in (None, "0") else one for one in numbered.groups()[1:])
    return _name(base, numbered[1], first), _name(base, unit, second)


def _list_links(given: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The links of a span: the role, and the name of what it links to."""
    for (feature, roles), (layer, targets) in pairwise(given.items()):
        if not feature.startswith(_ROLE) or targets == _NOTHING:
            continue
        default = feature.partition(":")[2].rpartition("_")[0]
        numbered = _NUMBERED.fullmatch(roles)
        named = _split(numbered[1] if numbered else roles, ";")
        for role, target in zip(named, _split(targets, ";"), strict=False):
            linked = _NUMBERED.fullmatch(target)
            name = _name(layer, *linked.groups()[:2]) if linked else _name(layer, target, "")
            yield default if role == _NO_VALUE else _unescape(role), name
