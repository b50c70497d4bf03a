"""Label Studio's JSON: a list of tasks, each with its annotations and predictions."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..errors import BiomedError, escape, quote
from .documents import Document, Mention, Relation, list_files, look_up
from .findings import AnnotatedDocument, AnnotatedShard, find_lowest, list_mentions
from .json_fields import get_covered, get_field, get_id, list_values, read_json
from .offsets import Quoted
from .registry import Format
from .repairs import NOT_ANNOTATED, OTHER_ANNOTATION, leaving_out, locate_all, note

# Names in the labeling configuration (docs/tasks/annotation_tools.md).
LABELS, CHOICES, TEXT = "label", "class", "text"

# A class with at least this score is chosen.
_CHOSEN = 0.5

# The address of an image, or of a text that lies elsewhere.
_ADDRESS = re.compile(r"(https?|s3|gs|azure-blob)://\S+|/data/\S+")

# Controls whose values for a single mention are among its attributes, as classes are.
_PER_REGION = ("textarea", "rating", "number", "datetime")

# Controls whose values for a whole text are classes.
_CLASSES = ("choices", "taxonomy")

# A result of an annotation: a region, a relation, or a value of a control.
_Result = dict[str, object]

# An annotated task: the fields with strings, the results of the annotation to read, its
# identifier, and its place.
_Task = tuple[dict[str, str], list[_Result], str, str]


def read_label_studio(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read Label Studio's JSON export, as `.json` files: one, or those in and below a folder.

    The text is the field of a task's data with the name of the annotated tag (`to_name`), or else
    the field `text`. Without both, it is the only field with a string, or the only one in which all
    tasks have the covered strings. The identifier is the field `id` of the data, or else the number
    of the task.

    Labelled regions become mentions, one for each label. Values of other controls for a region, and
    its meta information, become attributes. Relations keep their direction (`bi` becomes two).
    Choices (also of a taxonomy) for the whole text become classes: 1.0 for the chosen, 0.0 for the
    other choices of that control that occur in the export. If several controls have choices, the
    class is `control=choice`. Where no choice is made, all are 0.0 if some task has several of the
    control, and not annotated otherwise. Mentions and relations are lists in every document if any
    task has one.

    Several people may annotate a task. The annotation that is marked as ground truth is read, or
    else the one that was changed last; skipped ones are never read. A task without an annotation,
    such as one with predictions only, is left out and counted.

    Offsets count code points. If the covered strings show that they count other units, such as
    UTF-16 code units in old versions of Label Studio, they are read accordingly.

    Raises:
        BiomedError: if the file is another export (JSON-MIN), or has the address of a text and not
            the text. Also if a region marks anything but plain text, if a mention lies beyond the
            text or reads differently, or if a relation has no mention.
    """
    tasks = [task for file in list_files(Path(path), (".json",)) for task in _read(file, encoding)]
    kinds = {get_id(result, "type") for _, results, *_ in tasks for result in results}
    quoted = _find_quoted(tasks)
    classes = [one for _, results, *_ in tasks for one in _find_classes(results)]
    choices: dict[str, dict[str, None]] = {}  # of each control for whole texts
    for control, chosen in classes:
        choices.setdefault(control, {}).update(dict.fromkeys(chosen))
    several = {control for control, chosen in classes if len(chosen) > 1}
    for strings, results, id, where in tasks:
        with leaving_out():
            document = Document(id, _find_text(strings, results, quoted, where), source=where)
            if any(kind.endswith("labels") for kind in kinds):
                document.mentions = _parse_mentions(document, results)
            if "relation" in kinds:
                document.relations = _parse_relations(document, results)
            document.cats = _parse_cats(results, choices, several)
            yield document


def _read(file: Path, encoding: str) -> Iterator[_Task]:
    content = read_json(file, encoding)
    for index, task in enumerate(content if isinstance(content, list) else [content]):
        where = f"{file}: [{index}]"
        with leaving_out():
            if isinstance(task, dict) and "data" not in task and "annotation_id" in task:
                raise BiomedError(
                    f"{where}: this is JSON-MIN, which leaves out relations; export as JSON"
                )
            data = get_field(task, "data", dict, where)
            if (results := _find_annotation(task, where)) is not None:
                id = get_id(data, "id") or get_id(task, "id", f"{file.stem}-{index}")
                strings = {name: value for name, value in data.items() if isinstance(value, str)}
                yield strings, results, id, where


