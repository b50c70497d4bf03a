"""JSON lines: read as Prodigy writes them, and written with everything that was found."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, Mention, Offsets, Relation, look_up
from .findings import AnnotatedShard, pack_lines
from .json_fields import Kind, get_covered, get_field, get_id, list_values, read_json_lines
from .registry import Format
from .repairs import NOT_ANNOTATED, OTHER_ANNOTATION, leaving_out, locate_all, note
from .tags import create_tagged

_Object = dict[str, object]
# The mentions of a record, each with its offsets and its identifier in the file ("" without one).
_Spans = list[tuple[Offsets, str, Mention]]

_ENDS = ("head", "child")
_ADVICE = 'write it as {"text": "...", "spans": [{"start": 0, "end": 7, "label": "..."}]}'

# Where doccano and spaCy have mentions, and other programs annotations.
_MENTION_KEYS = ("entities", "ents", "label", "labels")
_OTHER_KEYS = (*_MENTION_KEYS, "annotations", "annotation", "denotations")
# Where other programs have the names of classes, and the tags of tokens.
_CLASS_KEYS = ("cats", "label", "labels")
_TAG_KEYS = ("ner_tags", "tags", "labels")

# Keys of a mention that say nothing more of it; Prodigy writes "type" and "source".
_SPAN_KEYS = ("text", "label", "id", "group", "type", "source")

# What Prodigy's interfaces let people annotate. A task may have more, which nobody has looked at.
_SHOWN = {
    "ner_manual": ("spans",),
    "spans_manual": ("spans",),
    "relations": ("spans", "relations"),
    "choice": ("accept",),
    "classification": ("label",),
}


def read_jsonl(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read `.jsonl` files: one, or those in and below a folder. Each line, or each item of a file
    with one list, is an object with

    text: the text.
    spans: mentions, each with `start`, `end`, `label` and, optionally, the covered `text`, an `id`
        and `attributes` (strings, numbers or truth values by name). Other keys with a string or a
        truth value are attributes too. If the key `spans` is missing, mentions are not annotated.
    relations: each with a `label`, and `head_span` and `child_span` with the `start` and `end` of a
        mention, or `head` and `child`, tokens in a mention. If the key is missing, relations are
        not annotated.
    cats: class label to true, false or a number between 0 and 1; or `options` (objects with an
        `id`) and `accept` (a list of ids), which give 1.0 to each accepted class and 0.0 to each
        other option; or `label`, a class that `answer` accepts (1.0) or rejects (0.0), where lines
        with other classes of the same text give one document.
    tokens: objects with `start` and `end`, if the text is already split into tokens.
    id: of the document, also under `meta`; by default file name and line number.
    answer: a line with another answer than "accept" is not annotated and left out.

    What other programs write is read too:

    - Mentions under `label`, `labels`, `entities` or `ents`, as `[start, end, label]` or as objects
      with `start_offset` and `end_offset`, with relations (`from_id`, `to_id`, `type`) between them
      (doccano, spaCy); `[text, object]` in place of the object (spaCy 2).
    - A class, or a list of classes, under `cats`, `label` or `labels` (doccano, Hugging Face): 1.0
      for these, 0.0 for the other classes that any line has.
    - `tokens` that are strings, with tags (`ner_tags`, `tags` or `labels`) and without `text`.

    Other annotations under these keys, or under `annotation`, `annotations` or `denotations`, and
    relations without `spans`, are errors. Other keys are ignored, except for what Prodigy says
    about a task:

    - If `_view_id` names an interface, only what it shows is annotated, and it is annotated also if
      nothing was selected. (Old versions omit the `spans` of a text without mentions.)
    - An accepted suggestion of a single mention (`_is_binary`) says nothing about other mentions.
      Such a line is not annotated.
    - If several lines answer one task (`_task_hash`), the last of them is read.

    Raises:
        BiomedError: if a line is not such an object, or a span lies beyond the text or reads
            differently.
    """
    answers: dict[object, list[tuple[_Object, str, str]]] = {}
    for record, where, id in read_json_lines(path, (".jsonl",), encoding):
        with leaving_out():
            if isinstance(record, list) and len(record) == 2 and isinstance(record[1], dict):
                record = {**record[1], "text": record[0]}
            line = (record, where, id)
            if not _has_tags(record):
                _get(record, "text", str, where)
            answer = record.get("answer", "accept")
            if answer != "accept" and not (answer == "reject" and _is_question(record)):
                note(NOT_ANNOTATED, f"{where}: the answer is {quote(answer)}")
            elif record.get("_is_binary") is True and not _is_question(record):
                note(NOT_ANNOTATED, f"{where}: the answer is about a single mention")
            else:
                task = get_id(record, "_task_hash")
                answers.setdefault(task or where, []).append(line)
    last = [lines[-1][0] for lines in answers.values()]
    questions: dict[str, _Object] = {}
    for record in filter(_is_question, last):
        cats = questions.setdefault(str(record["text"]), {})
        cats[str(record["label"])] = record["answer"] == "accept"
    classes = {
        key: dict.fromkeys(name for record in last for name in _name_classes(record, key) or ())
        for key in _CLASS_KEYS
    }
    for *others, (record, where, id) in answers.values():
        for _, other, _ in others:
            note(OTHER_ANNOTATION, f"{other}: the task is answered again in {where}")
        if _is_question(record):
            if (asked := questions.pop(str(record["text"]), None)) is None:
                continue  # the first question on the text has all answers
            record = {**record, "label": None, "cats": asked}
        with leaving_out():
            yield _parse_record(_spread_classes(record, classes), where, id)


