"""`spacy_biomed.RichLogger.v1`: spaCy's table with speed and time left, a bar, and a log file."""

import math
import sys
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path
from timeit import default_timer as timer
from typing import IO, Any

import srsly
from spacy.language import Language
from tqdm import tqdm
from wasabi import row

from ..errors import BiomedError
from ..files.outputs import replacing_file

# What spaCy's training loop reports of an evaluation, by name.
Evaluation = dict[str, Any]
# Called with the report on each step, which is None for a step without an evaluation.
LogStep = Callable[[Evaluation | None], None]

UNKNOWN = "-"
BAR_FORMAT = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{remaining} left{postfix}]"


def RichLogger_v1(
    progress_bar: bool = True, jsonl: str | None = None, console_output: bool = True
) -> Callable[[Language, IO, IO], tuple[LogStep, Callable[[], None]]]:
    """Print a table of evaluations, and write them to a file of JSON lines.

    The table is spaCy's with three more columns: the best score so far, words per second since the
    last evaluation, and the time left until `max_steps`, evaluations included.

    Args:
        progress_bar: whether to show a bar of the steps, if the standard error is a terminal.
        jsonl: file that gets a JSON object for each evaluation. It has epoch, step, words (seen so
            far), words_per_second (since the last evaluation, without evaluations), seconds (since
            the start), losses, score, and all scores that are numbers. The speed is null after the
            first step and where a run was continued. A run replaces the file unless it continues.
        console_output: whether to print at all.
    """

    def setup_logger(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        training = nlp.config.interpolate()["training"]
        # The trained pipeline is saved with this config, of which `nlp.resume_training()` reads
        # this section without filling in variables.
        nlp.config["training"]["optimizer"] = training["optimizer"]
        pipes = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False)]
        file = RowFile(Path(jsonl)) if jsonl is not None else None
        table = EvaluationTable(pipes, training, stdout) if console_output else None
        bar = StepBar(training, stderr, is_shown=console_output and progress_bar)
        speed = TrainingSpeed()

        def log_step(info: Evaluation | None) -> None:
            if info is None:
                speed.count_step()
                bar.update()
                return
            # A component without examples since the last evaluation has no loss.
            losses = {name: float(info["losses"].get(name, 0.0)) for name in pipes}
            info = {**info, "losses": losses}
            words_per_second = speed.measure(info["words"], info["step"])
            if file is not None:
                file.write(make_row(info, words_per_second), speed.is_continued)
            bar.clear()
            if table is not None:
                table.write(info, words_per_second)
            bar.restart(info, words_per_second)

        return log_step, bar.close

    return setup_logger


class EvaluationTable:
    """The table of evaluations on the standard output, for a terminal or a log file."""

    def __init__(self, pipes: Sequence[str], training: dict[str, Any], stdout: IO):
        self._stdout = stdout
        self._scores = [
            name for name, weight in training["score_weights"].items() if weight is not None
        ]
        self._max_steps = training["max_steps"]
        self._begin = (-1, 0)  # the step and the seconds from which the time left is estimated
        short = [name.removeprefix("biomed_") for name in pipes]
        losses = [f"Loss {name}" for name in (short if len(set(short)) == len(short) else pipes)]
        columns = ["E", "#", *losses, *self._scores, "Score", "Best", "Words/s", "Left"]
        # An encoder, a head and three scores fit into 80 columns.
        least = [2, 5, *(8 for _ in losses), *(6 for _ in self._scores), 6, 4, 7, 5]
        names = [name.upper() for name in columns]
        cut = [name if len(name) <= 13 else f"{name[:10]}..." for name in names]
        # Whole where several begin alike, as heads that have the names of corpora.
        header = [cut[i] if cut.count(cut[i]) == 1 else name for i, name in enumerate(names)]
        self._widths = [max(*pair) for pair in zip(map(len, header), least, strict=True)]
        self._write_row(header)
        self._write_row(["-" * width for width in self._widths])

    def write(self, info: Evaluation, words_per_second: float | None) -> None:
        left = self._estimate_time_left(info["step"], info["seconds"])
        cells = [str(info["epoch"]), str(info["step"])]
        cells += [f"{loss:.2f}" for loss in info["losses"].values()]
        cells += [format_score(name, info["other_scores"].get(name)) for name in self._scores]
        cells += [f"{info['score']:.2f}", f"{find_best(info):.2f}", format_speed(words_per_second)]
        cells.append(UNKNOWN if left is None else tqdm.format_interval(left))
        self._write_row(cells)

    def _estimate_time_left(self, step: int, seconds: int) -> float | None:
        """The seconds until the last step, as long as those so far; None if none is the last."""
        if step == 0:  # mostly the evaluation, which is not made after every step
            self._begin = (step, seconds)
        begin, earlier = self._begin
        if not self._max_steps or step == begin:
            return None
        return (seconds - earlier) / (step - begin) * max(self._max_steps - step, 0)

    def _write_row(self, cells: Sequence[str]) -> None:
        line = row(cells, widths=self._widths, spacing=1, aligns="r")
        print(line, file=self._stdout, flush=True)


