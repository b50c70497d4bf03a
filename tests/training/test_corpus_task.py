"""Which task a corpus is for, and the head that learns it."""

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.pipeline.relations.component import BiomedRelations
from spacy_biomed.training.corpus import find_learner

TRAIN = {"mentions": {"A": 1}, "classes": {"B": 1}, "relations": {}}


def find_task(folder, description, task=None):
    return find_learner(folder, description, task)[0]


def test_the_task_is_the_given_else_that_of_corpus_json_else_the_catalogues(tmp_path):
    description = {"name": "hoc", "parts": {"train": TRAIN}}
    assert find_task(tmp_path, {**description, "task": "similarity"}, "qa") == "qa"
    assert find_task(tmp_path, {**description, "task": "similarity"}) == "similarity"
    assert find_task(tmp_path, description) == "textcat_multilabel"
    assert find_task(tmp_path, {**description, "name": "my own"}) == "ner"


@pytest.mark.parametrize(
    ("layers", "task"),
    [
        ({"mentions": {"A": 1}}, "ner"),
        ({"mentions": {"A": 1}, "classes": {"B": 1}}, "ner"),
        ({"mentions": {"A": 1}, "relations": {"R": 1}}, "relations"),
        ({"classes": {"B": 1}}, "textcat_multilabel"),
        ({"classes": {"B": 1}, "pairs": 2}, "pair_classification"),
        ({"means": {"similarity": 2.5}, "pairs": 2}, "similarity"),
        ({"answers": 3, "pairs": 2}, "qa"),
    ],
)
def test_the_heads_recognise_their_corpora_by_what_these_hold(tmp_path, layers, task):
    empty = {"mentions": {}, "classes": {}, "means": {}, "relations": {}, "pairs": 0, "answers": 0}
    description = {"name": "my own", "parts": {"train": {**empty, **layers}}}
    assert find_task(tmp_path, description) == task


def test_the_head_of_a_task_is_found(tmp_path):
    description = {"name": "my own", "parts": {}}
    assert find_learner(tmp_path, description, "relations") == ("relations", BiomedRelations)


@pytest.mark.parametrize(
    ("task", "problem"),
    [("poetry", "no head learns the task 'poetry'"), (None, "its task is not known")],
)
def test_a_task_that_no_head_learns_is_one_line(tmp_path, task, problem):
    with pytest.raises(BiomedError, match=problem) as raised:
        find_learner(tmp_path, {"name": "my own", "parts": {}}, task)
    assert 'add "task" with one of assertion, document_relations, ner, deidentification' in str(
        raised.value
    )
    assert "\n" not in str(raised.value)