def _is_question(record: _Object) -> bool:
    """Whether the answer accepts or rejects the class of the text."""
    is_class = isinstance(record.get("label"), str) and not record.get("spans")
    return is_class and "answer" in record and _is_shown(record, "label")


def _name_classes(record: _Object, key: str) -> list[str] | None:
    """The classes under a key, in place of a truth value for each; None if there are none."""
    given = record.get(key)
    values = given if isinstance(given, list) else [given]
    is_read = "answer" not in record and not record.get("spans") and not _has_tags(record)
    if not is_read or not all(type(one) in (str, int) for one in values):
        return None
    return [str(one) for one in values]


def _spread_classes(record: _Object, classes: dict[str, dict[str, None]]) -> _Object:
    """The record with a truth value for each class of the file, if it names classes."""
    for key, known in classes.items():
        named = _name_classes(record, key)
        if named is not None and (known or key == "cats"):
            cats = {name: name in named for name in known} or None
            return {**record, key: None, "cats": cats}
    return record


def _has_tags(record: object) -> bool:
    """Whether a record has strings as tokens, and their tags."""
    tokens = record.get("tokens") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(tokens, list):
        return False
    has_strings = bool(tokens) and isinstance(tokens[0], str)
    return has_strings and any(isinstance(record.get(k), list) for k in _TAG_KEYS)


def _parse_tags(record: _Object, id: str, where: str) -> Document:
    key = next(key for key in _TAG_KEYS if isinstance(record.get(key), list))
    tokens, tags = _get(record, "tokens", list, where), _get(record, key, list, where)
    strings = [one for one in [*tokens, *tags] if isinstance(one, str) and one.strip()]
    if len(tokens) != len(tags) or len(strings) < 2 * len(tokens):
        raise BiomedError(
            f"{where}: 'tokens' and {key!r} need a string for each token; write names of tags such "
            "as B-DRUG, not their numbers"
        )
    return create_tagged(id, tokens, tags, where)


def _is_shown(record: _Object, layer: str) -> bool:
    """Whether the interface shows a layer; unknown interfaces may show anything."""
    view = get_id(record, "_view_id")
    return view not in _SHOWN or layer in _SHOWN[view]


def _parse_record(record: _Object, where: str, id: str) -> Document:
    meta = record.get("meta")
    if isinstance(meta, dict):
        id = get_id(meta, "id", id)
    id = get_id(record, "id", id)
    if _has_tags(record):
        return _parse_tags(record, id, where)
    text = _get(record, "text", str, where)
    record = _rename_doccano(record)
    document = Document(id, text, cats=_parse_cats(record, where), source=where)
    document.tokens = _parse_tokens(record, text, where)
    if _has_spans(record):
        spans = _parse_spans(record, text, where)
        document.mentions = [mention for _, _, mention in spans]
        is_asked = record.get("relations") is not None or record.get("_view_id") == "relations"
        if is_asked and _is_shown(record, "relations"):
            document.relations = _parse_relations(record, spans, where)
    _refuse_other_keys(record, document, where)
    return document


