"""Label Studio's JSON: a list of tasks, each with its annotations and predictions."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ..errors import BiomedError, escape, quote
from .documents import Document, Mention, Relation, is_covered, list_files
from .findings import AnnotatedDocument, AnnotatedShard, FoundMention, list_mentions
from .json_fields import get_covered, get_field, get_id, read_json
from .registry import Format
from .repairs import NOT_ANNOTATED, OTHER_ANNOTATION, keep_sound, leaving_out, locate, note

# Names in the labeling configuration (docs/tasks/annotation_tools.md).
LABELS, CHOICES, TEXT = "label", "class", "text"

# A class with at least this score is chosen.
_CHOSEN = 0.5

# The address of an image, or of a text that lies elsewhere.
_ADDRESS = re.compile(r"(https?|s3|gs|azure-blob)://\S+|/data/\S+")

_ADVICE = "check that the file is whole and that Label Studio exported it as JSON"

# Controls whose values for a single mention are among its attributes.
_PER_REGION = ("choices", "taxonomy", "textarea", "rating", "number", "datetime")

# Controls whose values for a whole text are classes.
_CLASSES = ("choices", "taxonomy")


# An annotated task: its document, with the text only, and the results of the annotation to read.
_Task = tuple[Document, list[dict[str, object]]]


def read_label_studio(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read Label Studio's JSON export, as `.json` files: one, or those in and below a folder.

    The text is the field of a task's data with the name of the annotated tag (`to_name`), or else
    the field `text`, or else the only field with a string. The identifier is the field `id` of the
    data, or else the number of the task.

    Labelled regions become mentions, one for each label. Values of other controls for a region, and
    its meta information, become attributes. Relations keep their direction (`bi` becomes two).
    Choices (also of a taxonomy) for the whole text become classes: 1.0 for the chosen, 0.0 for the
    other choices of that control that occur in the export. If several controls have choices, the
    class is `control=choice`. Mentions and relations are lists in every document if any task has
    one.

    Several people may annotate a task. The annotation that is marked as ground truth is read, or
    else the one that was changed last; skipped ones are never read. A task without an annotation,
    such as one with predictions only, is left out and counted.

    Offsets count code points. If the covered strings show that they count UTF-16 code units, as in
    old versions of Label Studio, they are read accordingly.

    Raises:
        BiomedError: if the file is another export (JSON-MIN), or has the address of a text and not
            the text. Also if a region marks anything but plain text, if a mention lies beyond the
            text or reads differently, or if a relation has no mention.
    """
    tasks = [task for file in list_files(Path(path), (".json",)) for task in _read(file, encoding)]
    kinds = {get_id(result, "type") for _, results in tasks for result in results}
    choices = _collect_choices(tasks)
    for document, results in tasks:
        with leaving_out():
            if any(kind.endswith("labels") for kind in kinds):
                document.mentions = _parse_mentions(document, results)
            if "relation" in kinds:
                ids = {one.id for one in document.mentions or ()}
                document.relations = _parse_relations(results, ids, document.source)
            document.cats = _parse_cats(results, choices)
            yield document


def _read(file: Path, encoding: str) -> Iterator[_Task]:
    content = read_json(file, encoding)
    for index, task in enumerate(content if isinstance(content, list) else [content]):
        where = f"{file}: [{index}]"
        with leaving_out():
            if isinstance(task, dict) and "data" not in task and "annotation_id" in task:
                raise BiomedError(
                    f"{where}: this is JSON-MIN, which leaves out relations and who skipped a "
                    f"text; export as JSON"
                )
            data = get_field(task, "data", dict, where, _ADVICE)
            results = _find_annotation(task, where)
            if results is not None:
                id = get_id(data, "id") or get_id(task, "id", f"{file.stem}-{index}")
                text = _find_text(data, results, where)
                yield Document(id=id, text=text, source=where), results


def _find_annotation(task: dict[str, object], where: str) -> list[dict[str, object]] | None:
    """The results of the annotation to read; None if there is none."""
    # Versions before 1.0 call annotations completions.
    key = "annotations" if task.get("annotations") is not None else "completions"
    annotations = get_field(task, key, list, where, _ADVICE) if task.get(key) is not None else []
    for annotation in annotations:
        get_field(annotation, "result", list, where, "export whole annotations, not their ids")
    kept = [one for one in annotations if not one.get("was_cancelled")]
    if not kept:
        reason = "every annotator skipped it" if annotations else "it has no annotation"
        note(NOT_ANNOTATED, f"{where}: task {escape(get_id(task, 'id', '?'))}: {reason}")
        return None
    best = max(range(len(kept)), key=lambda index: (*_rank(kept[index]), index))
    for index, annotation in enumerate(kept):
        if index != best:
            id = escape(get_id(annotation, "id", "?"))
            note(OTHER_ANNOTATION, f"{where}: annotation {id}: another one of the task is read")
    return [result for result in kept[best]["result"] if isinstance(result, dict)]


