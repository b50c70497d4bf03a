"""`spacy biomed train`: killed and given again, it ends as `spacy train` that was not."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import spacy
import srsly
from commands import call, error_line, refuse, run
from forked_commands import ForkedCommand
from spacy.tokens import DocBin
from spacy.util import dict_to_dot

from spacy_biomed.files.outputs import MARKER
from spacy_biomed.pipeline.checksums import CHECKSUMS

OVERRIDES = {"vars.max_steps": 30, "vars.eval_frequency": 5, "vars.learn_rate": 0.005}
OPTIONS = [part for name, value in OVERRIDES.items() for part in (f"--{name}", str(value))]


@pytest.fixture(scope="module")
def uninterrupted(run_spacy, tiny_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `spacy train` makes of the config, with as many threads as the runs compared to it."""
    output = tmp_path_factory.mktemp("uninterrupted")
    done = run_spacy("train", tiny_config, "--output", output, *OPTIONS)
    assert done.returncode == 0, done.stderr
    return output


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (MARKER, CHECKSUMS)
    }


def kill_after_a_checkpoint(config: Path, output: Path) -> None:
    """Run the command, and kill it once it has written a checkpoint."""
    checkpoint = output / "checkpoint" / "training.safetensors"
    before = checkpoint.stat().st_mtime_ns if checkpoint.is_file() else 0
    command = [sys.executable, "-m", "spacy", "biomed", "train", config, "-o", output, *OPTIONS]
    process = ForkedCommand(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        if checkpoint.is_file() and checkpoint.stat().st_mtime_ns > before:
            process.kill()
            break
        time.sleep(0.005)
    assert process.wait() == -signal.SIGKILL
    assert checkpoint.is_file()


@pytest.mark.slow
def test_a_run_that_is_killed_twice_ends_with_the_weights_of_spacys(
    run_spacy, tiny_config, uninterrupted, tmp_path
):
    output = tmp_path / "new" / "training"
    kill_after_a_checkpoint(tiny_config, output)
    kill_after_a_checkpoint(tiny_config, output)
    done = run_spacy("biomed", "train", tiny_config, "--output", output, *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "Continuing after step" in done.stdout
    expected, made = files(uninterrupted), files(output)
    assert made.keys() == expected.keys()
    assert [name for name in made if made[name] != expected[name]] == []


@pytest.mark.parametrize(("option", "resume"), [("--resume", True), ("--no-resume", False)])
def test_its_options_and_overrides_reach_training(
    tiny_config, tmp_path, monkeypatch, option, resume
):
    called = {}
    monkeypatch.setattr(
        "spacy_biomed.training.resumable.train",
        lambda nlp, output, **settings: called.update(nlp=nlp, output=output, **settings),
    )
    arguments = ["train", str(tiny_config), "-o", str(tmp_path), option, "--vars.max_steps", "77"]
    run(*arguments)
    assert called["nlp"].config.interpolate()["training"]["max_steps"] == 77
    assert (called["output"], called["use_gpu"], called["resume"]) == (tmp_path, -1, resume)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("vars.max_step", "no such setting in [vars] of {}; did you mean --vars.max_steps?"),
        ("paths.trian", "no such setting in [paths] of {}; did you mean --paths.train?"),
        ("vars.zzz", "no such setting in [vars] of {}; see what is there"),
        ("system.sed", "no such setting in [system] of {}; did you mean --system.seed?"),
        (
            "training.max_stepz",
            "no such setting in [training] of {}; did you mean --training.max_steps?",
        ),
        (
            "training.learn_rate",
            "no such setting in [training] of {}; did you mean --vars.learn_rate?",
        ),
        ("nlp.batch_sise", "no such setting in [nlp] of {}; did you mean --nlp.batch_size?"),
        (
            "training.score_weights.ents_ff",
            "no such setting in [training.score_weights] of {}; did you mean "
            "--training.score_weights.ents_f?",
        ),
        ("components.ner", "no such setting in [components] of {}; see what is there"),
        (
            "training.optimiser.L2",
            "no section [training.optimiser] in {}; did you mean --training.optimizer.L2?",
        ),
        (
            "components.biomed_nre.scheme",
            "no section [components.biomed_nre] in {}; did you mean "
            "--components.biomed_ner.scheme?",
        ),
        ("initialize.vectors", "no section [initialize] in {}; add it to the file"),
    ],
)
def test_a_misspelt_setting_is_refused_in_one_line(tiny_config, tmp_path, name, problem):
    output = tmp_path / "out"
    arguments = ["train", str(tiny_config), "-o", str(output), f"--{name}", "7"]
    assert refuse(*arguments) == f"--{name}: {problem.format(tiny_config)}"
    assert not output.exists()


def test_a_misspelt_setting_of_a_component_is_refused_by_its_function(tiny_config, tmp_path):
    arguments = ["train", str(tiny_config), "-o", str(tmp_path / "out")]
    assert refuse(*arguments, "--components.biomed_ner.sheme", "bio").endswith(
        "did you mean scheme?"
    )