def _rename_doccano(record: _Object) -> _Object:
    """The record with the mentions of doccano and spaCy under Prodigy's key."""
    for key in _MENTION_KEYS if "spans" not in record else ():
        rows = record.get(key)
        spans = [_rename_span(row) for row in rows] if isinstance(rows, list) else [None]
        if None not in spans:
            return {**record, key: None, "spans": spans}
    return record


def _rename_span(row: object) -> _Object | None:
    """A mention of doccano or spaCy; None for something else."""
    if isinstance(row, list) and len(row) == 3:
        return dict(zip(("start", "end", "label"), row, strict=True))
    if isinstance(row, dict) and row.keys() & {"start", "start_offset"}:
        names = {"start_offset": "start", "end_offset": "end"}
        return {str(names.get(name, name)): value for name, value in row.items()}
    return None


def _refuse_other_keys(record: _Object, document: Document, where: str) -> None:
    """Refuse annotations under keys that are not read, and relations without mentions."""
    has_spans = record.get("spans") is not None
    has_layer = document.mentions is not None or document.cats is not None
    for key in (*_OTHER_KEYS, "relations"):
        value = record.get(key)
        items = value if isinstance(value, list) and key != "relations" else None
        if has_spans:
            is_lost = any(isinstance(one, list | dict) for one in items or ())
        else:
            is_lost = items is not None or bool(value and not has_layer)
        if is_lost:
            raise BiomedError(
                f"{where}: {key!r} {'beside' if has_spans else 'without'} 'spans' or 'cats' is not "
                f'read; {_ADVICE}, or classes as "cats": {{"X": true, "Y": false}}'
            )


def _get(record: object, key: str, kind: type[Kind] | tuple[type[Kind], ...], where: str) -> Kind:
    return get_field(record, key, kind, where, _ADVICE)


def _get_list(record: _Object, key: str, where: str) -> list[_Object]:
    """A field with a list of objects; an empty one if there is none."""
    return [] if record.get(key) is None else _get(record, key, list, where)


def _get_offsets(record: object, where: str) -> Offsets:
    return _get(record, "start", int, where), _get(record, "end", int, where)


def _has_spans(record: _Object) -> bool:
    """Whether mentions are annotated."""
    if not _is_shown(record, "spans"):
        return False
    if record.get("spans") is not None or get_id(record, "_view_id") in _SHOWN:
        return True
    # An old version of Prodigy: only interfaces for spans show tokens.
    classes = ("cats", "options", "accept", "label")
    return "_task_hash" in record and bool(record.get("tokens")) and not record.keys() & classes


def _parse_spans(record: _Object, text: str, where: str) -> _Spans:
    spans = _get_list(record, "spans", where)
    given = [get_id(span, "id") for span in spans if isinstance(span, dict)]
    is_named = not record.get("relations") or (len(set(given)) == len(spans) and all(given))
    found, kept = [], []
    for number, span in enumerate(spans, start=1):
        with leaving_out():
            offsets, label = _get_offsets(span, where), _get(span, "label", str, where)
            given_id = get_id(span, "id")
            id = given_id if is_named else f"T{number}"
            own = {name: span[name] for name in span if name not in _SPAN_KEYS}
            own = {name: value for name, value in own.items() if isinstance(value, str | bool)}
            extra = span.get("attributes")
            extra = own | (extra if isinstance(extra, dict) else {})
            listed = {name: list_values(value) for name, value in extra.items()}
            attributes = {name: "; ".join(values) for name, values in listed.items() if values}
            mention = Mention(label, (offsets,), id, attributes)
            found.append((mention, get_covered(span, where), where))
            kept.append((offsets, given_id))
    return [(*kept[number], mention) for number, mention in locate_all(text, found)]


