"""A study that met an error or was killed goes on, and ends as one that nothing disturbed."""

import errno
import json
import random
import shutil

import pytest
from distillation_recipe import RECIPE
from fault_injection import Fault, run, snapshot, temporary
from multitask_corpora import convert_tasks, write_small_template

from spacy_biomed.encoders.torch.precision import _bf16_is_faster
from spacy_biomed.evaluation.benchmark import PipelineFigures

RESULTS = {
    "pairwise": "pairwise.json",
    "refinement": "refinement.json",
    "encoders": "encoders.json",
    "distillation": "encoders.json",
}
TRIES = 3


@pytest.fixture(scope="module")
def commands(tiny_bert, tmp_path_factory):
    """The command of each study, but for its output."""
    _bf16_is_faster("cpu")  # timed once, not in each process
    folder = tmp_path_factory.mktemp("studies")
    tasks = convert_tasks(folder / "tasks")
    template = write_small_template(folder / "multitask.cfg")
    (folder / "recipe.cfg").write_text(RECIPE)
    (folder / "text.txt").write_text("Aspirin reduced the risk of cancer.\n" * 20)
    several = ["--tasks", "drugs,topics", "--encoder", tiny_bert, "--template", template]
    several += ["--corpora-dir", tasks, "--epochs", 1, "--batch-words", 200]
    one = ["--tasks", "drugs=1", "--corpora-dir", tasks, "--seeds", 1]
    one += ["--repeats", 1, "--batch-words", 200]
    recipe = [folder / "recipe.cfg", "out", "--paths.text", folder / "text.txt"]
    recipe += ["--paths.teacher", tiny_bert, "--paths.output", "unused"]
    return {
        "pairwise": ["pairwise", "out", *several],
        "refinement": ["refinement", "out", *several, "--fine-tune-epochs", 1],
        "encoders": ["encoders", "out", "--encoders", tiny_bert, *one],
        "distillation": ["distillation", *recipe, "--objectives", "distilbert", *one],
    }


def leave_out_timing():
    from spacy_biomed.studies import encoder_study

    def measure(pipelines, texts, **settings):
        figures = [PipelineFigures(path, len(texts), words=100) for path in pipelines]
        for one in figures:
            one.pipe_seconds.append(2.0)
        return figures

    encoder_study.measure_speed = measure


@pytest.mark.parametrize("name", RESULTS)
def test_a_study_goes_on_after_an_error_or_a_kill(name, commands, tmp_path):
    arguments = ["study", *map(str, commands[name])]

    def study(place, fault=None):
        return run(arguments, place, fault, leave_out_timing)

    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    (undisturbed / "mine.txt").write_text("mine")
    expected = study(undisturbed)
    assert expected.status == 0, expected
    results = json.loads((undisturbed / "out" / RESULTS[name]).read_text())
    numbers = random.Random(name).sample(range(len(expected.calls)), TRIES)
    for number, error in zip(sorted(numbers), [0, errno.ENOSPC, 0], strict=True):  # 0: a kill
        place = tmp_path / "place"
        place.mkdir()
        (place / "mine.txt").write_text("mine")
        outcome = study(place, Fault(at=number, error=error))
        assert "Traceback" not in "\n".join(outcome.lines), "\n".join(outcome.lines)
        again = study(place)
        assert again.status == 0, (number, outcome, again)
        assert json.loads((place / "out" / RESULTS[name]).read_text()) == results
        assert (place / "mine.txt").read_text() == "mine"
        assert temporary(snapshot(place)) == []
        shutil.rmtree(place)
