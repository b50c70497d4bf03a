"""UIMA CAS as XMI or JSON, or WebAnno TSV, as INCEpTION exports it, in folders and zip files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BiomedError, escape, install_command, quote
from .archives import PackedFile, list_packed_files
from .documents import BYTE_ORDER_MARK, Document, Mention, Relation, decode, look_up
from .findings import AnnotatedDocument, AnnotatedShard, list_mentions, name_file
from .json_fields import list_values, parse_json
from .offsets import Quoted
from .registry import Format
from .repairs import NOT_ANNOTATED, keep_sound, leaving_out, locate, locate_all, note
from .webanno import BUILT_IN, LABELS, NAMED_ENTITY, read_tsv
from .xml_elements import decode_xml, parse_xml

if TYPE_CHECKING:
    from cassis import Cas, TypeSystem
    from cassis.typesystem import FeatureStructure

_TSV, _XML = ".tsv", ".xml"
_SUFFIXES = (".xmi", ".json", _TSV)
_TYPES = ("TypeSystem.xml", "typesystem.xml")

_FILE = re.compile(r".+\.\w+")
_ENDING = re.compile(r"\.(xmi|xml|json|tsv|txt)$")

# Folders in the export of a project, and the "annotator" with the document as it was imported.
_ANNOTATION, _CURATION, _INITIAL = "annotation", "curation", "INITIAL_CAS"

_METADATA = "de.tudarmstadt.ukp.dkpro.core.api.metadata.type.DocumentMetaData"

_SEGMENTATION = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"

# The layers that INCEpTION's project template "Basic annotation (span/relation)" creates.
SPAN, RELATION = "custom.Span", "custom.Relation"

# The features of a relation layer.
_SOURCE, _TARGET = "Governor", "Dependent"
_PLACE = ("begin", "end", "sofa")

# XML 1.0 has no such characters.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\[\])*", re.ASCII)

_ADVICE = 'export it as "UIMA CAS XMI (XML 1.0)" or "UIMA CAS JSON 0.4.0"'


def read_inception(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read UIMA CAS files: `.xmi`, each with a `TypeSystem.xml` beside it, or `.json`; or `.tsv`
    files, which are WebAnno TSV 3; or `.xml` files with XMI but without types, as E3C is published.

    They may lie in zip files, as INCEpTION exports documents and projects. In the export of a
    project, the curated annotation of a document is read, or else that of its only annotator. A
    document without either is left out and counted.

    Annotations of all span layers become mentions: those of custom layers, and named entities. The
    label is the feature `label` or `value` of a layer that has one, or else the layer's first
    feature with a string, or else the layer's name. Other features with strings, numbers or truth
    values become attributes. Without types, the layer's name is the label. Annotations of relation
    layers become relations from their source to their target; a feature that links spans by roles
    becomes a relation for each role. `relations` is a list in every document if any has one,
    otherwise None. Sentences, tokens and other layers are not read.

    The identifier is that of the document in INCEpTION, without the ending of a file name.

    Args:
        path: a file or a folder.
        encoding: of XML that declares none.

    Raises:
        BiomedError: if dkpro-cassis is not installed, a file is not such a CAS or declares XML
            entities, a document has several annotators and no curation, or an annotation lies
            beyond the text.
    """
    files = [one for one in list_packed_files(Path(path), (*_SUFFIXES, _XML)) if _may_be_cas(one)]
    if any(file.name.suffix.lower() not in (_TSV, _XML) for file in files):
        _require_cassis(str(path))
    if not files:
        raise BiomedError(f"{path}: no {' or '.join(_SUFFIXES)} file in this folder; {_ADVICE}")
    documents = list(keep_sound(lambda chosen: _read_file(*chosen, encoding), _choose(files)))
    if not any(document.relations for document in documents):
        for document in documents:
            document.relations = None
    yield from documents


def _require_cassis(where: str) -> None:
    if find_spec("cassis") is None:
        raise BiomedError(f"{where}: needs dkpro-cassis: {install_command('inception')}")


def _may_be_cas(file: PackedFile) -> bool:
    return file.name.suffix.lower() != _XML or b"<xmi:XMI" in file.read()[:10_000]


