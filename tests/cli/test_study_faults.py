"""A study that met an error or was killed goes on, and ends as one that nothing disturbed."""

import errno
import json
import random
import shutil

import pytest
from distillation_recipe import RECIPE
from fault_injection import Fault, choose_tries, run, snapshot, temporary
from multitask_corpora import STUDY, TASKS_STUDY, convert_tasks, write_small_template

from spacy_biomed.encoders.torch.precision import _bf16_is_faster
from spacy_biomed.evaluation.benchmark import PipelineFigures

NAMES = ("tasks", "encoders", "distillation")
RESULTS = "results.json"
TRIES = 3

ENCODERS = (
    STUDY
    + """
[speed]
repeats = 1
"""
)


@pytest.fixture(scope="module")
def commands(tiny_bert, tmp_path_factory):
    """The command of each study, but for its output."""
    _bf16_is_faster("cpu")  # timed once, not in each process
    folder = tmp_path_factory.mktemp("studies")
    tasks = convert_tasks(folder / "tasks")
    template = write_small_template(folder / "multitask.cfg")
    (folder / "recipe.cfg").write_text(RECIPE)
    (folder / "text.txt").write_text("Aspirin reduced the risk of cancer.\n" * 20)
    (folder / "tasks.cfg").write_text(TASKS_STUDY.format(encoder=tiny_bert, template=template))
    (folder / "encoders.cfg").write_text(ENCODERS.format(encoder=tiny_bert))
    where = ["--corpora-dir", tasks]
    recipe = [folder / "recipe.cfg", "out", "--paths.text", folder / "text.txt"]
    recipe += ["--paths.teacher", tiny_bert, "--paths.output", "unused"]
    recipe += ["--objectives", "distilbert", "--study", folder / "encoders.cfg"]
    return {
        "tasks": ["run", folder / "tasks.cfg", "out", *where],
        "encoders": ["run", folder / "encoders.cfg", "out", *where],
        "distillation": ["distillation", *recipe, *where],
    }


def leave_out_timing():
    from spacy_biomed.studies import study

    def measure(pipelines, texts, **settings):
        figures = [PipelineFigures(path, len(texts), words=100) for path in pipelines]
        for one in figures:
            one.pipe_seconds.append(2.0)
        return figures

    study.measure_pipelines = measure


def read_results(place):
    """All results but the timing, which names runs by the files of their encoders, logs too."""
    results = json.loads((place / "out" / RESULTS).read_text())
    return {name: content for name, content in results.items() if name != "speed"}


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", NAMES)
def test_a_study_goes_on_after_an_error_or_a_kill(name, commands, tmp_path):
    arguments = ["study", *map(str, commands[name])]

    def study(place, fault=None):
        return run(arguments, place, fault, leave_out_timing)

    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    (undisturbed / "mine.txt").write_text("mine")
    expected = study(undisturbed)
    assert expected.status == 0, expected
    results = read_results(undisturbed)
    numbers = random.Random(name).sample(range(len(expected.calls)), TRIES)
    errors = [0, errno.ENOSPC, 0]  # 0: a kill
    for number, error in choose_tries(
        list(zip(sorted(numbers), errors, strict=True)), name, fewest=2
    ):
        place = tmp_path / "place"
        place.mkdir()
        (place / "mine.txt").write_text("mine")
        outcome = study(place, Fault(at=number, error=error))
        assert "Traceback" not in "\n".join(outcome.lines), "\n".join(outcome.lines)
        again = study(place)
        assert again.status == 0, (number, outcome, again)
        assert read_results(place) == results
        assert (place / "mine.txt").read_text() == "mine"
        assert temporary(snapshot(place)) == []
        shutil.rmtree(place)