def test_a_setting_that_the_file_has_misspelt_is_refused_with_its_line(tiny_config, tmp_path):
    path = tmp_path / "config.cfg"
    text = tiny_config.read_text(encoding="utf8")
    path.write_text(text.replace("[training]\n", "[training]\nmax_stepz = 3\n"), encoding="utf8")
    line = path.read_text(encoding="utf8").splitlines().index("max_stepz = 3") + 1
    result = call("train", path, "-o", tmp_path / "out")
    expected = "training.max_stepz: no such setting; did you mean max_steps?"
    assert error_line(result) == f"{path}:{line}: {expected}"


@pytest.mark.slow(least=3)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("training.patience", 7),
        ("training.accumulate_gradient", 2),
        ("training.logger.jsonl", "log.jsonl"),
        ("training.score_weights.speed", 0.0),
        ("components.biomed_transformer.model.window", 64),
        ("corpora.train.limit", 3),
    ],
)
def test_a_setting_that_only_the_filled_config_has_is_taken(
    tiny_config, tmp_path, monkeypatch, name, value
):
    called = []
    monkeypatch.setattr(
        "spacy_biomed.training.resumable.train", lambda nlp, output, **_: called.append(nlp)
    )
    arguments = ["train", str(tiny_config), "-o", str(tmp_path), f"--{name}", str(value)]
    run(*arguments)
    assert dict_to_dot(called[0].config.interpolate())[name] == value


def test_a_variable_that_nothing_refers_to_is_refused(uninterrupted, tmp_path):
    config = uninterrupted / "model-best" / "config.cfg"
    arguments = ["train", str(config), "-o", str(tmp_path / "out"), "--vars.learn_rate", "0.1"]
    line = refuse(*arguments)
    assert line.startswith(f"--vars.learn_rate: nothing in {config} refers to ${{vars.learn_rate}}")


def test_without_a_gpu_one_is_refused_in_one_line(tiny_config, tmp_path, monkeypatch):
    def fail(gpu_id):
        raise ValueError("No GPU devices detected")

    monkeypatch.setattr("spacy.require_gpu", fail)
    assert (
        refuse("train", tiny_config, "-o", tmp_path, "-g", "0")
        == "--gpu-id 0: No GPU devices detected; leave it out for the CPU"
    )


@pytest.mark.parametrize("rate", ["inf", "nan", "-1", "-1e-5"])
def test_a_learning_rate_that_is_no_rate_is_refused_with_its_line(tiny_config, tmp_path, rate):
    arguments = [
        "train",
        str(tiny_config),
        "-o",
        str(tmp_path / "out"),
        f"--vars.learn_rate={rate}",
    ]
    line = refuse(*arguments)
    assert line.startswith(f"{tiny_config}:") and "rate = " in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("dropout = 0.1", "dropout = -0.1", "dropout = -0.1: it should be greater than or equal"),
        ("patience = 0", "patience = -1", "training.patience = -1: it should be greater than or"),
        ("L2 = 0.01", "L2 = NaN", "training.optimizer.L2 = nan: it should be a finite number"),
        ("accumulate_gradient = 1", "accumulate_gradient = 0", "it should be greater than 0"),
        ("grad_factor = 1.0", "grad_factor = -1.0", "grad_factor = -1.0: it should be greater"),
        ("hidden_width = 128", "hidden_width = -1", "hidden_width = -1: it should be greater"),
        ("rows = [5000, 1000, 2500, 2500]", "rows = [5000, 1000]", "rows: 2 for 4 attributes"),
        ("ents_f = 1.0", "ents_f = 0.0", "training.score_weights: give no weight below 0, and one"),
        ("max_steps = 3", "max_steps = 3\nmax_stepz = 9", "has no effect; did you mean max_steps?"),
        ("[corpora]", "[corpora]\n\n[trainig]\na = 1", "trainig: has no effect; did you mean tr"),
        (
            "[components.biomed_context]",
            "[components.biomed_nerr]\na = 1\n\n[components.biomed_context]",
            "components.biomed_nerr: has no effect; did you mean biomed_ner?",
        ),
        (
            "patience = 0",
            'patience = 0\nannotating_components = ["biomed_nre"]',
            "'biomed_nre' is not in the pipeline of [nlp]; did you mean biomed_ner?",
        ),
        ('lang = "en"', 'lang = "zz"', "nlp.lang: spaCy knows no such language"),
        ('upstream = "*"', 'upstream = "no"', "no encoder comes before the head that needs one"),
        ("pipeline = [", "pipeline = []\nx = [", "no such setting"),
    ],
)
def test_a_setting_that_would_train_wrongly_is_refused(
    tiny_config, tmp_path, right, wrong, message
):
    text = tiny_config.read_text()
    assert right in text
    path = tmp_path / "train.cfg"
    path.write_text(text.replace(right, wrong, 1))
    assert message in refuse("train", path, "-o", tmp_path / "out")
    assert not (tmp_path / "out" / "model-best").exists()


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("right", "right_too"),
    [
        ("eval_frequency = ${vars.eval_frequency}", "eval_frequency = 3"),  # vars has it still
        (', "biomed_context"]', "]"),  # and so has components
    ],
)
def test_what_was_left_in_a_config_is_no_error(tiny_config, tmp_path, right, right_too):
    text = tiny_config.read_text()
    assert right in text
    path = tmp_path / "train.cfg"
    path.write_text(text.replace(right, right_too, 1))
    run("train", path, "-o", tmp_path / "out")