def _rank(annotation: dict[str, object]) -> tuple[bool, str]:
    changed = get_id(annotation, "updated_at") or get_id(annotation, "created_at")
    return bool(annotation.get("ground_truth")), changed


def _find_text(data: dict[str, object], results: list[dict[str, object]], where: str) -> str:
    strings = {name: value for name, value in data.items() if isinstance(value, str)}
    regions = [result for result in results if result.get("type") == "labels"]
    tags = dict.fromkeys(filter(None, (get_id(region, "to_name") for region in regions)))
    if len(tags) > 1:
        raise BiomedError(
            f"{where}: several texts have regions ({', '.join(map(escape, tags))}); export the "
            "regions of one text"
        )
    names = [*tags, *(get_id(result, "to_name") for result in results), "text"]
    names = [name for name in names if name in strings]
    if not names and len(strings) == 1:
        names = list(strings)
    if not names:
        fields = ", ".join(map(escape, list(data)[:5])) or "none"
        raise BiomedError(
            f"{where}: cannot tell which field of the data is the text ({fields}); name it text"
        )
    text = strings[names[0]]
    if _ADDRESS.fullmatch(text):
        raise BiomedError(
            f"{where}: the export has {quote(text)} in place of the text; put the text into it"
        )
    return text


def _collect_choices(tasks: Iterable[_Task]) -> dict[str, dict[str, None]]:
    """The choices of each control for whole texts that occur."""
    choices: dict[str, dict[str, None]] = {}
    for _, results in tasks:
        for result in results:
            if get_id(result, "type") in _CLASSES and not _is_for_region(result):
                of_control = choices.setdefault(get_id(result, "from_name"), {})
                of_control.update(dict.fromkeys(_find_choices(result)))
    return choices


def _is_for_region(result: dict[str, object]) -> bool:
    """Whether a result is about a region of the text, not the whole text."""
    value = result.get("value")
    return isinstance(value, dict) and "start" in value


def _find_choices(result: dict[str, object]) -> list[str]:
    """The chosen classes; one of a taxonomy is the path to it, with " > " between its parts."""
    value = result.get("value")
    choices = value.get(get_id(result, "type")) if isinstance(value, dict) else None
    choices = choices if isinstance(choices, list) else [choices]
    paths = [choice if isinstance(choice, list) else [choice] for choice in choices]
    return [" > ".join(path) for path in paths if all(isinstance(part, str) for part in path)]


def _parse_mentions(document: Document, results: list[dict[str, object]]) -> list[Mention]:
    text, where = document.text, document.source
    found: list[tuple[Mention, str | None]] = []
    for result in results:
        with leaving_out():
            found.extend(_parse_region(result, where))
    attributes = _find_attributes(results)

    def place(one: tuple[Mention, str | None]) -> Mention:
        mention, covered = one
        mention = locate(text, mention, _unescape(text, mention, covered), where)
        return replace(mention, attributes=attributes.get(mention.id, {}))

    return list(keep_sound(place, _count_code_points(text, found)))


def _parse_region(result: dict[str, object], where: str) -> Iterator[tuple[Mention, str | None]]:
    """A mention for each label of a region, with the string it covers."""
    kind = get_id(result, "type")
    if not kind.endswith("labels"):
        return
    value = get_field(result, "value", dict, where, _ADVICE)
    # Regions of HTML and of dialogues begin in an element.
    if kind != "labels" or isinstance(value.get("start"), str):
        raise BiomedError(
            f"{where}: a result of type {quote(kind)} marks no plain text; label a <Text> with "
            f"<Labels>"
        )
    start, end = (get_field(value, key, int, where, _ADVICE) for key in ("start", "end"))
    covered = get_covered(value, where)
    labels = get_field(value, "labels", list, where, _ADVICE)
    if not labels:
        raise BiomedError(f"{where}: a region has no label; label it, or remove it")
    for label in labels:
        if not isinstance(label, str):
            raise BiomedError(f"{where}: expected a label, found {quote(label)}; {_ADVICE}")
        yield Mention(label, ((start, end),), get_id(result, "id")), covered


def _count_code_points(
    text: str, found: list[tuple[Mention, str | None]]
) -> list[tuple[Mention, str | None]]:
    """Convert offsets that count UTF-16 code units to code points, if more mentions then fit."""
    if text.isascii() or max(text) <= "\uffff":
        return found
    points = {}
    unit = 0
    for point, character in enumerate(text):
        points[unit] = point
        unit += 2 if character > "\uffff" else 1
    points[unit] = len(text)

    def convert(mention: Mention) -> Mention:
        offsets = tuple((points.get(a, a), points.get(b, b)) for a, b in mention.fragments)
        return replace(mention, fragments=offsets)

    converted = [(convert(mention), covered) for mention, covered in found]

    def fits(mention: Mention, covered: str | None) -> bool:
        covered = _unescape(text, mention, covered)
        return covered is not None and is_covered(text, mention, covered)

    readings = (found, converted)  # the first, where both fit alike
    return max(readings, key=lambda reading: sum(fits(*one) for one in reading))


