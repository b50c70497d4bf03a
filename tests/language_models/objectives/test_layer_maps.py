"""The mapping of the student's layers to the teacher's."""

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.objectives.objective import map_layers


@pytest.mark.parametrize(
    ("student", "teacher", "expected"),
    [
        (6, 12, [2, 4, 6, 8, 10, 12]),
        (4, 12, [3, 6, 9, 12]),
        (3, 3, [1, 2, 3]),
        (1, 5, [5]),
        (4, 6, [2, 3, 5, 6]),
    ],
)
def test_by_default_it_is_every_kth_with_the_last_on_the_last(student, teacher, expected):
    assert map_layers(student, teacher) == expected


def test_layers_that_are_given_are_taken():
    assert map_layers(3, 6, [6, 1, 1]) == [6, 1, 1]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([1, 2], r"layer_map = \[1, 2\]: 2 layers for a student of 3"),
        ([0, 1, 2], r"layer_map = \[0, 1, 2\]: the layers of the teacher are 1 to 6"),
        ([1, 2, 7], r"layer_map = \[1, 2, 7\]: the layers of the teacher"),
    ],
)
def test_a_map_that_does_not_fit_is_refused(layers, message):
    with pytest.raises(BiomedError, match=message):
        map_layers(3, 6, layers)


def test_a_student_deeper_than_the_teacher_needs_a_map():
    with pytest.raises(BiomedError, match="3 layers and the teacher 2: set layer_map"):
        map_layers(3, 2)
    assert map_layers(3, 2, [1, 1, 2]) == [1, 1, 2]
