"""Processes that answer requests: alone, and several in a pool."""

import os
import sys
from itertools import count

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.workers import process
from spacy_biomed.workers.process import (
    ProcessPool,
    Worker,
    WorkerDied,
    WorkerFailed,
    thread_settings,
)

SCRIPT = """
import os, sys
from pathlib import Path
from spacy_biomed.errors import BiomedError
from spacy_biomed.workers.process import serve

class Methods:
    def open(self, number):
        self.number = number
    def tell(self):
        return self.number, os.getpid()
    def threads(self):
        print("what a library prints")
        return {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")}
    def add(self, a, b):
        return a + b
    def fail(self):
        raise ValueError("one line\\nand another")
    def refuse(self):
        raise BiomedError("a.txt: not here")
    def die(self, once=None):
        if once is None or not Path(once).exists():
            if once is not None:
                Path(once).touch()
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        return self.number

if __name__ == "__main__":
    serve(Methods())
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "answering.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def worker(script):
    with Worker([sys.executable, str(script)], thread_settings(3)) as worker:
        yield worker


@pytest.fixture
def make_pool(script):
    """A pool whose processes are numbered from 0."""

    def make(processes, attempts=1):
        openings = ({"number": number} for number in count())
        environment = {"PYTHONPATH": str(script.parent)}
        return ProcessPool("answering:Methods", processes, openings, environment, attempts)

    return make


def test_a_worker_answers_requests_and_has_the_threads_it_was_given(worker):
    assert worker.ask("add", a=1, b=2) == 3
    assert worker.ask("threads") == {"OMP_NUM_THREADS": "3", "RAYON_NUM_THREADS": "3"}


def test_a_worker_may_be_started_from_the_file_without_the_package(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(
        "import runpy, sys\n"
        "sys.modules['spacy_biomed'] = None  # as where it is not installed\n"
        "class Methods:\n"
        "    def add(self, a, b):\n"
        "        return a + b\n"
        f"runpy.run_path({process.__file__!r})['serve'](Methods())\n"
    )
    with Worker([sys.executable, str(script)]) as worker:
        assert worker.ask("add", a=1, b=2) == 3


def test_a_worker_goes_on_after_an_exception(worker):
    with pytest.raises(WorkerFailed, match="^one line$") as caught:
        worker.ask("fail")
    assert caught.value.kind == "ValueError"
    assert worker.ask("add", a="x", b="y") == "xy"


def test_a_worker_that_ends_leaves_its_last_words(worker):
    with pytest.raises(WorkerDied, match="out of luck"):
        worker.ask("die")


@pytest.mark.slow
def test_the_processes_of_a_pool_stay_until_it_ends(make_pool):
    with make_pool(1) as pool:
        told = {pool.submit("tell").result() for _ in range(3)}
        assert pool.submit("add", a=1, b=2).result() == 3
    ((number, process),) = told
    assert number == 0
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.slow
def test_what_a_process_of_a_pool_refuses_is_bad_input(make_pool):
    with make_pool(1) as pool, pytest.raises(BiomedError, match="^a.txt: not here$"):
        pool.submit("refuse").result()


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_request_whose_process_dies_is_begun_again_by_another(make_pool, tmp_path, attempts):
    with make_pool(1, attempts) as pool:
        answer = pool.submit("die", once=str(tmp_path / "died"))
        if attempts == 2:
            assert answer.result() == 1
        else:
            with pytest.raises(WorkerDied, match="out of luck"):
                answer.result()
