import random

import numpy as np
import pytest

from spacy_biomed.encoders.batching.windows import batch_by_length, make_windows

EDGES = [0, 1, 2, 253, 254, 255, 509, 510, 511, 512, 513, 764, 765, 1020, 5000, 100_000]


def lengths_of(seed):
    rng = random.Random(seed)
    return np.array(rng.choices([*EDGES, *range(1, 3000)], k=rng.randint(1, 8)), dtype="int64")


CASES = [
    (np.array(EDGES), 510, 128),
    (np.array(EDGES), 510, 0),
    (np.array(EDGES), 510, 254),
    *((lengths_of(seed), *shape) for seed in range(8) for shape in [(510, 128), (7, 3), (30, 4)]),
]


@pytest.mark.parametrize("lengths, capacity, context", CASES)
def test_kept_parts_cover_each_piece_exactly_once(lengths, capacity, context):
    windows = make_windows(lengths, capacity, context)
    kept = [np.zeros(length, dtype="int64") for length in lengths]
    for doc, start, end in zip(windows.doc, windows.keep_start, windows.keep_end, strict=True):
        kept[doc][start:end] += 1
    assert all((counts == 1).all() for counts in kept)
    assert ((windows.keep_start >= windows.start) & (windows.keep_end <= windows.end)).all()


@pytest.mark.parametrize("lengths, capacity, context", CASES)
def test_no_window_exceeds_the_capacity_or_its_document(lengths, capacity, context):
    windows = make_windows(lengths, capacity, context)
    assert (windows.end - windows.start <= capacity).all()
    assert (windows.end > windows.start).all()
    assert (windows.start >= 0).all() and (windows.end <= lengths[windows.doc]).all()


@pytest.mark.parametrize("lengths, capacity, context", CASES)
def test_kept_pieces_have_their_context_on_both_sides(lengths, capacity, context):
    windows = make_windows(lengths, capacity, context)
    before = windows.keep_start - windows.start
    after = windows.end - windows.keep_end
    assert ((before >= context) | (windows.start == 0)).all()
    assert ((after >= context) | (windows.end == lengths[windows.doc])).all()


def test_a_document_that_fits_is_one_window():
    windows = make_windows(np.array([510, 0, 1]), 510, 128)
    assert windows.doc.tolist() == [0, 2]
    assert windows.start.tolist() == windows.keep_start.tolist() == [0, 0]
    assert windows.end.tolist() == windows.keep_end.tolist() == [510, 1]


def test_one_piece_too_many_makes_two_windows():
    windows = make_windows(np.array([511]), 510, 128)
    # Half of the pieces each, and half of the 256 that they share.
    assert (windows.start.tolist(), windows.end.tolist()) == ([0, 127], [384, 511])
    assert (windows.keep_start.tolist(), windows.keep_end.tolist()) == ([0, 255], [255, 511])


def test_windows_are_equally_spaced():
    # 45 pieces, windows of 18, at least 4 on each side: at most 10 apart, so 4 windows, 9 apart.
    windows = make_windows(np.array([45]), 18, 4)
    assert windows.start.tolist() == [0, 9, 18, 27]
    assert windows.keep_start.tolist() == [0, 13, 22, 31]


def test_no_more_windows_than_the_context_asks_for():
    # Each window after the first brings 510 - 2 * 128 = 254 new pieces.
    assert len(make_windows(np.array([510 + 254]), 510, 128).doc) == 2
    assert len(make_windows(np.array([510 + 255]), 510, 128).doc) == 3


@pytest.mark.parametrize("lengths, capacity, context", CASES)
def test_windows_are_no_longer_than_the_context_asks_for(lengths, capacity, context):
    windows = make_windows(lengths, capacity, context)
    encoded = np.bincount(windows.doc, windows.end - windows.start, minlength=len(lengths))
    count = np.bincount(windows.doc, minlength=len(lengths))
    needed = lengths + 2 * context * np.maximum(count - 1, 0)
    assert ((encoded >= needed) & (encoded < needed + np.maximum(count, 1))).all()


def test_context_that_leaves_nothing_to_keep_is_refused():
    with pytest.raises(ValueError, match="context"):
        make_windows(np.array([5]), 8, 4)


@pytest.mark.parametrize("seed", range(20))
def test_batches_cover_everything_within_the_budget(seed):
    rng = random.Random(seed)
    lengths = np.array([rng.randint(0, 600) for _ in range(rng.randint(1, 80))])
    batches = batch_by_length(lengths, 1024)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(batch) * lengths[batch].max() <= 1024 for batch in batches)
    longest = [lengths[batch].max() for batch in batches]
    assert longest == sorted(longest, reverse=True)


def test_a_sequence_longer_than_the_budget_is_a_batch_of_its_own():
    batches = batch_by_length(np.array([3, 50, 4, 60]), 10)
    assert [batch.tolist() for batch in batches] == [[3], [1], [2, 0]]


def test_nothing_makes_no_batch():
    assert batch_by_length(np.zeros(0, dtype="int64"), 10) == []


def test_each_document_may_have_a_capacity_and_a_context_of_its_own():
    lengths, capacity, context = (
        np.array([45, 10, 511]),
        np.array([18, 18, 510]),
        np.array([4, 0, 9]),
    )
    together = make_windows(lengths, capacity, context)
    for i in range(3):
        alone = make_windows(lengths[i : i + 1], int(capacity[i]), int(context[i]))
        own = together.doc == i
        assert together.start[own].tolist() == alone.start.tolist()
        assert together.end[own].tolist() == alone.end.tolist()
        assert together.keep_start[own].tolist() == alone.keep_start.tolist()