def _choose(files: list[PackedFile]) -> Iterator[tuple[PackedFile, str | None]]:
    """Choose the file of each document, with the document's name in the export of a project."""
    by_document: dict[str, dict[str, PackedFile]] = {}
    for file in files:
        for place in range(len(file.name.parts) - 2):
            folder, document, annotator = file.name.parts[place : place + 3]
            if folder in (_ANNOTATION, _CURATION):
                if folder == _CURATION:
                    annotator = _CURATION
                elif file.name.stem == _INITIAL:  # WebAnno has it in a zip file of any name
                    annotator = _INITIAL
                by_document.setdefault(document, {})[annotator] = file
                break
    if not by_document:
        yield from ((file, None) for file in files)
    for name, annotators in by_document.items():
        where = annotators.get(_INITIAL, next(iter(annotators.values()))).path
        last = [_CURATION] if _CURATION in annotators else annotators.keys() - {_INITIAL}
        chosen = [annotators[one] for one in last]
        with leaving_out():
            if len(chosen) > 1:
                raise BiomedError(
                    f"{where}: {len(chosen)} annotators and no curation; curate the document, or "
                    "export the annotation of one of them"
                )
            if chosen:
                yield chosen[0], name
            else:
                note(NOT_ANNOTATED, f"{where}: nobody has annotated the document")


def _read_file(file: PackedFile, name: str | None, encoding: str) -> Document:
    if file.name.suffix.lower() == _TSV:
        content = decode(file.read(), file.path, encoding).removeprefix(BYTE_ORDER_MARK)
        return read_tsv(content, file.path, _ENDING.sub("", name or file.name.as_posix()))
    if file.name.suffix.lower() == _XML:
        return _read_untyped(file, _ENDING.sub("", name or file.name.as_posix()), encoding)
    with warnings.catch_warnings():
        # An offset beyond the text is refused below; one in half of a character is kept as it is.
        warnings.simplefilter("ignore")
        cas = _load(file, encoding)
    text = cas.sofa_string
    if not isinstance(text, str):
        raise BiomedError(f"{file.path}: the CAS has no text; {_ADVICE}")
    id = name or _find_id(cas) or file.name.as_posix()
    annotations = [one for one in cas.select_all_annotations() if _is_in_layer(one)]
    where = str(file.path)
    mentions = []
    for span in (one for one in annotations if not _is_relation(one)):
        with leaving_out():
            place = f"{where}: annotation {span.xmiID}"
            if not isinstance(span.begin, int) or not isinstance(span.end, int):
                raise BiomedError(f"{place} has no offsets; remove it")
            label, attributes = _read_features(span)
            mention = Mention(label, ((span.begin, span.end),), str(span.xmiID), attributes)
            mentions.append(locate(text, mention, None, place))
    relations = list(_find_relations(annotations, mentions, where))
    return Document(_ENDING.sub("", id), text, mentions, relations, source=where)


def _read_untyped(file: PackedFile, id: str, encoding: str) -> Document:
    """Read XMI by its elements alone: those of built-in types and those without width are left out.

    A link has the name of its annotation's layer and feature, and `Link`.
    """
    root = parse_xml(decode_xml(file.read(), file.path, encoding), file.path, "a UIMA CAS as XMI")
    by_id = {one.attributes.get("xmi:id", ""): one for one in root.children}
    text = "".join(one.get("sofaString") for one in root.find("cas:Sofa")[:1])
    units = text.encode("utf-16-le")
    members = {number for one in root.find("cas:View") for number in one.get("members").split()}
    found: list[Quoted] = []
    links: list[tuple[str, str, str, str]] = []
    for number, element in by_id.items():
        space, _, layer = element.name.partition(":")
        kind = root.attributes.get(f"xmlns:{space}", "").removeprefix("http:///").replace("/", ".")
        if number not in members or kind.startswith(BUILT_IN) or element.get("end") == "0":
            continue
        if {_SOURCE, _TARGET} <= element.attributes.keys():
            links.append((element.where, layer, element.get(_SOURCE), element.get(_TARGET)))
            continue
        attributes = {}
        for name, value in element.attributes.items():
            kind = f"{element.name}{name}link".lower()
            named = (by_id.get(one) for one in value.split())
            linked = [one for one in named if one and one.name.lower() == kind]
            for one in linked:
                role = one.attributes.get("role") or name
                links.append((one.where, role, number, one.get("target")))
            if value and not linked and name not in (*_PLACE, "xmi:id"):
                attributes[name] = value
        start, end = element.get_whole_number("begin"), element.get_whole_number("end")
        covered = units[2 * start : 2 * end].decode("utf-16-le", "replace")
        found.append((Mention(layer, ((start, end),), number, attributes), covered, element.where))
    mentions = [mention for _, mention in locate_all(text, found)]
    known = {one.id: one for one in mentions}
    relations = []
    for where, role, *ends in links:
        with leaving_out():
            head, tail = (look_up(known, one, where, f"span {quote(one)}").id for one in ends)
            relations.append(Relation(role, head, tail))
    return Document(id, text, mentions, relations, source=f"{file.path}:1")


