"""Small corpora for the studies of tasks."""

import pytest
from multitask_corpora import convert_tasks, write_small_template

from spacy_biomed.studies import trainings as study_trainings
from spacy_biomed.studies.task_runs import StudySettings


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    return convert_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def settings(tiny_bert, tmp_path_factory):
    template = write_small_template(tmp_path_factory.mktemp("template") / "multitask.cfg")
    return StudySettings(template, str(tiny_bert), epochs=1, batch_words=100)


@pytest.fixture
def folders(corpora):
    return [corpora / "drugs", corpora / "topics"]


@pytest.fixture
def trainings(monkeypatch):
    """Count trainings, and raise before the training with a given number."""
    made, stop_at = [], []
    train = study_trainings.train

    def count(nlp, output, **kwargs):
        if stop_at and len(made) == stop_at[0]:
            raise RuntimeError("stopped")
        made.append(output.parent.name)
        train(nlp, output, **kwargs)

    monkeypatch.setattr(study_trainings, "train", count)
    return made, stop_at