@pytest.mark.parametrize("name", ["nlp.pipeline=[]", "paths.train="])
def test_no_pipeline_and_no_corpus_are_refused(tiny_config, tmp_path, name):
    arguments = ["train", str(tiny_config), "-o", str(tmp_path / "out"), f"--{name}"]
    assert refuse(*arguments).startswith(f"{tiny_config}:")
    assert not (tmp_path / "out").exists()


def test_a_pipeline_without_a_weighted_score_is_refused(tiny_config, tmp_path):
    text = tiny_config.read_text()
    line = next(line for line in text.splitlines() if line.startswith("pipeline = "))
    path = tmp_path / "train.cfg"
    path.write_text(text.replace(line, 'pipeline = ["biomed_transformer"]'))
    assert "training.score_weights.ents_f: no such score is measured" in refuse(
        "train", path, "-o", tmp_path / "out"
    )
    assert not (tmp_path / "out" / "model-best").exists()


def test_a_development_part_without_what_is_learned_is_refused(tiny_config, tmp_path):
    doc = spacy.blank("en")("Aspirin without annotation")
    DocBin(docs=[doc]).to_disk(tmp_path / "dev.spacy")
    options = ["-o", tmp_path / "out", "--paths.dev", tmp_path / "dev.spacy"]
    message = refuse("train", tiny_config, *options)
    assert "annotate in the development part what is learned" in message


def test_a_training_that_diverges_says_what_to_do(tiny_config, tmp_path):
    options = ["--vars.learn_rate=1e30", "--vars.max_steps=6", "--vars.eval_frequency=3"]
    assert "training has diverged; lower the learning rate" in refuse(
        "train", tiny_config, "-o", tmp_path, *options
    )


def test_a_page_at_the_end_has_the_evaluations_and_their_curves(tiny_config, tmp_path):
    output, log = tmp_path / "out", tmp_path / "rows.jsonl"
    page = output / "reports" / "report.html"
    logger = '@loggers = "spacy_biomed.RichLogger.v1"\n'
    text = tiny_config.read_text().replace(logger, f"{logger}jsonl = ${{vars.log}}\n")
    config = tmp_path / "train.cfg"
    config.write_text(text.replace("[vars]\n", f'[vars]\nlog = "{log}"\n'))
    run("train", config, "-o", output, "--html", page, *OPTIONS)
    rows = list(srsly.read_jsonl(log))
    best = max(rows, key=lambda row: row["score"])
    assert [row["step"] for row in rows] == [5, 10, 15, 20, 25, 30]
    text = page.read_text()
    assert f"Best score {100 * best['score']:.2f} after {best['step']} steps" in text
    assert text.count("<tr>") == 1 + len(rows)
    assert not re.search(r'(src|href)="(?!#)', text)
    for name in ("biomed_ner", "ents_f"):
        assert name in (output / "curves.svg").read_text() and name in text


def test_without_matplotlib_no_training_is_begun(tiny_config, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_biomed.cli.training.find_spec", lambda name: None)
    line = refuse("train", tiny_config, "-o", tmp_path / "out", "--html", tmp_path / "page.html")
    assert line.startswith("--html needs matplotlib: ")
    assert not (tmp_path / "out").exists()


def test_a_page_needs_a_logger_that_writes_rows(tiny_config, tmp_path):
    config = tmp_path / "other.cfg"
    text = tiny_config.read_text().replace("spacy_biomed.RichLogger.v1", "spacy.ConsoleLogger.v1")
    config.write_text(text)
    arguments = ["train", str(config), "-o", str(tmp_path / "out"), "--html", str(tmp_path / "h")]
    line = refuse(*arguments)
    assert line == f"{config}: --html needs the logger spacy_biomed.RichLogger.v1"
    arguments[1], arguments[-1] = str(tiny_config), str(config / "page.html")
    line = refuse(*arguments)
    assert line == f"--html {arguments[-1]}: cannot be written; name another file"
    arguments[-1] = str(tiny_config)
    line = refuse(*arguments)
    assert line == f"{tiny_config}: is what is read; name another output"
    config.write_text('[nlp]\nlang = "en"\n')
    line = refuse("train", config, *arguments[2:])
    assert line.startswith(f"{config}: ")
    assert not (tmp_path / "out").exists()
