"""The report of a study of encoders: a table, all numbers as JSON, and a diagram."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from .figures import Dot, draw_scatter
from .reports import format_table, write_report_files

TABLE, RESULTS, FIGURE = "encoders.md", "encoders.json", "encoders.svg"


@dataclass(frozen=True, slots=True)
class EncoderFigures:
    """The results of an encoder after fine-tuning.

    Attributes:
        name: name of the encoder.
        parameters: number of parameters, without pooler and language-model head.
        int8_bytes: size of the exported encoder's file.
        words_per_second: speed of the quantised pipeline.
        f1, int8_f1: by corpus the F1 with each seed, 0 to 1, before and after quantisation.
    """

    name: str
    parameters: int
    int8_bytes: int
    words_per_second: float
    f1: dict[str, list[float]]
    int8_f1: dict[str, list[float]]

    @property
    def fp16_bytes(self) -> int:
        """The size of the weights in half precision."""
        return 2 * self.parameters

    @property
    def mean(self) -> float:
        """The mean F1 over corpora, of the means over seeds, from 0 to 100."""
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
    """Write the table, all numbers and the diagram.

    Args:
        figures: results of the encoders.
        output: existing folder to write to.
        baseline: name of the encoder to compare the others with; None for no comparison.
        settings: settings of the trainings and measurements; "epochs" by corpus, "seeds",
            "learn_rate", "batch_words" and "texts" are described under the table.
    """
    results = {
        "settings": settings,
        "baseline": baseline,
        "encoders": [encoder.to_json() for encoder in figures],
    }
    table = create_table(figures, baseline) + "\n" + describe_settings(settings)
    write_report_files(output, {TABLE: table, RESULTS: results, FIGURE: draw_figure(figures)})


def create_table(figures: list[EncoderFigures], baseline: str | None) -> str:
    """The results as a Markdown table with a row for each encoder.

    Args:
        figures: results of the encoders.
        baseline: name of the encoder to compare the others with, by mean F1; None for no
            comparison.
    """
    corpora = list(figures[0].f1)
    titles = ["encoder", "parameters", "fp16", "int8", "words/s"]
    titles += [*corpora, "mean F1", "int8: mean F1"]
    compared = next((encoder for encoder in figures if encoder.name == baseline), None)
    if compared is not None:
        titles.append(f"against {baseline}")
    rows = []
    for encoder in figures:
        row = [
            encoder.name,
            f"{encoder.parameters / 1e6:.2f} M",
            f"{encoder.fp16_bytes / 1e6:.1f} MB",
            f"{encoder.int8_bytes / 1e6:.1f} MB",
            f"{encoder.words_per_second:,.0f}",
            *(_describe_scores(encoder.f1[corpus]) for corpus in corpora),
            f"{encoder.mean:.2f}",
            f"{encoder.int8_mean:.2f}",
        ]
        if compared is not None:
            row.append("" if encoder is compared else f"{encoder.mean - compared.mean:+.2f}")
        rows.append(row)
    return format_table(titles, rows)


def _describe_scores(scores: list[float]) -> str:
    """The mean from 0 to 100, and the score with each seed if there are several."""
    mean = f"{100 * fmean(scores):.2f}"
    if len(scores) == 1:
        return mean
    return f"{mean} ({', '.join(f'{100 * score:.2f}' for score in scores)})"


def describe_settings(settings: dict[str, Any]) -> str:
    """A paragraph on the settings, which are the same for all encoders."""
    epochs = ", ".join(f"{name} {count}" for name, count in settings["epochs"].items())
    seeds = ", ".join(map(str, settings["seeds"]))
    several = f"mean over seeds ({seeds} in this order)"
    seeds = several if len(settings["seeds"]) > 1 else f"seed {seeds}"
    return (
        f"F1 on the test parts, {seeds}; epochs: {epochs}; "
        f"learning rate {settings['learn_rate']:g}, batches of {settings['batch_words']:,} words. "
        "Parameters are counted for the encoder only; fp16 is the size of its weights, int8 of its "
        "exported file. Words per second are measured with the whole int8 pipeline on the CPU, on "
        f"{settings['texts']}.\n"
    )


def draw_figure(figures: list[EncoderFigures]) -> str:
    """Draw F1 against words per second and against size, for the quantised pipelines.

    Returns:
        an SVG document.
    """
    speed = [Dot(encoder.name, encoder.words_per_second, encoder.int8_mean) for encoder in figures]
    size = [Dot(encoder.name, encoder.int8_bytes / 1e6, encoder.int8_mean) for encoder in figures]
    return draw_scatter(
        "Encoders in int8: mean F1 over the corpora against speed and size",
        "mean F1",
        [("words a second", speed), ("size of the encoder, MB", size)],
    )
