"""What the components of a pipeline do, and which of its scores are theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Scores = dict[str, Any]

_ENTITIES = "print([(ent.text, ent.label_, ent._.confidence) for ent in doc.ents])"
_SPANS = "print([(span.text, span.label_, span._.confidence) for span in doc.spans[{key!r}]])"
_CATS = "print(doc.cats)"


@dataclass(frozen=True, slots=True)
class Task:
    """What components of one factory do.

    name: of the task, in the field's words.
    usage: a line of Python that prints what the component finds in a `doc`.
    prefix: that its scores begin with.
    averages: titles of scores that are a precision, a recall and an F1, and what comes between the
        prefix and the letters p, r, f.
    macro: title and name of an F1 alone.
    numbers: titles and names of other scores, from 0 to 1.
    per_type: name of the score that has a precision, a recall and an F1 for each label.
    """

    name: str
    usage: str
    prefix: str = ""
    averages: dict[str, str] = field(default_factory=dict)
    macro: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    per_type: str | None = None


_NER = Task(
    "named entity recognition",
    _ENTITIES,
    "ents",
    averages={"all mentions": ""},
    per_type="per_type",
)
_TEXTCAT = Task(
    "document classification",
    _CATS,
    "cats",
    macro={"macro average over classes": "score"},
    per_type="f_per_type",
)
_EXCLUSIVE_TEXTCAT = replace(_TEXTCAT, numbers={"accuracy": "acc"})

# By factory. Components that are not here find nothing by themselves.
TASKS = {
    "biomed_ner": _NER,
    "ner": _NER,
    "biomed_textcat": _TEXTCAT,
    "textcat": _TEXTCAT,
    "textcat_multilabel": _TEXTCAT,
    "biomed_similarity": Task(
        "similarity of sentences",
        _CATS,
        "similarity",
        numbers={"Pearson's correlation": "pearson", "Spearman's rank correlation": "spearman"},
    ),
    "biomed_relations": Task(
        "relation extraction",
        "print([(head.text, label, tail.text) for head, tail, label, score in doc._.relations])",
        "relations",
        averages={"micro average over relations": "micro_"},
        per_type="per_type",
    ),
    "biomed_qa": Task(
        "question answering",
        'print([(span.text, span._.confidence) for span in doc.spans["answer"]])',
        "qa",
        numbers={
            "F1 of words": "f1",
            "exact match": "exact",
            "strict accuracy": "strict",
            "lenient accuracy": "lenient",
            "mean reciprocal rank": "mrr",
        },
    ),
    "biomed_deidentify": Task("de-identification", "print(doc._.deidentified.text)"),
}


@dataclass(frozen=True, slots=True)
class Head:
    """One component of a pipeline, its settings as the config has them."""

    name: str
    task: Task
    settings: dict[str, Any]

    @property
    def usage(self) -> str:
        if self.key is not None and self.task is _NER:
            return _SPANS.format(key=self.key)
        return self.task.usage

    @property
    def key(self) -> str | None:
        return self.settings.get("spans_key")

    @property
    def prefix(self) -> str:
        """What the component's scores begin with: ours have their name there if it is not that of
        their factory, entities in a span group that group's."""
        factory, prefix = self.settings["factory"], self.task.prefix
        if self.task is _NER:
            return prefix if self.key is None else f"spans_{self.key}"
        is_renamed = factory.startswith("biomed_") and self.name != factory
        return f"{prefix}_{self.name}" if is_renamed else prefix

    def rows(self, scores: Scores) -> Iterator[tuple[str, list[float | None]]]:
        """Title, and precision, recall and F1 from 0 to 1, of what was scored."""
        for title, middle in self.task.averages.items():
            names = [f"{self.prefix}_{middle}{letter}" for letter in "prf"]
            if names[-1] in scores:
                yield title, [scores.get(name) for name in names]
        if self.task is _NER:
            unseen = "spans_unseen" if self.key is None else f"{self.prefix}_unseen"
            if scores.get(f"{unseen}_f") is not None:
                yield "not seen in training", [scores.get(f"{unseen}_{x}") for x in "prf"]
        for title, name in self.task.macro.items():
            if f"{self.prefix}_{name}" in scores:
                yield title, [None, None, scores[f"{self.prefix}_{name}"]]
        per_type = scores.get(f"{self.prefix}_{self.task.per_type}") or {}
        for label, values in sorted(per_type.items()):
            yield label, [values[letter] for letter in "prf"]

    def numbers(self, scores: Scores) -> Iterator[tuple[str, float | None]]:
        """Title and value, from 0 to 1, of scores that are neither."""
        for title, name in self.task.numbers.items():
            if f"{self.prefix}_{name}" in scores:
                yield title, scores[f"{self.prefix}_{name}"]


def find_heads(config: dict[str, Any]) -> list[Head]:
    """The components of a pipeline's config that do a task, in the pipeline's order."""
    components = config["components"]
    return [
        Head(name, _find_task(components[name]), components[name])
        for name in config["nlp"]["pipeline"]
        if components[name].get("factory") in TASKS
    ]


def _find_task(settings: dict[str, Any]) -> Task:
    factory = settings["factory"]
    is_exclusive = factory == "biomed_textcat" and settings.get("exclusive", False)
    return _EXCLUSIVE_TEXTCAT if is_exclusive else TASKS[factory]