def _find_annotation(task: dict[str, object], where: str) -> list[_Result] | None:
    """The results of the annotation to read; None if there is none."""
    # Versions before 1.0 call annotations completions.
    key = "annotations" if task.get("annotations") is not None else "completions"
    annotations = get_field(task, key, list, where) if task.get(key) is not None else []
    for annotation in annotations:
        get_field(annotation, "result", list, where, "export whole annotations, not their ids")
    kept = [one for one in annotations if not one.get("was_cancelled")]
    if not kept:
        reason = "every annotator skipped it" if annotations else "it has no annotation"
        note(NOT_ANNOTATED, f"{where}: task {escape(get_id(task, 'id', '?'))}: {reason}")
        return None

    def rank(annotation: dict[str, object]) -> tuple[bool, str]:
        changed = get_id(annotation, "updated_at") or get_id(annotation, "created_at")
        return bool(annotation.get("ground_truth")), changed

    best = max(reversed(kept), key=rank)
    for annotation in kept:
        if annotation is not best:
            id = escape(get_id(annotation, "id", "?"))
            note(OTHER_ANNOTATION, f"{where}: annotation {id}: another one of the task is read")
    return [result for result in best["result"] if isinstance(result, dict)]


def _find_quoted(tasks: list[_Task]) -> list[str]:
    """The fields that have the covered strings of all regions."""
    names = [*dict.fromkeys(name for strings, *_ in tasks for name in strings)]
    for strings, results, *_ in tasks:
        regions = map(_get_value, (one for one in results if one.get("type") == "labels"))
        covered = [get_id(region, "text").replace("\\n", "\n") for region in regions]
        names = [name for name in names if all(one in strings.get(name, "") for one in covered)]
    return names


def _find_text(
    strings: dict[str, str], results: list[_Result], quoted: list[str], where: str
) -> str:
    regions = [result for result in results if result.get("type") == "labels"]
    tags = dict.fromkeys(filter(None, (get_id(region, "to_name") for region in regions)))
    if len(tags) > 1:
        raise BiomedError(
            f"{where}: several texts have regions ({', '.join(map(escape, tags))}); export one text"
        )
    names = [*tags, *(get_id(result, "to_name") for result in results), "text"]
    only = strings if len(strings) == 1 else quoted if len(quoted) == 1 else ()
    names = [name for name in [*names, *only] if name in strings]
    if not names:
        fields = ", ".join(map(escape, list(strings)[:5])) or "none"
        raise BiomedError(
            f"{where}: cannot tell which field of the data is the text ({fields}); name it text"
        )
    text = strings[names[0]]
    if _ADDRESS.fullmatch(text):
        raise BiomedError(
            f"{where}: the export has {quote(text)} in place of the text; put the text into it"
        )
    return text


def _find_classes(results: list[_Result]) -> Iterator[tuple[str, list[str]]]:
    """The controls for classes of the whole text, not of a region, and what is chosen."""
    for result in results:
        if result.get("type") in _CLASSES and "start" not in _get_value(result):
            yield get_id(result, "from_name"), _find_choices(result)


def _get_value(result: _Result) -> dict[str, object]:
    value = result.get("value")
    return value if isinstance(value, dict) else {}


def _find_choices(result: _Result) -> list[str]:
    """The chosen classes; one of a taxonomy is the path to it, with " > " between its parts."""
    choices = _get_value(result).get(get_id(result, "type"))
    choices = choices if isinstance(choices, list) else [choices]
    paths = [choice if isinstance(choice, list) else [choice] for choice in choices]
    return [
        " > ".join(map(str, path)) for path in paths if all(isinstance(part, str) for part in path)
    ]


def _parse_mentions(document: Document, results: list[_Result]) -> list[Mention]:
    text, where = document.text, document.source
    found: list[Quoted] = []
    for result in results:
        with leaving_out():
            found.extend(_parse_region(result, text, where))
    attributes = _find_attributes(results)
    placed = locate_all(text, found)
    return [replace(one, attributes=attributes.get(one.id, {})) for _, one in placed]


def _parse_region(result: _Result, text: str, where: str) -> Iterator[Quoted]:
    """A mention for each label of a region, with the string it covers."""
    kind = get_id(result, "type")
    if not kind.endswith("labels"):
        return
    value = get_field(result, "value", dict, where)
    # Regions of HTML and of dialogues begin in an element.
    if kind != "labels" or isinstance(value.get("start"), str):
        raise BiomedError(
            f"{where}: a result of type {quote(kind)} marks no plain text; label a <Text> with "
            f"<Labels>"
        )
    start, end = (get_field(value, key, int, where) for key in ("start", "end"))
    covered = get_covered(value, where)
    if covered is not None and covered not in text:  # it has its line ends as `\\n`
        covered = covered.replace("\\n", "\n")
    labels = get_field(value, "labels", list, where)
    if not labels:
        raise BiomedError(f"{where}: a region has no label; label it, or remove it")
    for label in labels:
        mention = Mention(_check_label(label, where), ((start, end),), get_id(result, "id"))
        yield mention, covered, where


