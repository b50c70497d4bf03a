"""What runs at the same time gives what it would give one after the other."""

import multiprocessing
import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from spacy_biomed.encoders.batching import concurrency
from spacy_biomed.encoders.batching.concurrency import (
    available_processors,
    default_threads,
    map_ahead,
    map_concurrently,
    matmul,
)


def test_results_come_in_the_order_of_the_items():
    first_may_go = threading.Event()

    def work(item):
        if item == 0:
            assert first_may_go.wait(10)
        else:
            first_may_go.set()
        return item * 10

    assert map_concurrently(work, range(4), 2) == [0, 10, 20, 30]


def test_an_item_is_drawn_while_the_one_before_is_computed():
    second_is_drawn = threading.Event()

    def items():
        yield 0
        second_is_drawn.set()
        yield 1

    def work(item):
        assert second_is_drawn.wait(10)
        return item, threading.current_thread() is threading.main_thread()

    assert list(map_ahead(work, items())) == [(0, False), (1, False)]


def test_no_more_than_one_item_is_drawn_ahead():
    drawn = []

    def items():
        for item in range(5):
            drawn.append(item)
            yield item

    results = map_ahead(str, items())
    assert next(results) == "0"
    assert drawn == [0, 1]
    results.close()
    assert drawn == [0, 1]


def test_an_error_arises_where_its_result_is_wanted():
    results = map_ahead(lambda item: 1 // item, [1, 0, 1])
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_nothing_gives_nothing():
    assert list(map_ahead(str, [])) == []


@pytest.mark.parametrize("rows", [0, 1, 255, 513, 4099])
def test_products_are_those_of_numpy(rows, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    rng = np.random.default_rng(0)
    left = rng.normal(size=(rows, 20)).astype("float32")
    right = rng.normal(size=(7, 20)).astype("float32").T
    product = matmul(left, right)
    assert product.dtype == "float32"
    np.testing.assert_allclose(product, left @ right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 26, 63])
@pytest.mark.parametrize("columns", [16, 17, 384])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_few_rows_are_multiplied_with_many_columns(rows, columns, is_transposed):
    rng = np.random.default_rng(0)
    left = rng.normal(size=(rows, 900)).astype("float32")
    right = rng.normal(size=(900, columns)).astype("float32", order="F" if is_transposed else "C")
    product = matmul(left, right)
    assert product.dtype == "float32"
    np.testing.assert_allclose(product, left.astype("float64") @ right, rtol=1e-3, atol=1e-3)


def openblas_threads():
    return [
        library["num_threads"]
        for library in ThreadpoolController().select(internal_api="openblas").info()
    ]


def test_numpy_has_its_threads_again_after_a_product():
    with threadpool_limits(2, user_api="blas"):
        before = openblas_threads()
        with concurrency._one_blas_thread:
            matmul(np.ones((2, 2)), np.ones((2, 2)))
            assert openblas_threads() == [1] * len(before)
        assert openblas_threads() == before


def test_a_forked_process_has_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads() == 3
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=lambda: there.send(default_threads()))
    process.start()
    assert here.poll(60)
    assert here.recv() == 1
    process.join()


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "1600000 100000\n"}, 8),
        ({"cpu.cfs_quota_us": "300000\n", "cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 8),
        ({}, 8),
    ],
)
def test_a_container_limits_the_processors(files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(8)), raising=False)
    (tmp_path / "cpu").mkdir()
    for name, content in files.items():
        folder = tmp_path if name == "cpu.max" else tmp_path / "cpu"
        (folder / name).write_text(content)
    assert available_processors(tmp_path) == expected
