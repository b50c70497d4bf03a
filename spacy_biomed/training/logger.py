"""`spacy_biomed.RichLogger.v1`: how training goes, in a terminal, in a log and in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from timeit import default_timer as timer
from typing import IO, Any

import srsly
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from spacy.language import Language
from spacy.training.loggers import setup_table
from wasabi import Printer

from ..errors import BiomedError
from ..outputs import replacing_file

# The loop's account of a step; None for a step without evaluation.
Info = dict[str, Any] | None
LogStep = Callable[[Info], None]

# Seconds over which the time left is estimated: several evaluations, most often.
_ESTIMATE_SECONDS = 300

# Enough for "LOSS BIOMED_TRANSFORMER": spaCy's default cuts all our names to the same.
_COLUMN_WIDTH = 24


def RichLogger_v1(
    progress_bar: bool = True, jsonl: str | None = None, console_output: bool = True
) -> Callable[[Language, IO, IO], tuple[LogStep, Callable[[], None]]]:
    """Show a row for each evaluation and, in a terminal, a bar between them.

    Words a second are those of training: the time that evaluations take does not count. They are
    not known (null, "-") at the first evaluation.

    Args:
        progress_bar: whether to show steps done of `max_steps`, words a second, the time left and
            the last score. Where the output is no terminal there is no bar.
        jsonl: file that gets a JSON object for each evaluation when it is made: epoch, step, words
            (seen so far), words_per_second, seconds (since the start), losses, score, and all
            scores that are numbers. The file of an earlier run is replaced; that of a run that is
            being continued goes on.
        console_output: whether to print at all.
    """

    def setup_printer(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        log = TrainingLog(
            nlp,
            table=Table(nlp, stdout, bar=progress_bar) if console_output else None,
            rows=RowFile(Path(jsonl)) if jsonl is not None else None,
        )
        return log.log_step, log.finalize

    return setup_printer


class TrainingLog:
    """What the loop tells, passed on to the table and the file."""

    def __init__(self, nlp: Language, table: Table | None, rows: RowFile | None):
        self.pipes = trained_pipes(nlp)
        self.table = table
        self.rows = rows
        self.speed = Speed()

    def log_step(self, info: Info) -> None:
        self.speed.step(info)
        if info is not None:
            row = make_row(info, self.pipes, self.speed.words_per_second)
            if self.rows is not None:
                self.rows.write(row)
            if self.table is not None:
                self.table.write(row)
        if self.table is not None:
            self.table.advance(info, self.speed)

    def finalize(self) -> None:
        if self.table is not None:
            self.table.stop()


def trained_pipes(nlp: Language) -> list[str]:
    """The components that have losses; the loop has disabled the frozen ones by now."""
    return [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False)]


def make_row(
    info: dict[str, Any], pipes: list[str], words_per_second: float | None
) -> dict[str, Any]:
    """What is told of an evaluation."""
    scores = {
        name: float(score)
        for name, score in info["other_scores"].items()
        if isinstance(score, Real)
    }
    return {
        "epoch": info["epoch"],
        "step": info["step"],
        "words": info["words"],
        "words_per_second": words_per_second,
        "seconds": info["seconds"],
        "losses": {pipe: float(info["losses"].get(pipe, 0.0)) for pipe in pipes},
        "score": float(info["score"]),
        "scores": scores,
    }


class Speed:
    """Words a second in training, from the loop's calls.

    Of the words of a step without evaluation the loop tells nothing: between evaluations each step
    is taken to have the average number. The time of a step with an evaluation is taken to be that
    of the others, since it cannot be told from the evaluation's.

    Attributes:
        words_per_second: of the steps since the evaluation before; None at the first.
    """

    def __init__(self) -> None:
        self.words_per_second: float | None = None
        self._words = 0
        self._words_per_step: float | None = None
        self._steps = 0
        self._start = self._last = timer()

    def step(self, info: Info) -> None:
        now = timer()
        if info is None:
            self._steps += 1
            self._last = now
            return
        if self._words_per_step is not None:
            words = info["words"] - self._words
            self.words_per_second = words / max(self._train_seconds(now), 1e-9)
        self._words_per_step = info["words"] / (info["step"] + 1)
        self._words, self._steps = info["words"], 0
        self._start = self._last = now

    def estimate(self) -> float | None:
        """Words a second since the last evaluation; of the interval before it, right after it."""
        if self._words_per_step is None or self._steps == 0:
            return self.words_per_second
        return self._words_per_step * self._steps / max(self._last - self._start, 1e-9)

    def _train_seconds(self, now: float) -> float:
        """Seconds that the steps since the last evaluation trained, this one's included."""
        if self._steps == 0:
            return now - self._start
        return (self._last - self._start) * (self._steps + 1) / self._steps