def _load(file: PackedFile, encoding: str) -> Cas:
    from cassis import load_cas_from_json, load_cas_from_xmi

    if file.name.suffix.lower() == ".json":
        text = decode(file.read(), file.path).removeprefix(BYTE_ORDER_MARK)
        content = parse_json(text, str(file.path), _ADVICE)
        kinds = content.get("%TYPES", {}) if isinstance(content, dict) else None
        if not isinstance(kinds, dict) or "%FEATURE_STRUCTURES" not in content:
            raise BiomedError(f"{file.path}: no UIMA CAS JSON; {_ADVICE}")
        for name, features in kinds.items():
            _check_names([name, *(features if isinstance(features, dict) else ())], file.path)
        return _parse(file.path, load_cas_from_json, text)
    types = next(filter(None, map(file.find, _TYPES)), None)
    if types is None:
        raise BiomedError(
            f"{file.path}: there is no {_TYPES[0]} beside it; put it there, or export the document "
            f'as "UIMA CAS JSON 0.4.0"'
        )
    system = _load_types(types, file.path.parent / _TYPES[0], encoding)
    text = _check_xml(file.read(), file.path, encoding, "a UIMA CAS as XMI")
    return _parse(file.path, load_cas_from_xmi, BytesIO(text.encode()), typesystem=system)


@lru_cache(maxsize=4)
def _load_types(content: bytes, path: Path, encoding: str) -> TypeSystem:
    from cassis import load_typesystem

    text = _check_xml(content, path, encoding, "a UIMA type system")
    waiting = [parse_xml(text, path, "")]
    while waiting:
        element = waiting.pop()
        if element.name.rpartition(":")[2] in ("typeDescription", "featureDescription"):
            _check_names([(element.text_of("name") or "").strip()], path)
        waiting.extend(element.children)
    return _parse(path, load_typesystem, BytesIO(text.encode()))


def _check_xml(content: bytes, path: Path, encoding: str, kind: str) -> str:
    """Refuse XML that is not well-formed or declares entities, which cassis' parser may resolve.

    Return the text without its declaration, which may say XML 1.1; no parser here reads that.
    """
    text = decode_xml(content, path, encoding).removeprefix(BYTE_ORDER_MARK)
    if declaration := _DECLARATION.match(text):
        # Its line ends stay, so that messages have the right line.
        text = "\n" * declaration.group().count("\n") + text[declaration.end() :]
    parse_xml(text, path, kind)
    return text


def _check_names(names: Iterable[str], path: Path) -> None:
    """Refuse what is not a name: cassis compiles code with these names."""
    for name in names:
        if not _NAME.fullmatch(name.removeprefix("%")):
            raise BiomedError(f"{path}: {quote(name)} names a type or a feature; {_ADVICE}")


def _parse(path: Path, load: Callable[..., Cas], *arguments: object, **named: object) -> Cas:
    """Call a function of cassis, which raises errors of any kind for files that it cannot read."""
    try:
        return load(*arguments, **named)
    except Exception as error:
        kind = type(error).__name__
        reason = escape(f"{kind}: {error}" if str(error) else kind, 200)
        raise BiomedError(f"{path}: no UIMA CAS that can be read ({reason}); {_ADVICE}") from None


def _find_id(cas: Cas) -> str:
    """The file's name in the metadata of INCEpTION, or else the identifier; "" if there is none.

    WebAnno has the name as title, and the annotator as identifier.
    """
    if not cas.typesystem.contains_type(_METADATA):
        return ""
    metadata = list(cas.select(_METADATA))
    titles = [getattr(one, "documentTitle", None) for one in metadata]
    names = [title for title in titles if isinstance(title, str) and _FILE.fullmatch(title)]
    ids = [getattr(one, "documentId", None) for one in metadata]
    return next((id for id in [*names, *ids] if isinstance(id, str)), "")


def _is_in_layer(annotation: FeatureStructure) -> bool:
    """Whether an annotation is of a span or relation layer that is read."""
    kind = annotation.type
    while kind is not None and kind.name != NAMED_ENTITY:
        kind = kind.supertype
    name = annotation.type.name.removeprefix("uima.noNamespace.")
    return kind is not None or not name.startswith(BUILT_IN)


def _is_relation(annotation: FeatureStructure) -> bool:
    return {_SOURCE, _TARGET} <= {feature.name for feature in annotation.type.all_features}


def _read_features(annotation: FeatureStructure) -> tuple[str, dict[str, str]]:
    """The label of an annotation, and the values of its other features."""
    # In the order of the layer, which is that of the type system.
    names = dict.fromkeys(feature.name for feature in annotation.type.features)
    names |= dict.fromkeys(feature.name for feature in annotation.type.all_features)
    given = {name: getattr(annotation, name, None) for name in names if name not in _PLACE}
    shown = {name: list_values(getattr(one, "elements", one)) for name, one in given.items()}
    values = {name: ", ".join(one) for name, one in shown.items() if any(one)}
    strings = [name for name in values if isinstance(getattr(annotation, name), str)]
    found = [name for name in LABELS if name in names] or strings
    found = [name for name in found if name in strings]
    label = values.pop(found[0]) if found else annotation.type.name.rpartition(".")[2]
    return label, values


