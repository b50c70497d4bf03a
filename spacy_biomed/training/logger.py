"""`spacy_biomed.RichLogger.v1`: spaCy's table and progress bar, and a file of JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from timeit import default_timer as timer
from types import SimpleNamespace
from typing import IO, Any

import srsly
from spacy.language import Language
from spacy.util import registry

from ..errors import BiomedError
from ..outputs import replacing_file

# Its argument is the training loop's report on a step; None for a step without an evaluation.
LogStep = Callable[[dict[str, Any] | None], None]


def RichLogger_v1(
    progress_bar: bool = True, jsonl: str | None = None, console_output: bool = True
) -> Callable[[Language, IO, IO], tuple[LogStep, Callable[[], None]]]:
    """Print spaCy's table of evaluations, and write them to a file of JSON lines.

    Args:
        progress_bar: whether to show spaCy's bar, from the first evaluation to `max_steps`, if the
            standard error is a terminal.
        jsonl: file that gets a JSON object for each evaluation: epoch, step, words (seen so far),
            words_per_second (since the last evaluation, evaluations not counted; null in the first
            line), seconds (since the start), losses, score, and all scores that are numbers. A new
            run replaces the file of an earlier run. A run that is continued continues the file.
        console_output: whether to print at all.
    """
    setup_console = registry.get("loggers", "spacy.ConsoleLogger.v3")(
        progress_bar="train" if progress_bar else None, console_output=console_output
    )

    def setup_logger(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        pipes = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False)]
        shown = shorten_names(pipes)
        pipeline = [(shown[name], pipe) for name, pipe in nlp.pipeline if name in shown]
        console_nlp: Any = SimpleNamespace(pipeline=pipeline, config=nlp.config)
        log_to_console, finalize = setup_console(console_nlp, stdout, stderr)
        file = RowFile(Path(jsonl)) if jsonl is not None else None
        speed = TrainingSpeed()

        def log_step(info: dict[str, Any] | None) -> None:
            if info is None:
                speed.count_step()
            else:
                # A component without examples since the last evaluation has no loss.
                losses = {name: float(info["losses"].get(name, 0.0)) for name in pipes}
                info = {**info, "losses": losses}
                words_per_second = speed.measure(info["words"])
                if file is not None:
                    file.write(make_row(info, words_per_second))
                info = {**info, "losses": {shown[name]: loss for name, loss in losses.items()}}
            log_to_console(info)

        return log_step, finalize

    return setup_logger


def shorten_names(names: list[str]) -> dict[str, str]:
    """Short names of components, since spaCy's table cuts off the columns of their losses.

    Returns:
        each name without "biomed_", unless two would have the same name.
    """
    short = [name.removeprefix("biomed_") for name in names]
    return dict(zip(names, short if len(set(short)) == len(short) else names, strict=True))


def make_row(info: dict[str, Any], words_per_second: float | None) -> dict[str, Any]:
    """The line of the file for an evaluation."""
    row = {name: info[name] for name in ("epoch", "step", "words", "seconds", "losses")}
    row.update(words_per_second=words_per_second, score=float(info["score"]))
    scores = info["other_scores"].items()
    return {**row, "scores": {name: float(one) for name, one in scores if isinstance(one, Real)}}


class TrainingSpeed:
    """Words per second of training between evaluations.

    The step before an evaluation is taken to be as long as the others, since the loop does not
    report when the evaluation began.
    """

    def __init__(self) -> None:
        self._words: int | None = None
        self._ends = [timer()]  # of the last evaluation and the steps since

    def count_step(self) -> None:
        self._ends.append(timer())

    def measure(self, words: int) -> float | None:
        """The speed since the last evaluation, of `words` in all; None at the first evaluation."""
        speed, steps = None, len(self._ends)
        if self._words is not None:
            if steps == 1:
                self.count_step()  # the evaluation counts as training, for want of other steps
            seconds = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1) * steps
            speed = (words - self._words) / max(seconds, 1e-9)
        self._words, self._ends = words, [timer()]
        return speed


class RowFile:
    """A file of JSON lines, one for each evaluation. Raises BiomedError if it is not writable."""

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
            self._drop_rows_from(row["step"])
            self._begun = True
        srsly.write_jsonl(self.path, [row], append=True, append_new_line=False)

    def _drop_rows_from(self, step: int) -> None:
        """Keep the rows before a step: all that a continued run keeps, none for a new run."""
        earlier = [
            row
            for row in srsly.read_jsonl(self.path, skip=True)
            if isinstance(row, dict) and row.get("step", step) < step
        ]
        with replacing_file(self.path) as partial:
            srsly.write_jsonl(partial, earlier)
