"""RichLogger: rows, the bar, words a second, and the file of JSON lines."""

import io
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config

from spacy_biomed.errors import BiomedError
from spacy_biomed.training import logger as module
from spacy_biomed.training.config import fill_config
from spacy_biomed.training.logger import RichLogger_v1

TEMPLATE = Path(__file__).parents[2] / "configs" / "ner.cfg"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch) -> Callable[[float], None]:
    """A clock that stands still until it is moved on."""
    now = [100.0]
    monkeypatch.setattr(module, "timer", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


@pytest.fixture
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")  # not trained: without a loss
    nlp.add_pipe("ner")
    weights = {"sents_f": None, "sents_p": None, "sents_r": None, "ents_p": None, "speed": 0.0}
    nlp.config["training"]["score_weights"] = weights
    nlp.config["training"]["max_steps"] = 10
    return nlp


def make_info(step: int, words: int, score: float = 0.5, **others) -> dict:
    return {
        "epoch": 2,
        "step": step,
        "score": score,
        "other_scores": {"ents_f": score, "speed": 1234.5, "ents_per_type": {}, "ents_r": 0.25},
        "losses": {"ner": 3.14159},
        "checkpoints": [(score, step)],
        "seconds": 77,
        "words": words,
        **others,
    }


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_what_is_no_terminal_gets_aligned_rows_and_no_bar(nlp):
    stdout = io.StringIO()
    log_step, finalize = RichLogger_v1()(nlp, stdout, io.StringIO())
    log_step(make_info(0, 100))
    log_step(None)
    log_step(make_info(2, 300, score=0.9))
    finalize()
    header, rule, first, second = stdout.getvalue().splitlines()
    assert header.split() == ["E", "#", "W/S", "LOSS", "NER", "ENTS_F", "ENTS_R", "SPEED", "SCORE"]
    assert set(rule) == {"-", " "}
    assert first.split() == ["2", "0", "-", "3.14", "50.00", "25.00", "1234", "50.00"]
    assert second.split()[4] == second.split()[-1] == "90.00"
    assert len({len(line) for line in (header, rule, first, second)}) == 1
    assert "\x1b" not in stdout.getvalue()


def test_the_file_has_the_numbers_of_each_evaluation(nlp, clock, tmp_path):
    path = tmp_path / "logs" / "run.jsonl"
    log_step, finalize = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
    log_step(make_info(0, 100))
    (row,) = read(path)  # as it goes
    assert row == {
        "epoch": 2,
        "step": 0,
        "words": 100,
        "words_per_second": None,
        "seconds": 77,
        "losses": {"ner": 3.14159},
        "score": 0.5,
        "scores": {"ents_f": 0.5, "speed": 1234.5, "ents_r": 0.25},
    }
    for _ in range(3):
        clock(2.0)
        log_step(None)
    clock(60.0)  # the fourth step and the evaluation
    log_step(make_info(4, 900))
    finalize()
    # 800 words in four steps of two seconds.
    assert [row["words_per_second"] for row in read(path)] == [None, pytest.approx(100.0)]


def test_where_every_step_is_evaluated_the_evaluation_counts_as_training(nlp, clock, tmp_path):
    path = tmp_path / "run.jsonl"
    log_step, _ = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
    log_step(make_info(0, 100))
    clock(4.0)
    log_step(make_info(1, 300))
    assert read(path)[1]["words_per_second"] == pytest.approx(50.0)


def test_a_new_run_replaces_the_file_of_the_one_before(nlp, tmp_path):
    path = tmp_path / "run.jsonl"
    for words in (100, 200):
        log_step, finalize = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
        log_step(make_info(0, words))
        finalize()
    assert [row["words"] for row in read(path)] == [200]


def test_a_run_that_is_continued_goes_on_with_its_file(nlp, tmp_path):
    path = tmp_path / "run.jsonl"
    log_step, _ = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
    for step in (0, 5, 10, 15):
        log_step(make_info(step, words=step))
    with path.open("a") as file:
        file.write('{"step": 2')  # killed while it wrote
    log_step, _ = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
    for _ in range(10):
        log_step(None)
    log_step(make_info(10, words=1000))
    assert [(row["step"], row["words"]) for row in read(path)] == [(0, 0), (5, 5), (10, 1000)]


def test_a_file_that_cannot_be_written_is_refused_before_training_begins(nlp, tmp_path):
    with pytest.raises(BiomedError, match="cannot be written.*training.logger.jsonl"):
        RichLogger_v1(jsonl=str(tmp_path))(nlp, io.StringIO(), io.StringIO())


def test_without_console_output_nothing_is_printed(nlp, tmp_path):
    stdout = Terminal()
    settings = {"jsonl": str(tmp_path / "run.jsonl"), "console_output": False}
    log_step, finalize = RichLogger_v1(**settings)(nlp, stdout, stdout)
    log_step(make_info(0, 100))
    finalize()
    assert stdout.getvalue() == ""
    assert len(read(tmp_path / "run.jsonl")) == 1


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def test_a_terminal_gets_a_bar_below_the_rows(nlp, clock, terminal):
    log_step, finalize = RichLogger_v1()(nlp, terminal, io.StringIO())
    log_step(make_info(0, 500))
    for _ in range(3):
        clock(1.0)
        log_step(None)
    log_step(make_info(4, 2500, score=0.75))
    time.sleep(0.3)  # the bar is drawn ten times a second
    finalize()
    shown = terminal.getvalue()
    assert "4/10" in shown
    assert "500 words/s" in shown
    assert "score 75.00" in shown
    rows = re.findall(r"2 +(\d+) +(-|\d+) +3\.14 .*", shown)
    assert rows == [("0", "-"), ("4", "500")]


def test_a_terminal_gets_no_bar_where_none_is_wanted(nlp, terminal):
    log_step, finalize = RichLogger_v1(progress_bar=False)(nlp, terminal, io.StringIO())
    log_step(make_info(0, 500))
    finalize()
    assert "\x1b" not in terminal.getvalue()


def test_without_max_steps_the_bar_has_no_end(nlp, terminal):
    nlp.config["training"]["max_steps"] = 0
    log_step, finalize = RichLogger_v1()(nlp, terminal, io.StringIO())
    log_step(make_info(0, 500))
    log_step(None)
    time.sleep(0.3)
    finalize()
    assert "1/?" in terminal.getvalue()


@pytest.fixture
def config(converted, tiny_bert, tmp_path) -> Path:
    """A config of four steps that logs to a file."""
    config = fill_config(TEMPLATE, converted, encoder=str(tiny_bert), epochs=1)
    config["vars"].update(max_steps=4, eval_frequency=2, batch_words=30)
    config["training"]["logger"] = {
        "@loggers": "spacy_biomed.RichLogger.v1",
        "jsonl": str(tmp_path / "run.jsonl"),
    }
    config.to_disk(tmp_path / "train.cfg")
    return tmp_path / "train.cfg"


def test_spacys_training_logs_with_it(config, tmp_path):
    stdout = io.StringIO()
    nlp = init_nlp(load_config(config, interpolate=False))
    train(nlp, stdout=stdout, stderr=io.StringIO())
    rows = read(tmp_path / "run.jsonl")
    assert [row["step"] for row in rows] == [0, 2, 4]
    assert rows[0]["words_per_second"] is None
    assert all(row["words_per_second"] > 0 for row in rows[1:])
    assert set(rows[0]["losses"]) == {"biomed_transformer", "biomed_ner"}
    assert {"ents_f", "ents_p", "token_acc"} <= set(rows[0]["scores"])
    assert [line.split()[1] for line in stdout.getvalue().splitlines()[-3:]] == ["0", "2", "4"]


def test_the_bar_stops_when_training_fails(config, terminal, monkeypatch):
    stopped = []
    stop = module.Table.stop
    monkeypatch.setattr(module.Table, "stop", lambda self: (stopped.append(1), stop(self)))
    nlp = init_nlp(load_config(config, interpolate=False))

    def fail(*args, **kwargs):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(nlp, "update", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        train(nlp, stdout=terminal, stderr=io.StringIO())
    assert stopped == [1]
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is shown again
