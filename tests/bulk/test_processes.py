"""Annotation in several processes, some of which die."""

import json
from pathlib import Path
from threading import Event

import pytest
from fault_injection import snapshot

from spacy_biomed import BiomedError
from spacy_biomed.bulk import BulkSettings, annotate_collection
from spacy_biomed.bulk.annotating import annotate_in_processes
from spacy_biomed.bulk.manifest import FinishedShard, Manifest
from spacy_biomed.bulk.shards import ShardWork, ShardWorker
from spacy_biomed.files.sources import Shard
from spacy_biomed.workers import process
from spacy_biomed.workers.process import Worker, WorkerDied, start_worker

SHARDS = 8  # of `notes`, with five documents each
TWO = BulkSettings(shard_size=5, n_process=2)


@pytest.fixture
def workers(monkeypatch) -> list[Worker]:
    """The processes that are started."""
    started: list[Worker] = []

    def start(*arguments: object, **options: bool) -> Worker:
        started.append(start_worker(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(process, "start_worker", start)
    return started


@pytest.mark.slow
def test_two_processes_write_the_same_bytes_as_one(ruler, notes, whole, tmp_path, workers):
    done: list[tuple[int, int, int]] = []
    report = annotate_collection(
        str(ruler), notes, tmp_path / "out", TWO, on_progress=lambda *now: done.append(now)
    )
    assert snapshot(tmp_path / "out") == whole
    assert len(workers) == 2
    assert report.counts["documents"] == 5 * SHARDS
    assert [(rows, total) for rows, total, _ in done] == [(n * 5, 40) for n in range(SHARDS + 1)]
    assert done[-1][2] == 3 * 40


def test_the_next_shard_is_begun_before_the_last_is_recorded(monkeypatch):
    begun = [Event(), Event()]

    class Beginning(_Dying):
        def ask(self, do: str, **arguments):
            if do == "open":
                return None
            begun[arguments["number"]].set()
            return FinishedShard(arguments["number"], {"words": 0}, {}, [])

    monkeypatch.setattr(process, "start_worker", Beginning)
    shards = [Shard(0, 0, number, 1, number) for number in range(2)]
    manifest = Manifest({}, {"threads": 1}, [], shards)
    work = ShardWork("", Path(), Path(), BulkSettings(), None, manifest, {})
    finished = annotate_in_processes(work, [0, 1], lambda rows, words: None, 1)
    assert next(finished).shard == 0
    assert begun[1].wait(timeout=60)
    assert [one.shard for one in finished] == [1]


@pytest.mark.slow
def test_the_shard_of_a_process_that_dies_is_done_again(ruler, notes, whole, tmp_path, workers):
    def kill_all(rows: int, total: int, words: int) -> None:
        if rows == 5:
            for worker in workers:
                worker.kill()

    report = annotate_collection(str(ruler), notes, tmp_path / "out", TWO, on_progress=kill_all)
    assert (report.counts["documents"], len(report.failed)) == (5 * SHARDS, 0)
    assert len(workers) in (3, 4)
    assert snapshot(tmp_path / "out") == whole


def test_an_interrupted_run_of_two_processes_is_continued(ruler, notes, whole, tmp_path, workers):
    def interrupt(rows: int, total: int, words: int) -> None:
        if rows >= 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        annotate_collection(str(ruler), notes, tmp_path / "out", TWO, on_progress=interrupt)
    assert all(worker._process.poll() is not None for worker in workers)
    report = annotate_collection(str(ruler), notes, tmp_path / "out", BulkSettings(shard_size=5))
    assert 2 <= report.continued < SHARDS
    assert snapshot(tmp_path / "out") == whole


def test_a_continued_run_has_the_number_of_threads_that_it_was_begun_with(
    ruler, notes, tmp_path, monkeypatch
):
    output = tmp_path / "out"
    settings = BulkSettings(shard_size=5)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    annotate_collection(str(ruler), notes, output, settings)
    files = snapshot(output)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with pytest.raises(BiomedError, match="begun with 3 threads.*set OMP_NUM_THREADS to 3"):
        annotate_collection(str(ruler), notes, output, settings)
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("spacy_biomed.bulk.annotating.default_threads", lambda: 1)
    environments: list[dict[str, str]] = []

    def start(name: str, environment: dict[str, str], **_: bool) -> Worker:
        environments.append(environment)
        return start_worker(name, environment)

    monkeypatch.setattr(process, "start_worker", start)
    (output / "entities" / "part-00001.parquet").unlink()
    annotate_collection(str(ruler), notes, output, settings)
    assert [environment["OMP_NUM_THREADS"] for environment in environments] == ["3"]
    assert snapshot(output) == files


def test_processes_load_the_pipeline_on_the_gpu_that_is_named(ruler, notes, tmp_path, monkeypatch):
    used: list[int] = []
    monkeypatch.setattr("spacy.require_gpu", used.append)
    monkeypatch.setattr(process, "start_worker", lambda *_, **__: _Dying())
    settings = BulkSettings(shard_size=5, n_process=2, gpu_id=3)
    with pytest.raises(BiomedError, match="died 3 times"):
        annotate_collection(str(ruler), notes, tmp_path / "out", settings)
    assert used[0] == 3 and set(used) == {3} and len(used) >= 3
    manifest = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert manifest["settings"]["gpu"] is True
    with pytest.raises(BiomedError, match="gpu"):
        annotate_collection(str(ruler), notes, tmp_path / "out", TWO)


def test_a_gpu_is_not_for_ray(ruler, notes, tmp_path):
    settings = BulkSettings(engine="ray", gpu_id=0)
    with pytest.raises(BiomedError, match="--gpu-id is for processes of this machine"):
        annotate_collection(str(ruler), notes, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


class _Dying:
    """A process that loads the pipeline, and dies at the second shard."""

    def __init__(self, *_: object, **__: bool):
        self.process = ShardWorker()

    def ask(self, do: str, **arguments):
        if do == "annotate" and arguments["number"] == 1:
            raise WorkerDied("the process ended with status -9")
        return getattr(self.process, do)(**arguments)

    def kill(self) -> None: ...

    def close(self) -> None: ...


def test_a_shard_at_which_every_process_dies_stops_the_run(ruler, notes, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "start_worker", _Dying)
    with pytest.raises(BiomedError, match=r"shard 1 \(rows 6 to 10 of notes\.jsonl\): its process"):
        annotate_collection(str(ruler), notes, tmp_path / "out", TWO)
    assert (tmp_path / "out" / "documents" / "part-00000.parquet").exists()


def test_an_input_that_changes_while_processes_start_is_refused(
    ruler, notes, tmp_path, monkeypatch
):
    class Changing(_Dying):
        def ask(self, do: str, **arguments):
            notes.write_text('{"text": ""}')
            return super().ask(do, **arguments)

    monkeypatch.setattr(process, "start_worker", Changing)
    with pytest.raises(BiomedError, match="changes while it is read"):
        annotate_collection(str(ruler), notes, tmp_path / "out", TWO)


def test_what_a_process_refuses_is_one_line(ruler, notes, tmp_path, workers):
    broken = tmp_path / "broken"

    def break_pipeline(rows: int, total: int, words: int) -> None:
        ruler.rename(broken)

    try:
        with pytest.raises(BiomedError, match="neither an installed pipeline package nor"):
            annotate_collection(
                str(ruler), notes, tmp_path / "out", TWO, on_progress=break_pipeline
            )
    finally:
        broken.rename(ruler)
