"""The log of a run, and its output to the terminal."""

import io
import math

import pytest
from rich.console import Console
from transformers import TrainerControl, TrainerState

from spacy_biomed.language_models.run_folders import RunLog, counting, read_rows


class Batches:
    """Batches in which each step has ten pieces more than the step before."""

    def pieces(self, step):
        return 10 * (step + 1)


def play(log, steps, first=0):
    """Call a log like transformers' loop for some steps, with an evaluation after the last."""
    state, control = TrainerState(global_step=first, max_steps=9), TrainerControl()
    with log.progress:
        log.on_train_begin(None, state, control)
        for step in range(first + 1, steps + 1):
            state.global_step, state.epoch = step, step / 2
            log.on_step_end(None, state, control)
            log.on_log(None, state, control, logs={"loss": 1.0 / step, "learning_rate": 0.1})
        log.on_evaluate(None, state, control, metrics={"eval_loss": 0.5, "eval_perplexity": 1.65})
        log.on_save(None, state, control)
        log.on_log(None, state, control, logs={"train_runtime": 3.0})


def test_rows_tell_of_losses_and_evaluations(tmp_path):
    play(RunLog(tmp_path / "log.jsonl", Batches()), steps=3)
    rows = read_rows(tmp_path / "log.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 3]
    assert [row["pieces"] for row in rows] == [10, 30, 60, 60]
    assert [row["epoch"] for row in rows] == [0.5, 1.0, 1.5, 1.5]
    assert rows[1]["loss"] == 0.5 and rows[1]["learning_rate"] == 0.1
    assert (rows[3]["validation_loss"], rows[3]["validation_perplexity"]) == (0.5, 1.65)
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)


def test_a_run_that_goes_on_keeps_the_rows_before_its_checkpoint(tmp_path):
    path = tmp_path / "log.jsonl"
    play(RunLog(path, Batches()), steps=5)
    with path.open("a") as file:
        file.write('{"step": 6, "pie')  # killed while writing
    before = read_rows(path)
    play(RunLog(path, Batches()), steps=4, first=2)
    rows = read_rows(path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 4]
    assert [row["pieces"] for row in rows] == [10, 30, 60, 100, 100]
    assert rows[:2] == before[:2]
    assert rows[2]["seconds"] > before[1]["seconds"]


def test_a_run_from_the_beginning_keeps_no_rows(tmp_path):
    path = tmp_path / "log.jsonl"
    play(RunLog(path, Batches()), steps=5)
    play(RunLog(path, Batches()), steps=1)
    assert [row["step"] for row in read_rows(path)] == [1, 1]


def test_numbers_that_are_not_finite_are_null(tmp_path):
    log = RunLog(tmp_path / "log.jsonl", Batches())
    state, control = TrainerState(global_step=0, max_steps=9), TrainerControl()
    log.on_train_begin(None, state, control)
    losses = {"loss": math.nan, "learning_rate": 0.1, "term_mlm": math.inf}
    log.on_log(None, state, control, logs=losses)
    metrics = {"eval_loss": 800.0, "eval_perplexity": math.inf}
    log.on_evaluate(None, state, control, metrics=metrics)
    training, validation = read_rows(tmp_path / "log.jsonl")
    assert (training["loss"], training["terms"]) == (None, {"mlm": None})
    assert (validation["validation_loss"], validation["validation_perplexity"]) == (800.0, None)


def test_a_log_that_is_not_there_has_no_rows(tmp_path):
    assert read_rows(tmp_path / "log.jsonl") == []


@pytest.mark.parametrize("is_terminal", [False, True])
def test_only_a_terminal_gets_a_bar(tmp_path, is_terminal):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=120)
    play(RunLog(tmp_path / "log.jsonl", Batches(), console), steps=3)
    assert "step 3 of 9" in shown.getvalue()
    assert "validation 0.5000 · perplexity 1.65" in shown.getvalue()
    assert ("━" in shown.getvalue()) == is_terminal
    assert ("pieces/s" in shown.getvalue()) == is_terminal


def test_counting_is_shown_on_a_terminal_alone(capsys):
    shown = io.StringIO()
    for console in (None, Console(file=shown)):
        with counting("Documents", console) as progress:
            progress(1200)
    assert shown.getvalue() == capsys.readouterr().out == ""
    with counting("Documents", Console(file=shown, force_terminal=True)) as progress:
        progress(1200)
    assert "Documents: 1,200" in shown.getvalue()
