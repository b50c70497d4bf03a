"""What a study of encoders writes: a table, all figures, and a figure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ..outputs import replacing_file
from .figures import Dot, draw_scatter

TABLE, RESULTS, FIGURE = "encoders.md", "encoders.json", "encoders.svg"


@dataclass(frozen=True, slots=True)
class EncoderFigures:
    """An encoder after fine-tuning.

    Attributes:
        parameters: without pooler and language-model head.
        int8_bytes: size of the exported encoder's file.
        words_per_second: of the quantised pipeline.
        f1, int8_f1: by corpus, with each seed, 0 to 1, as trained and quantised.
    """

    name: str
    parameters: int
    int8_bytes: int
    words_per_second: float
    f1: dict[str, list[float]]
    int8_f1: dict[str, list[float]]

    @property
    def fp16_bytes(self) -> int:
        """Of the weights in half precision."""
        return 2 * self.parameters

    @property
    def mean(self) -> float:
        """Points of 100: over the corpora, of the means over seeds."""
        return _mean(self.f1)

    @property
    def int8_mean(self) -> float:
        return _mean(self.int8_f1)

    def to_json(self) -> dict[str, Any]:
        means = {"mean": round(self.mean, 4), "int8_mean": round(self.int8_mean, 4)}
        return {**asdict(self), "fp16_bytes": self.fp16_bytes, **means}


def _mean(scores: dict[str, list[float]]) -> float:
    return 100 * fmean(map(fmean, scores.values()))


def write_report(
    figures: list[EncoderFigures], output: Path, baseline: str | None, settings: dict[str, Any]
) -> None:
    """Write the table, all figures and the figure.

    Args:
        baseline: name of the encoder that the others are compared with.
        settings: of the trainings and measurements; "epochs" by corpus, "seeds", "learn_rate",
            "batch_words" and "texts" are told under the table.
    """
    results = {
        "settings": settings,
        "baseline": baseline,
        "encoders": [one.to_json() for one in figures],
    }
    contents = {
        TABLE: create_table(figures, baseline) + "\n" + describe_settings(settings),
        RESULTS: json.dumps(results, ensure_ascii=False, indent=2) + "\n",
        FIGURE: draw_figure(figures),
    }
    for name, content in contents.items():
        with replacing_file(output / name) as partial:
            partial.write_text(content, encoding="utf8")


def create_table(figures: list[EncoderFigures], baseline: str | None) -> str:
    """The figures as a table in Markdown: a row for each encoder.

    Args:
        baseline: name of the encoder that the others are compared with, by the mean over corpora.
    """
    corpora = list(figures[0].f1)
    titles = ["encoder", "parameters", "fp16", "int8", "words/s"]
    titles += [*corpora, "mean F1", "int8: mean F1"]
    compared = next((one for one in figures if one.name == baseline), None)
    if compared is not None:
        titles.append(f"against {baseline}")
    rows = [titles, ["---", *("---:" for _ in titles[1:])]]
    for one in figures:
        row = [
            one.name,
            f"{one.parameters / 1e6:.2f} M",
            f"{one.fp16_bytes / 1e6:.1f} MB",
            f"{one.int8_bytes / 1e6:.1f} MB",
            f"{one.words_per_second:,.0f}",
            *(_describe_scores(one.f1[corpus]) for corpus in corpora),
            f"{one.mean:.2f}",
            f"{one.int8_mean:.2f}",
        ]
        if compared is not None:
            row.append("" if one is compared else f"{one.mean - compared.mean:+.2f}")
        rows.append(row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _describe_scores(scores: list[float]) -> str:
    """Points of 100: the mean, and that of each seed if there are several."""
    mean = f"{100 * fmean(scores):.2f}"
    if len(scores) == 1:
        return mean
    return f"{mean} ({', '.join(f'{100 * score:.2f}' for score in scores)})"


def describe_settings(settings: dict[str, Any]) -> str:
    """What is the same for all encoders, as a paragraph."""
    epochs = ", ".join(f"{name} {count}" for name, count in settings["epochs"].items())
    seeds = ", ".join(map(str, settings["seeds"]))
    several = f"mean over seeds ({seeds} in this order)"
    seeds = several if len(settings["seeds"]) > 1 else f"seed {seeds}"
    return (
        f"F1 on the test parts, {seeds}; epochs: {epochs}; "
        f"learning rate {settings['learn_rate']:g}, batches of {settings['batch_words']:,} words. "
        "Parameters are those of the encoder alone; fp16 is the size of its weights, int8 that of "
        "its exported file. Words a second are those of the whole int8 pipeline on the CPU, on "
        f"{settings['texts']}.\n"
    )


def draw_figure(figures: list[EncoderFigures]) -> str:
    """Draw F1 against words a second and against size, all of the quantised pipelines.

    Returns:
        an SVG document.
    """
    speed = [Dot(one.name, one.words_per_second, one.int8_mean) for one in figures]
    size = [Dot(one.name, one.int8_bytes / 1e6, one.int8_mean) for one in figures]
    return draw_scatter(
        "Encoders in int8: mean F1 over the corpora against speed and size",
        "mean F1",
        [("words a second", speed), ("size of the encoder, MB", size)],
    )
