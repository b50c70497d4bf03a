"""The model card of a packaged pipeline: what it does, how well, and what it is made of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..encoders.encoder_catalogue import find_encoder
from ..evaluation.tasks import Head
from ..files.templates import read_template
from ..pipeline.reliability import BINS, Reliability

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TEMPLATE = "model_card.md.jinja"
# What the files of the diagrams begin with, before "-1.svg".
DIAGRAMS = ("reliability", "labels", "robustness")
COLUMNS = ("precision", "recall", "F1")

# The Hugging Face Hub's names of tasks. It has none for the others.
HUB_TASKS = {
    "named entity recognition": "token-classification",
    "document classification": "text-classification",
    "question answering": "question-answering",
    "similarity of sentences": "sentence-similarity",
}


class Card(NamedTuple):
    """A model card in Markdown, and the diagrams that it names, in SVG by the file's name."""

    text: str
    diagrams: dict[str, str]


def create_card(
    meta: Mapping[str, Any],
    heads: Sequence[Head],
    *,
    others: Mapping[str, dict[str, object]] | None = None,
    robustness: Sequence[Mapping[str, object]] = (),
    of_pairs: bool = False,
    confidences: Mapping[str, Mapping[str, object]] | None = None,
) -> Card:
    """Create the model card.

    Args:
        meta: the meta of the packaged pipeline.
        heads: the components whose scores the card shows.
        others: scores on other test parts, by their names.
        robustness: corpora, each with rows of scores on changed texts (`Robustness`).
        of_pairs: whether the components annotate pairs of texts.
        confidences: the `cfg` of each `biomed_ner`, by its name.
    """
    folder = Path(__file__).parent
    filters: dict[str, Callable[[Any], object]] = {
        "cell": _to_cell,
        "percent": lambda score: "" if score is None else f"{100 * score:.2f}",
        "exp": math.exp,
        "pair": lambda row: (row["change"], [row["f1"]]),
    }
    scales: dict[str, Callable[[float], float]] = {  # of the reliability diagram, in pixels
        "x": lambda share: round(50 + 275 * share, 1),
        "y": lambda share: round(290 - 275 * share, 1),
    }
    diagrams: dict[str, str] = {}

    def draw(kind: str, template: str, **values: object) -> str:
        """Draw a diagram for the card, and name its file."""
        name = f"{kind}-{1 + sum(one.startswith(f'{kind}-') for one in diagrams)}.svg"
        diagrams[name] = read_template(folder / template, **filters).render(scales, **values)
        return name

    text = read_template(folder / TEMPLATE, **filters).render(
        front_matter=_create_front_matter(meta, heads, others or {}),
        package=f"{meta['lang']}_{meta['name']}",
        meta=meta,
        training=meta["spacy_biomed"],
        heads=heads,
        columns=COLUMNS,
        corpora=[source for source in meta["sources"] if "encoder: " not in source["name"]],
        others=others or {},
        robustness=robustness,
        of_pairs=of_pairs,
        confidences=confidences or {},
        list_bins=_list_bins,
        draw=draw,
    )
    return Card(text, diagrams)


def _to_cell(text: str) -> str:
    """A text as a cell of a table, in which Markdown sees no border, tag or emphasis."""
    return re.sub(r"[\\|<*`\[\]]", r"\\\g<0>", " ".join(text.split()))


def _list_bins(bins: Reliability) -> list[dict[str, float]]:
    """The bins with entities: their borders, count, mean confidence, and share of correct ones."""
    return [
        {
            "start": place / BINS,
            "end": (place + 1) / BINS,
            "entities": count,
            "confidence": confidence / count,
            "correct": correct / count,
        }
        for place, (count, confidence, correct) in enumerate(bins.to_rows())
        if count
    ]


def _create_front_matter(
    meta: Mapping[str, Any], heads: Sequence[Head], others: Mapping[str, dict[str, Any]]
) -> str:
    """Create the YAML that the Hugging Face Hub reads, without the lines around it."""
    from huggingface_hub import ModelCardData

    training = meta["spacy_biomed"]
    encoder = find_encoder(training["encoder"])
    tasks = list(dict.fromkeys(head.kind.task_name for head in heads))
    tests = [(training["corpus"], meta["performance"]), *others.items()]
    results = [result for test, scores in tests for result in _results(heads, test, scores)]
    data = ModelCardData(
        language="multilingual" if meta["lang"] == "xx" else meta["lang"],
        license="other",  # those of the corpora and of the encoder, which the card names
        library_name="spacy",
        tags=["spacy", "biomedical", *tasks],
        pipeline_tag=HUB_TASKS.get(tasks[0]) if len(tasks) == 1 else None,
        base_model=encoder.hub_id if encoder else None,
        model_name=f"{meta['lang']}_{meta['name']}" if results else None,
        eval_results=results or None,
    )
    return data.to_yaml()


def _results(heads: Sequence[Head], test: str, scores: dict[str, object]) -> Iterator[EvalResult]:
    from huggingface_hub import EvalResult

    for head in heads:
        task = head.kind.task_name
        begin = f"{head.name}, " if len(heads) > 1 else ""
        # Over all labels.
        totals = {name: score for name, score in scores.items() if name != head.shown.per_type}
        measured = [
            (column.lower(), f"{title}, {column}", value)
            for title, values in head.rows(totals)
            for column, value in zip(COLUMNS, values, strict=True)
        ]
        measured += [(title, title, value) for title, value in head.numbers(totals)]
        for metric, title, value in measured:
            if value is not None:
                yield EvalResult(
                    task_type=HUB_TASKS.get(task, task.replace(" ", "-")),
                    task_name=task,
                    dataset_type=test,
                    dataset_name=test,
                    dataset_split="test",
                    metric_type=metric,
                    metric_name=begin + title,
                    metric_value=round(value, 4),
                )
