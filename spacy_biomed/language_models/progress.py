"""The progress of a training: rows in a log file, lines and a bar in the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import srsly
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from transformers import TrainerCallback, TrainerState

from ..files.outputs import replacing_file
from .batches import TrainingBatches

# Prefix of the names of an objective's terms in the trainer's logs.
TERM = "term_"

# Seconds of progress from which the remaining time is estimated.
_ESTIMATE_SECONDS = 300


class RunLog(TrainerCallback):
    """Logs and shows the progress of a training; only for the main process.

    A row has step, epoch, pieces (word pieces trained on so far), seconds (so far, including
    evaluations and the time before a resume) and pieces_per_second (since the last row of training,
    without evaluations). It also has either loss and learning_rate, or validation_loss and
    validation_perplexity (null if the loss is not a cross-entropy). A row of distillation's
    training also has the unweighted terms of the objective, as `terms`.

    Attributes:
        path: file of JSON lines. When a run is resumed, the rows up to its checkpoint stay.
        console: where evaluations and, if it is a terminal, a bar are shown; None for nowhere.
    """

    def __init__(self, path: Path, batches: TrainingBatches, console: Console | None = None):
        self.path = path
        self.batches = batches
        self.console = console
        self.progress = _make_bar(
            console,
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}", markup=False),
            TextColumn("{task.fields[speed]}", markup=False),
            TimeRemainingColumn(),
            speed_estimate_period=_ESTIMATE_SECONDS,
        )
        self.pieces = 0
        self.seconds = 0.0
        self._loss: float | None = None

    def on_train_begin(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        rows = self._earlier_rows(state.global_step)
        if rows:
            self.pieces, self.seconds = rows[-1]["pieces"], rows[-1]["seconds"]
        self._start = self._mark = time.perf_counter()
        self._interval = 0.0
        self._interval_pieces = 0
        self._task = self.progress.add_task(
            "", total=state.max_steps, completed=state.global_step, loss="", speed=""
        )
        self.progress.start()

    def on_step_end(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        now = time.perf_counter()
        pieces = self.batches.pieces(state.global_step - 1)
        self._interval += now - self._mark
        self._interval_pieces += pieces
        self.pieces += pieces
        self._mark = now
        speed = f"{self._speed():,.0f} pieces/s"
        self.progress.update(self._task, completed=state.global_step, speed=speed)

    def on_log(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        logs: dict[str, float] = event["logs"]
        if "loss" not in logs:
            return
        self._loss = logs["loss"]
        row: dict[str, Any] = {"loss": self._loss, "learning_rate": logs["learning_rate"]}
        if terms := {name[len(TERM) :]: logs[name] for name in logs if name.startswith(TERM)}:
            row["terms"] = terms
        self._write(state, **row)
        self._interval, self._interval_pieces = 0.0, 0
        self.progress.update(self._task, loss=f"loss {self._loss:.3f}")

    def on_evaluate(self, args: object, state: TrainerState, *_: object, **event: Any) -> None:
        metrics: dict[str, Any] = event["metrics"]
        loss, perplexity = metrics["eval_loss"], metrics["eval_perplexity"]
        row = self._write(state, validation_loss=loss, validation_perplexity=perplexity)
        self._mark = time.perf_counter()
        if self.console is not None:
            parts = [
                f"step {state.global_step:,} of {state.max_steps:,}",
                "" if self._loss is None else f"loss {self._loss:.4f}",
                f"validation {loss:.4f}",
                "" if perplexity is None else f"perplexity {perplexity:.2f}",
                f"{row['seconds'] / 60:.1f} min",
            ]
            line = " · ".join(filter(None, parts))
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def on_save(self, *event: object, **others: object) -> None:
        self._mark = time.perf_counter()

    def on_train_end(self, *event: object, **others: object) -> None:
        self.progress.stop()

    def _speed(self) -> float:
        return self._interval_pieces / max(self._interval, 1e-9)

    def _write(self, state: TrainerState, **values: float) -> dict[str, Any]:
        row = {
            "step": state.global_step,
            "epoch": state.epoch,
            "pieces": self.pieces,
            "seconds": self.seconds + time.perf_counter() - self._start,
            "pieces_per_second": self._speed() if self._interval else None,
            **values,
        }
        srsly.write_jsonl(self.path, [row], append=True, append_new_line=False)
        return row

    def _earlier_rows(self, step: int) -> list[dict[str, Any]]:
        """The rows up to a step; later rows are deleted from the file."""
        rows = [row for row in read_rows(self.path) if 0 < row["step"] <= step]
        with replacing_file(self.path) as partial:
            srsly.write_jsonl(partial, rows)
        return rows


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a log; empty if there is no log. Incomplete rows are left out."""
    return list(srsly.read_jsonl(path, skip=True)) if path.is_file() else []


@contextmanager
def counting(what: str, unit: str, console: Console | None) -> Iterator[Callable[[int], None]]:
    """Show a count during a task of unknown length, in a terminal; yield a function that adds."""
    with _make_bar(
        console,
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:,.0f} {task.fields[unit]}", markup=False),
        TimeElapsedColumn(),
    ) as progress:
        task = progress.add_task(what, total=None, unit=unit)
        yield lambda count: progress.advance(task, count)


def _make_bar(console: Console | None, *columns: ProgressColumn, **settings: Any) -> Progress:
    """A bar that is shown only on a terminal."""
    is_shown = console is not None and console.is_terminal
    return Progress(
        *columns,
        console=console if is_shown else Console(quiet=True),
        transient=True,
        disable=not is_shown,
        **settings,
    )