class StepBar(tqdm):
    """A bar of steps on the standard error, if that is a terminal."""

    def __init__(self, training: dict[str, Any], stderr: IO, *, is_shown: bool):
        self._max_steps = training["max_steps"] or math.inf
        # A run that is continued does not tell from which step, but it is that of an evaluation.
        super().__init__(
            total=training["eval_frequency"],
            desc="First evaluation",
            bar_format=BAR_FORMAT,
            disable=None if is_shown else True,
            leave=False,
            dynamic_ncols=True,
            file=stderr,
        )

    def restart(self, info: Evaluation, words_per_second: float | None) -> None:
        """Show the steps after an evaluation."""
        # One bar for all steps: Python ignores Ctrl-C while it deletes one.
        self.reset(self._max_steps)
        self.n = self.initial = self.last_print_n = info["step"]
        self.set_description_str(f"Epoch {info['epoch']}", refresh=False)
        note = f"best {find_best(info):.2f}, {format_speed(words_per_second)} words/s"
        self.set_postfix_str(note)


def find_best(info: Evaluation) -> float:
    """The best score of all evaluations so far."""
    return max(score for score, _ in info["checkpoints"])


def format_score(name: str, score: object) -> str:
    """A score as a percentage, or the words per second of the evaluation."""
    if score is None:
        score = 0.0  # as spaCy counts a score that a pipeline does not have
    if not isinstance(score, Real):
        return UNKNOWN
    return f"{float(score) * (1 if name == 'speed' else 100):.2f}"


def format_speed(words_per_second: float | None) -> str:
    return UNKNOWN if words_per_second is None else f"{words_per_second:,.0f}"


def make_row(info: Evaluation, words_per_second: float | None) -> dict[str, Any]:
    """The line of the file for an evaluation."""
    row: dict[str, Any] = {
        name: info[name] for name in ("epoch", "step", "words", "seconds", "losses")
    }
    row.update(words_per_second=words_per_second, score=float(info["score"]))
    scores = info["other_scores"].items()
    return {**row, "scores": {name: float(one) for name, one in scores if isinstance(one, Real)}}


class TrainingSpeed:
    """Words per second of training between evaluations.

    The step before an evaluation is taken to be as long as the others, since the loop does not
    report when the evaluation began.
    """

    def __init__(self) -> None:
        self.is_continued = False  # whether the run began earlier; known when one was measured
        self._words: int | None = None
        self._ends = [timer()]  # of the last evaluation and the steps since

    def count_step(self) -> None:
        self._ends.append(timer())

    def measure(self, words: int, step: int) -> float | None:
        """The speed since the last evaluation, or since the start; None if it is unknown.

        Words are those of all steps, and `step` is the number of the last, from 0.
        """
        speed, steps = None, len(self._ends)
        if self._words is None:
            self.is_continued = step != steps - 1  # else every step was counted
            self._words = 0 if step and not self.is_continued else None
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
        self._is_first = True

    def write(self, row: dict[str, Any], is_continued: bool) -> None:
        """Add a row; the first replaces those of another run, or after it of a continued one."""
        if self._is_first:
            self._is_first = False
            rows = srsly.read_jsonl(self.path, skip=True) if is_continued else ()
            step = row["step"]
            kept = [one for one in rows if isinstance(one, dict) and one.get("step", step) < step]
            with replacing_file(self.path) as partial:
                srsly.write_jsonl(partial, [*kept, row])
        else:
            srsly.write_jsonl(self.path, [row], append=True, append_new_line=False)