def _check_label(label: object, where: str) -> str:
    if not isinstance(label, str):
        raise BiomedError(f"{where}: expected a label, found {quote(label)}; correct it")
    return label


def _find_attributes(results: list[_Result]) -> dict[str, dict[str, str]]:
    """The attributes of regions, by their ids: strings, numbers, and lists of them."""
    attributes: dict[str, dict[str, str]] = {}
    for result in results:
        id, kind, meta = get_id(result, "id"), get_id(result, "type"), result.get("meta")
        given = dict(meta) if isinstance(meta, dict) else {}
        if kind in _CLASSES:
            given[get_id(result, "from_name", kind)] = _find_choices(result)
        elif kind in _PER_REGION:
            value = _get_value(result).get("text" if kind == "textarea" else kind)
            given[get_id(result, "from_name", kind)] = value
        for name, value in given.items() if id else ():
            if shown := list_values(value):
                attributes.setdefault(id, {})[name] = ", ".join(shown)
    return attributes


def _parse_relations(document: Document, results: list[_Result]) -> list[Relation]:
    where = document.source
    by_id = {mention.id: mention for mention in document.mentions or ()}

    def find(result: _Result, key: str) -> str:
        id = str(get_field(result, key, (str, int), where))
        return look_up(by_id, id, where, f"region for a relation with {quote(id)}").id

    relations: list[Relation] = []
    for result in (one for one in results if one.get("type") == "relation"):
        with leaving_out():
            head, tail = find(result, "from_id"), find(result, "to_id")
            labels = result.get("labels") or ["relation"]
            direction = get_id(result, "direction", "right")
            for label in labels if isinstance(labels, list) else [labels]:
                label = _check_label(label, where)
                if direction != "left":
                    relations.append(Relation(label, head, tail, get_id(result, "id")))
                if direction != "right":
                    relations.append(Relation(label, tail, head, get_id(result, "id")))
    return relations


def _parse_cats(
    results: list[_Result], choices: dict[str, dict[str, None]], several: set[str]
) -> dict[str, float] | None:
    cats: dict[str, float] = {}
    given = dict(_find_classes(results))
    for control in (one for one in choices if one in given or one in several):
        for choice in choices[control]:
            name = choice if len(choices) == 1 else f"{control}={choice}"
            cats[name] = float(choice in given.get(control, ()))
    return cats or None


def write_label_studio(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a JSON file with a list of tasks, each with one prediction.

    Offsets are code points, as in Label Studio (old versions counted UTF-16 code units). The score
    of a prediction is the lowest confidence of its mentions, so that tasks can be ordered by it.
    The identifier of the document is a field of the task's data.
    """
    tasks = (_create_task(document, shard) for document in shard.documents)
    lines = (json.dumps(task, ensure_ascii=False, default=str) for task in tasks)
    return {f"{shard.name}.json": ("[\n" + ",\n".join(lines) + "\n]\n").encode()}


LABEL_STUDIO = Format(read_label_studio, write_label_studio, has_fields=True)


def _create_task(document: AnnotatedDocument, shard: AnnotatedShard) -> dict[str, object]:
    number, item, doc, found = document
    text = doc.text
    mentions, relations = list_mentions(text, found)

    def mark(name: object, control: str, kind: str, value: dict[str, object]) -> _Result:
        id = f"{number}-{name}"  # no other of the project may have it
        return {"id": id, "from_name": control, "to_name": TEXT, "type": kind, "value": value}

    result: list[_Result] = []
    for mention in mentions:
        place = {"start": mention.start, "end": mention.end}
        covered = text[mention.start : mention.end]
        value = {**place, "text": covered, "labels": [mention.label]}
        others = {"score": mention.confidence, "meta": mention.attributes}
        region = mark(mention.number, LABELS, "labels", value)
        result.append(region | {name: one for name, one in others.items() if one not in (None, {})})
    for relation in relations:
        result.append(
            {
                "type": "relation",
                "from_id": f"{number}-{relation.head.number}",
                "to_id": f"{number}-{relation.tail.number}",
                "direction": "right",
                "labels": [relation.label],
            }
        )
    if shard.layers.cats:
        chosen = [label for label, score in found["cats"].items() if score >= _CHOSEN]
        result.append(mark(CHOICES, CHOICES, "choices", {"choices": chosen}))
    prediction: dict[str, object] = {"model_version": shard.pipeline, "result": result}
    if (lowest := find_lowest(mentions)) is not None:
        prediction["score"] = lowest
    return {"data": {**item.fields, TEXT: text, "id": item.id}, "predictions": [prediction]}
