"""Memory that is free goes back to the system."""

import gc

import pytest

from spacy_biomed.encoders.torch.free_memory import _find_trim, release_free_memory
from spacy_biomed.evaluation.pipeline_worker import resident_memory


@pytest.mark.skipif(_find_trim() is None, reason="the C library has no malloc_trim")
def test_free_memory_between_what_stays_is_released():
    arrays = [bytes([number % 251]) * 20_000 for number in range(10_000)]
    kept = arrays[::10]  # so that none of the rest is at the end of the C library's memory
    del arrays
    gc.collect()
    before = resident_memory()
    release_free_memory()
    assert before - resident_memory() > 100e6
    assert all(len(set(array)) == 1 for array in kept)