def _unescape(text: str, mention: Mention, covered: str | None) -> str | None:
    r"""The string that a region covers; Label Studio writes its line ends as `\n`."""
    if covered is None or is_covered(text, mention, covered):
        return covered
    return covered.replace("\\n", "\n")


def _find_attributes(results: list[dict[str, object]]) -> dict[str, dict[str, str]]:
    attributes: dict[str, dict[str, str]] = {}
    for result in results:
        id = get_id(result, "id")
        if not id:
            continue
        of_region = attributes.setdefault(id, {})
        meta = result.get("meta")
        of_region.update(_find_strings(meta if isinstance(meta, dict) else {}))
        kind, value = result.get("type"), result.get("value")
        if kind in _PER_REGION and isinstance(value, dict):
            given = value.get("text" if kind == "textarea" else kind)
            given = _find_choices(result) if kind in _CLASSES else given
            of_region.update(_find_strings({get_id(result, "from_name", kind): given}))
    return attributes


def _find_strings(values: dict[str, object]) -> dict[str, str]:
    """Strings, numbers, and lists of them, as strings."""
    strings = {}
    for name, value in values.items():
        parts = value if isinstance(value, list) else [value]
        # Python does not write out numbers of thousands of digits.
        small = [one for one in parts if not isinstance(one, int) or abs(one) < 10**18]
        shown = [str(one) for one in small if isinstance(one, str | float | int)]
        if shown:
            strings[name] = ", ".join(shown)
    return strings


def _parse_relations(results: list[dict[str, object]], ids: set[str], where: str) -> list[Relation]:
    relations: list[Relation] = []
    for result in results:
        with leaving_out():
            if result.get("type") == "relation":
                relations.extend(_parse_relation(result, ids, where))
    return relations


def _parse_relation(result: dict[str, object], ids: set[str], where: str) -> Iterator[Relation]:
    head, tail = (
        str(get_field(result, key, (str, int), where, _ADVICE)) for key in ("from_id", "to_id")
    )
    for id in (head, tail):
        if id not in ids:
            raise BiomedError(
                f"{where}: a relation with {quote(id)}, which is not a mention; remove the relation"
            )
    labels = result.get("labels") or ["relation"]
    direction = get_id(result, "direction", "right")
    for label in labels if isinstance(labels, list) else [labels]:
        if not isinstance(label, str):
            raise BiomedError(f"{where}: expected a label, found {quote(label)}; {_ADVICE}")
        if direction != "left":
            yield Relation(label, head, tail, get_id(result, "id"))
        if direction != "right":
            yield Relation(label, tail, head, get_id(result, "id"))


def _parse_cats(
    results: list[dict[str, object]], choices: dict[str, dict[str, None]]
) -> dict[str, float] | None:
    cats: dict[str, float] = {}
    for result in results:
        if result.get("type") in _CLASSES and not _is_for_region(result):
            control, chosen = get_id(result, "from_name"), _find_choices(result)
            for choice in choices[control]:
                name = choice if len(choices) == 1 else f"{control}={choice}"
                cats[name] = float(choice in chosen)
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
    mentions, relations = list_mentions(doc.text, found)
    result = [_describe(mention, number, doc.text) for mention in mentions]
    for relation in relations:
        result.append(
            {
                "type": "relation",
                "from_id": _region(number, relation.head),
                "to_id": _region(number, relation.tail),
                "direction": "right",
                "labels": [relation.label],
            }
        )
    if shard.layers.cats:
        result.append(_choose(number, found["cats"]))
    confidences = [one.confidence for one in mentions if one.confidence is not None]
    prediction: dict[str, object] = {"model_version": shard.pipeline, "result": result}
    if confidences:
        prediction["score"] = min(confidences)
    data = {**item.fields, TEXT: doc.text, "id": item.id}
    return {"data": data, "predictions": [prediction]}


def _region(document: int, mention: FoundMention) -> str:
    """The id of a mention: no other of the project may have it."""
    return f"{document}-{mention.number}"


def _describe(mention: FoundMention, document: int, text: str) -> dict[str, object]:
    region: dict[str, object] = {
        "id": _region(document, mention),
        "from_name": LABELS,
        "to_name": TEXT,
        "type": "labels",
        "value": {
            "start": mention.start,
            "end": mention.end,
            "text": text[mention.start : mention.end],
            "labels": [mention.label],
        },
    }
    if mention.confidence is not None:
        region["score"] = mention.confidence
    if mention.attributes:
        region["meta"] = mention.attributes
    return region


def _choose(document: int, cats: dict[str, float]) -> dict[str, object]:
    return {
        "id": f"{document}-{CHOICES}",
        "from_name": CHOICES,
        "to_name": TEXT,
        "type": "choices",
        "value": {"choices": [label for label, score in cats.items() if score >= _CHOSEN]},
    }