def _parse_relations(record: _Object, spans: _Spans, where: str) -> list[Relation]:
    by_id = {id: mention for _, id, mention in spans}
    counts = Counter(id for _, id, _ in spans)
    relations = []
    for relation in _get_list(record, "relations", where):
        with leaving_out():
            if isinstance(relation, dict) and "from_id" in relation:  # of doccano
                label = _get(relation, "type" if "type" in relation else "label", str, where)
                ids = [get_id(relation, key) for key in ("from_id", "to_id")]
                for id in ids:
                    if counts[id] > 1:
                        raise BiomedError(
                            f"{where}: several entities have the id {quote(id)}; correct the ids"
                        )
                ends = [look_up(by_id, id, where, f"entity {quote(id)}") for id in ids]
            else:
                label = _get(relation, "label", str, where)
                ends = [_find_end(end, relation, record, spans, where) for end in _ENDS]
            relations.append(Relation(label, *(end.id for end in ends)))
    return relations


def _find_end(end: str, relation: _Object, record: _Object, spans: _Spans, where: str) -> Mention:
    """The mention at the head or the child of a relation."""
    span = relation.get(f"{end}_span")
    if isinstance(span, dict):
        start, stop = _get_offsets(span, where)
        found = [mention for offsets, _, mention in spans if offsets == (start, stop)]
        found = [mention for mention in found if mention.label == span.get("label")] or found
    else:
        number, tokens = _get(relation, end, int, where), _get(record, "tokens", list, where)
        if not 0 <= number < len(tokens):
            raise BiomedError(
                f"{where}: there is no token {quote(number)}; correct the {end} of the relation"
            )
        start, stop = _get_offsets(tokens[number], where)
        found = [mention for (first, last), _, mention in spans if first <= start and stop <= last]
        # A relation names the last token of its arguments.
        found.sort(key=lambda mention: (mention.end, -mention.start))
    if not found:
        raise BiomedError(
            f"{where}: no span has the {end} of a relation, from {quote(start)} to {quote(stop)}; "
            f"label it, or remove the relation"
        )
    return found[0]


def _parse_cats(record: _Object, where: str) -> dict[str, float] | None:
    if record.get("cats") is not None:
        cats = _get(record, "cats", dict, where)
        for label, value in cats.items():
            if not isinstance(value, int | float) or not 0 <= value <= 1:
                raise BiomedError(
                    f"{where}: the class {quote(label)} has the value {quote(value)}; write true "
                    "or false, or a number between 0 and 1"
                )
        return {label: float(value) for label, value in cats.items()}
    is_asked = record.get("accept") is not None or record.get("_view_id") == "choice"
    if not is_asked or not _is_shown(record, "accept"):
        return None
    options = _get_list(record, "options", where)
    cats = {str(_get(option, "id", (str, int), where)): 0.0 for option in options}
    accepted = [] if record.get("accept") is None else _get(record, "accept", list, where)
    for label in accepted:
        if not isinstance(label, str | int):
            raise BiomedError(f"{where}: {quote(label)} is accepted; write the id of an option")
        if options and str(label) not in cats:
            raise BiomedError(
                f"{where}: {quote(label)} is accepted but none of the options; add it to them"
            )
    return cats | {str(label): 1.0 for label in accepted}


def _parse_tokens(record: _Object, text: str, where: str) -> list[Offsets] | None:
    if not record.get("tokens"):
        return None
    tokens = []
    last_end = 0
    for token in _get(record, "tokens", list, where):
        start, end = _get_offsets(token, where)
        if not last_end <= start < end <= len(text) or text[last_end:start].strip():
            raise BiomedError(
                f"{where}: the token from {quote(start)} to {quote(end)} overlaps the one before, "
                f"skips text or is beyond its end; correct the tokens, or leave them out"
            )
        tokens.append((start, end))
        last_end = end
    if text[last_end:].strip():
        raise BiomedError(
            f"{where}: the tokens end at {last_end}, before the text's end at {len(text)}; "
            f"correct the tokens, or leave them out"
        )
    return tokens


def write_jsonl(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a JSON object for each document, as `findings.describe` describes it."""
    rows = (
        {"document": number, "id": item.id, **item.fields, **found}
        for number, item, _, found in shard.documents
    )
    return {f"{shard.name}.jsonl": pack_lines(rows)}


JSONL = Format(read_jsonl, write_jsonl, has_fields=True)
