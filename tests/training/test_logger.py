"""RichLogger: spaCy's table and bar, words per second, and the file of JSON lines."""

import io
import json
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


def test_the_table_is_spacys_with_the_best_score_the_speed_and_the_time_left(nlp, clock):
    stdout = io.StringIO()
    log_step, finalize = RichLogger_v1()(nlp, stdout, io.StringIO())
    log_step(make_info(0, 100, score=0.9, seconds=60))
    for _ in range(3):
        clock(2.0)
        log_step(None)
    checkpoints = [(0.9, 0), (0.5, 4)]
    log_step(make_info(4, 900, checkpoints=checkpoints, seconds=100))
    finalize()
    header, _, *rows = stdout.getvalue().splitlines()
    columns = ["E", "#", "LOSS", "NER", "ENTS_F", "ENTS_R", "SPEED", "SCORE", "BEST"]
    assert header.split() == [*columns, "WORDS/S", "LEFT"]
    first, second = (row.split() for row in rows)
    assert first == ["2", "0", "3.14", "90.00", "25.00", "1234.50", "0.90", "0.90", "-", "-"]
    # Four steps in 40 seconds, of which six are left: the first evaluation does not count.
    assert second[-4:] == ["0.50", "0.90", "100", "01:00"]


def test_a_training_without_a_last_step_has_no_time_left(nlp):
    nlp.config["training"]["max_steps"] = 0
    stdout, terminal = io.StringIO(), Terminal()
    log_step, finalize = RichLogger_v1()(nlp, stdout, terminal)
    log_step(make_info(4, 900))
    finalize()
    assert stdout.getvalue().split()[-1] == "-"


def test_the_speed_up_to_the_first_evaluation_is_known_unless_the_run_was_continued(nlp, clock):
    speeds = []
    for steps in (4, 2):  # of 4
        stdout = io.StringIO()
        log_step, _ = RichLogger_v1()(nlp, stdout, io.StringIO())
        for _ in range(steps):
            clock(2.0)
            log_step(None)
        log_step(make_info(4, 1000))
        speeds.append(stdout.getvalue().split()[-2])
    assert speeds == ["100", "-"]


def test_settings_with_variables_get_their_values_also_in_the_trained_pipeline(nlp):
    nlp.config["vars"] = {"steps": 10, "rate": 0.5}
    nlp.config["training"]["max_steps"] = "${vars.steps}"
    nlp.config["training"]["optimizer"]["learn_rate"] = "${vars.rate}"
    terminal = Terminal()
    log_step, finalize = RichLogger_v1()(nlp, io.StringIO(), terminal)
    log_step(make_info(4, 500))
    finalize()
    assert "4/10" in terminal.getvalue()
    assert nlp.resume_training().learn_rate == 0.5
    assert nlp.config["training"]["max_steps"] == "${vars.steps}"


def test_columns_of_losses_are_named_without_the_packages_name():
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_transformer")
    nlp.add_pipe("biomed_ner")
    stdout = io.StringIO()
    log_step, finalize = RichLogger_v1()(nlp, stdout, io.StringIO())
    log_step(make_info(1, 100, losses={"biomed_transformer": 0.25, "biomed_ner": 1.5}))
    finalize()
    header, _, row = stdout.getvalue().splitlines()
    assert header.split()[2:6] == ["LOSS", "TRANS...", "LOSS", "NER"]
    assert row.split()[2:4] == ["0.25", "1.50"]


def test_names_that_would_be_cut_to_the_same_are_not_cut():
    nlp = spacy.blank("en")
    for name in ("starter_en", "starter_hoc"):
        nlp.add_pipe("biomed_ner", name=name)
    stdout = io.StringIO()
    RichLogger_v1()(nlp, stdout, io.StringIO())
    assert stdout.getvalue().split()[2:6] == ["LOSS", "STARTER_EN", "LOSS", "STARTER_HOC"]


def test_names_that_would_become_equal_stay_as_they_are():
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_ner")
    nlp.add_pipe("ner")
    stdout = io.StringIO()
    RichLogger_v1()(nlp, stdout, io.StringIO())
    assert stdout.getvalue().split()[2:6] == ["LOSS", "BIOME...", "LOSS", "NER"]


def test_a_component_that_saw_no_example_has_a_loss_of_zero(nlp, tmp_path):
    path, stdout = tmp_path / "run.jsonl", io.StringIO()
    log_step, _ = RichLogger_v1(jsonl=str(path))(nlp, stdout, io.StringIO())
    log_step(make_info(0, 100, losses={}))
    assert read(path)[0]["losses"] == {"ner": 0.0}
    assert stdout.getvalue().splitlines()[-1].split()[2] == "0.00"


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
    for words, first in ((100, 0), (200, 0), (300, 4), (400, 6)):  # the first is not always step 0
        log_step, finalize = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
        for _ in range(first):
            log_step(None)
        log_step(make_info(first, words))
        finalize()
        assert [row["words"] for row in read(path)] == [words]


def test_a_run_that_is_continued_goes_on_with_its_file(nlp, tmp_path):
    path = tmp_path / "run.jsonl"
    log_step, _ = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
    for step in (0, 5, 10, 15):
        log_step(make_info(step, words=step))
    with path.open("a") as file:
        file.write('{"step": 2')  # killed while it wrote
    log_step, _ = RichLogger_v1(jsonl=str(path))(nlp, io.StringIO(), io.StringIO())
    for _ in range(4):
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


@pytest.mark.parametrize(("progress_bar", "shown"), [(True, "5/10"), (False, "")])
def test_a_terminal_gets_a_bar_up_to_the_last_step(nlp, progress_bar, shown):
    terminal = Terminal()
    log_step, finalize = RichLogger_v1(progress_bar)(nlp, io.StringIO(), terminal)
    log_step(make_info(4, 500))
    time.sleep(0.2)  # the bar is drawn ten times per second
    log_step(None)
    finalize()
    assert shown in terminal.getvalue()
    assert bool(terminal.getvalue()) is progress_bar


@pytest.fixture
def config(converted, tiny_bert, tmp_path) -> Path:
    """A config of four steps that logs to a file."""
    config = fill_config(converted, encoder=str(tiny_bert), epochs=1)
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
