from itertools import islice

import pytest
import spacy

from spacy_biomed.errors import BiomedError
from spacy_biomed.training.optimizer import AdamW_v1
from spacy_biomed.training.schedules import cosine_v1, warmup_constant_v1


def test_the_rate_rises_in_a_line_and_stays():
    config = {"@schedules": "spacy_biomed.warmup_constant.v1", "rate": 0.1, "warmup_steps": 4}
    schedule = spacy.registry.resolve({"rate": config})["rate"]
    assert list(islice(schedule, 7)) == pytest.approx([0, 0.025, 0.05, 0.075, 0.1, 0.1, 0.1])


def test_without_warm_up_it_is_constant():
    assert list(islice(warmup_constant_v1(0.1, 0), 3)) == [0.1, 0.1, 0.1]


def test_it_is_a_learning_rate():
    optimizer = AdamW_v1(warmup_constant_v1(0.1, 1))
    rates = []
    for _ in range(3):
        rates.append(optimizer.learn_rate)
        optimizer.step_schedules()
    assert rates == [0.0, 0.1, 0.1]


def test_negative_steps_are_bad_input():
    with pytest.raises(BiomedError, match="warmup_steps is -1"):
        warmup_constant_v1(0.1, -1)


def test_a_cosine_falls_to_nothing():
    config = {"@schedules": "spacy_biomed.cosine.v1", "rate": 0.1, "total_steps": 4}
    rates = list(islice(spacy.registry.resolve({"rate": config})["rate"], 6))
    assert rates == pytest.approx([0.1, 0.05 + 0.05 * 0.5**0.5, 0.05, 0.05 - 0.05 * 0.5**0.5, 0, 0])
    with pytest.raises(BiomedError, match="total_steps is 0"):
        cosine_v1(0.1, 0)