def _find_relations(
    annotations: list[FeatureStructure], mentions: list[Mention], where: str
) -> Iterator[Relation]:
    by_id = {mention.id: mention for mention in mentions}

    def find(argument: object, relation: FeatureStructure) -> str:
        id = str(getattr(argument, "xmiID", ""))
        return look_up(by_id, id, f"{where}: annotation {relation.xmiID}", f"span {quote(id)}").id

    for annotation in annotations:
        if _is_relation(annotation):
            with leaving_out():
                ends = (getattr(annotation, end) for end in (_SOURCE, _TARGET))
                head, tail = (find(end, annotation) for end in ends)
                label, _ = _read_features(annotation)
                yield Relation(label, head, tail, str(annotation.xmiID))
            continue
        for role, target in _list_links(annotation):
            with leaving_out():
                yield Relation(role, find(annotation, annotation), find(target, annotation))


def _list_links(annotation: FeatureStructure) -> Iterator[tuple[str, object]]:
    """The roles and the targets of features that link an annotation to others."""
    for feature in annotation.type.all_features:
        links = getattr(getattr(annotation, feature.name, None), "elements", None)
        for link in links if isinstance(links, list) else ():
            if (target := getattr(link, "target", None)) is not None:
                yield str(getattr(link, "role", None) or feature.name), target


def write_inception(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write an `.xmi` file for each document, named after its identifier, and their types.

    Mentions and relations are in the layers of INCEpTION's template "Basic annotation
    (span/relation)", with their `label`. The further features `confidence` and `identifier` are
    read by projects whose layer has them, and left out by others. The pipeline's tokens are the
    tokens, so that mentions begin and end at one. Characters that XML does not have become spaces,
    so offsets stay the same.
    """
    types, taken = _create_types(), set[str]()
    files = {"TypeSystem.xml": types.to_xml().encode()}
    for document in shard.documents:
        name = name_file(document.number, document.item.id, taken)
        files[f"{name}.xmi"] = _create_cas(document, types).to_xmi().encode()
    return files


INCEPTION = Format(read_inception, write_inception, is_folder=True, require=_require_cassis)


def _create_cas(document: AnnotatedDocument, types: TypeSystem) -> Cas:
    from cassis import Cas

    _, item, doc, found = document
    cas = Cas(types)
    cas.sofa_string = _NOT_IN_XML.sub(" ", doc.text)
    cas.sofa_mime = "text"

    def add(type: str, **features: object) -> FeatureStructure:
        annotation = types.get_type(type)(**features)
        cas.add(annotation)
        return annotation

    add(_METADATA, begin=0, end=len(doc.text), documentId=_NOT_IN_XML.sub(" ", item.id))
    if doc.has_annotation("SENT_START"):
        for sentence in doc.sents:
            add(f"{_SEGMENTATION}.Sentence", begin=sentence.start_char, end=sentence.end_char)
    for token in doc:
        if not token.is_space:
            add(f"{_SEGMENTATION}.Token", begin=token.idx, end=token.idx + len(token))
    mentions, relations = list_mentions(doc.text, found)
    spans = {
        mention.number: add(
            SPAN,
            begin=mention.start,
            end=mention.end,
            label=mention.label,
            confidence=mention.confidence,
            identifier=mention.attributes.get("kb_id") or mention.attributes.get("id"),
        )
        for mention in mentions
    }
    for relation in relations:
        tail = spans[relation.tail.number]
        add(
            RELATION,
            begin=tail.begin,  # a relation lies where its target does
            end=tail.end,
            Governor=spans[relation.head.number],
            Dependent=tail,
            label=relation.label,
            confidence=relation.confidence,
        )
    return cas


def _create_types() -> TypeSystem:
    from cassis import TypeSystem

    types = TypeSystem()
    types.create_type(_METADATA, "uima.tcas.DocumentAnnotation")
    for name in (f"{_SEGMENTATION}.Sentence", f"{_SEGMENTATION}.Token", SPAN, RELATION):
        types.create_type(name)
    for layer, name, kind in (
        (_METADATA, "documentId", "uima.cas.String"),
        (SPAN, "label", "uima.cas.String"),
        (SPAN, "confidence", "uima.cas.Float"),
        (SPAN, "identifier", "uima.cas.String"),
        (RELATION, "label", "uima.cas.String"),
        (RELATION, "confidence", "uima.cas.Float"),
        (RELATION, _SOURCE, SPAN),
        (RELATION, _TARGET, SPAN),
    ):
        types.create_feature(types.get_type(layer), name, kind)
    return types