class Table:
    """The rows, and the bar below them.

    Attributes:
        stdout: where to; what is no terminal gets the rows alone.
        bar: whether a terminal gets the bar.
    """

    def __init__(self, nlp: Language, stdout: IO, *, bar: bool):
        settings = nlp.config.interpolate()["training"]
        weights = settings["score_weights"]
        self.scores = [name for name, weight in weights.items() if weight is not None]
        pipes = trained_pipes(nlp)
        self.printer = Printer(no_print=True)
        headers, self.widths, self.aligns = setup_table(
            cols=["E", "#", "W/s", *(f"Loss {pipe}" for pipe in pipes), *self.scores, "Score"],
            widths=[3, 6, 6, *(8 for _ in pipes), *(6 for _ in self.scores), 6],
            max_width=_COLUMN_WIDTH,
        )
        self.console = Console(file=stdout, markup=False, emoji=False, highlight=False)
        self.progress: Progress | None = None
        self._print(headers)
        self._print(["-" * width for width in self.widths])
        if bar and self.console.is_terminal:
            self._start_bar(settings["max_steps"])

    def write(self, row: dict[str, Any]) -> None:
        speed = row["words_per_second"]
        self._print(
            [
                row["epoch"],
                row["step"],
                "-" if speed is None else f"{speed:.0f}",
                *(f"{loss:.2f}" for loss in row["losses"].values()),
                *(_format_score(name, row["scores"].get(name, 0.0)) for name in self.scores),
                _format_score("score", row["score"]),
            ]
        )

    def advance(self, info: Info, speed: Speed) -> None:
        """Move the bar on by a step."""
        if self.progress is None:
            return
        if info is None:
            self.progress.advance(self.task)
        else:
            self.progress.update(
                self.task,
                completed=info["step"],
                score=f"score {_format_score('score', info['score'])}",
            )
        rate = speed.estimate()
        self.progress.update(self.task, speed="" if rate is None else f"{rate:,.0f} words/s")

    def stop(self) -> None:
        if self.progress is not None:
            self.progress.stop()

    def _start_bar(self, max_steps: int) -> None:
        self.progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("{task.fields[score]}", markup=False),
            console=self.console,
            transient=True,
            speed_estimate_period=_ESTIMATE_SECONDS,
        )
        # The loop's steps are 0 to max_steps, and 0 is the first that it tells of.
        self.task = self.progress.add_task("", total=max_steps or None, speed="", score="")
        self.progress.start()

    def _print(self, cells: list[Any]) -> None:
        line = self.printer.row(cells, widths=self.widths, aligns=self.aligns, spacing=2)
        # Whole, however narrow the terminal: rows are for copying and for `grep` as well.
        self.console.print(line, soft_wrap=True)
        self.console.file.flush()


def _format_score(name: str, score: float) -> str:
    """In per cent, but for words a second."""
    return f"{score:.0f}" if name == "speed" else f"{100 * score:.2f}"


class RowFile:
    """A file of JSON lines, one for each evaluation.

    Attributes:
        path: file to write; its folder is made.

    Raises:
        BiomedError: if it cannot be written.
    """

    def __init__(self, path: Path):
        try:  # now, not at the first evaluation
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("a").close()
        except OSError as error:
            raise BiomedError(
                f"{path}: cannot be written ({error.strerror}); name another file in "
                "training.logger.jsonl"
            ) from error
        self.path = path
        self._begun = False

    def write(self, row: dict[str, Any]) -> None:
        if not self._begun:
            self._begin(row["step"])
        srsly.write_jsonl(self.path, [row], append=True, append_new_line=False)

    def _begin(self, step: int) -> None:
        """Keep of an earlier run the rows before `step`.

        A run from the beginning is evaluated at step 0 first, so it keeps none. One that is
        continued keeps those up to where it is continued from.
        """
        earlier = [
            row
            for row in srsly.read_jsonl(self.path, skip=True)
            if isinstance(row, dict) and row.get("step", step) < step
        ]
        with replacing_file(self.path) as partial:
            srsly.write_jsonl(partial, earlier)
        self._begun = True
