"""Annotation on Ray; workers, the driver and a node are killed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fault_injection import snapshot

from spacy_biomed import BiomedError
from spacy_biomed.bulk import BulkSettings, annotate_collection, ray_engine
from spacy_biomed.bulk.manifest import FinishedShard, Manifest, read_manifest
from spacy_biomed.bulk.shards import ATTEMPTS, ShardWork, ShardWorker
from spacy_biomed.errors import install_command
from spacy_biomed.files.sources import Shard

SHARDS = 8  # of `notes`, with five documents each
TWO = BulkSettings(shard_size=5, n_process=2, engine="ray")
needs_ray = pytest.mark.skipif(
    find_spec("ray") is None or sys.platform != "linux",
    reason="needs Linux and Ray: pip install ray",
)


def find_processes(name: bytes, mark: Path) -> list[int]:
    """The processes with this in their command line and a path in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if name in command and os.fsencode(mark) in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # ended, or not ours
            continue
    return found


@needs_ray
def test_after_the_death_of_a_worker_the_bytes_are_those_of_one_process(
    ruler, notes, whole, tmp_path, monkeypatch
):
    monkeypatch.setenv("SPACY_BIOMED_TEST", str(tmp_path))
    folders: list[str] = []
    make = ray_engine.tempfile.mkdtemp

    def make_folder(*given: Any, **how: Any) -> str:
        folder = make(*given, **how)
        folders.extend([folder] if how.get("prefix") == "ray-" else [])
        return folder

    monkeypatch.setattr(ray_engine.tempfile, "mkdtemp", make_folder)
    killed: list[int] = []
    logged: list[bytes] = []

    def watch(rows: int, total: int, words: int) -> None:
        if rows == 10:
            killed.append(find_processes(b"ray::RayWorker", tmp_path)[0])
            os.kill(killed[0], signal.SIGKILL)
        if rows == total:
            logs = (path for path in Path(folders[0]).rglob("*") if path.is_file())
            logged.extend(path.read_bytes() for path in logs)

    report = annotate_collection(str(ruler), notes, tmp_path / "out", TWO, on_progress=watch)
    assert len(killed) == 1
    assert (report.counts["documents"], len(report.failed)) == (5 * SHARDS, 0)
    assert snapshot(tmp_path / "out") == whole
    assert logged
    assert not any(b"aspirin" in content for content in logged)
    assert not any(Path(folder).exists() for folder in folders)


@needs_ray
@pytest.mark.parametrize("victim", [b"spacy\0biomed", b"ray_engine:Driver"])
def test_a_run_whose_driver_is_killed_is_continued_without_ray(
    ruler, notes, whole, tmp_path, monkeypatch, victim
):
    monkeypatch.setenv("SPACY_BIOMED_TEST", str(tmp_path))
    command = [sys.executable, "-m", "spacy", "biomed", "annotate", str(ruler), str(notes)]
    options = ["--shard-size", "5", "--engine", "ray", "--n-process", "1"]
    temporary = tempfile.mkdtemp(prefix="", dir="/tmp")  # short, for Ray's sockets
    process = subprocess.Popen(
        [*command, str(tmp_path / "out"), *options],
        env={**os.environ, "TMPDIR": temporary},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    finished = tmp_path / "out" / "_finished.jsonl"
    while process.poll() is None and not finished.exists():
        time.sleep(0.01)
    (number,) = find_processes(victim, tmp_path)
    os.kill(number, signal.SIGKILL)
    _, errors = process.communicate()
    if number != process.pid:
        assert process.returncode == 1
        (line,) = errors.splitlines()
        assert line.startswith("✘ Ray's driver ended")
        assert line.endswith("finished shards are kept: run it again")
    report = annotate_collection(str(ruler), notes, tmp_path / "out", BulkSettings(shard_size=5))
    assert 0 < report.continued < SHARDS
    # What is left of Ray ends by itself.
    while find_processes(b"ray_engine:Driver", tmp_path) or find_processes(b"RayWorker", tmp_path):
        time.sleep(0.1)
    assert snapshot(tmp_path / "out") == whole
    assert list(Path(temporary).glob("ray-*")) == []
    shutil.rmtree(temporary)


CLUSTER = """
import sys
from pathlib import Path

from spacy_biomed.bulk import BulkSettings, annotate_collection, ray_engine

folder, pipeline, notes, output = sys.argv[1:]
ray_engine._isolate(folder)
from ray.cluster_utils import Cluster

quick = {"health_check_period_ms": 200, "health_check_failure_threshold": 3}
head = {"num_cpus": 1, "include_dashboard": False, "_system_config": quick}
cluster = Cluster(initialize_head=True, head_node_args=head)
second = cluster.add_node(num_cpus=1)
lost = []

def lose_a_node(rows, total, words):
    if rows >= 10 and not lost:
        lost.append(cluster.remove_node(second, allow_graceful=False))

settings = BulkSettings(shard_size=5, engine="ray", address=cluster.address)
try:
    report = annotate_collection(
        pipeline, Path(notes), Path(output), settings, on_progress=lose_a_node
    )
    assert report.counts["documents"] == 40 and lost
finally:
    cluster.shutdown()
"""


@needs_ray
def test_after_the_loss_of_a_node_the_bytes_are_those_of_one_process(ruler, notes, whole, tmp_path):
    with ray_engine._temporary_folder() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CLUSTER, folder, str(ruler), str(notes), str(tmp_path / "out")],
            env={**os.environ, "RAY_TMPDIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert snapshot(tmp_path / "out") == whole


def test_without_ray_or_a_cluster_one_line_says_what_to_do(ruler, notes, tmp_path, monkeypatch):
    def annotate(address):
        settings = BulkSettings(shard_size=5, engine="ray", address=address)
        annotate_collection(str(ruler), notes, tmp_path / "out", settings)

    monkeypatch.setattr(ray_engine, "find_spec", lambda name: True)
    with pytest.raises(BiomedError, match=r"127\.0\.0\.1:1: nothing answers there .*ray start"):
        annotate("127.0.0.1:1")
    with pytest.raises(BiomedError, match="cluster: nothing answers there"):
        annotate("cluster")
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    with pytest.raises(BiomedError, match=re.escape(f"needs Ray: {install_command('ray')}")):
        annotate(None)
    assert not (tmp_path / "out").exists()  # before the input is read


@pytest.mark.slow
def test_a_worker_of_rays_prints_nothing():
    code = (
        "import os\n"
        "from spacy_biomed.bulk.ray_engine import RayWorker\n"
        "RayWorker()\n"
        "print('aspirin', flush=True)\n"
        "os.write(2, b'aspirin')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


class FakeRay:
    """Ray whose workers die or fail as told.

    Args:
        outcomes: by the number of a shard, or "open", what happens at each call, in turns: an
            exception, or None for success.
        nodes: the number of processors of each node.
    """

    class exceptions:
        class RayError(Exception): ...

        class RayTaskError(RayError):
            def __init__(self, cause: Exception):
                self.cause = cause

    def __init__(self, outcomes: dict[Any, list[Exception | None]], nodes: tuple[int, ...] = (2,)):
        self._outcomes = {name: deque(outcome) for name, outcome in outcomes.items()}
        self._nodes = nodes
        self.started = self.killed = 0

    def nodes(self) -> list[dict]:
        return [{"Alive": True, "Resources": {"CPU": cpus}} for cpus in self._nodes]

    def remote(self, _: type) -> Any:
        return self

    def options(self, **_: Any) -> Any:
        return SimpleNamespace(remote=self._start)

    def _start(self) -> Any:
        self.started += 1
        return SimpleNamespace(
            open=SimpleNamespace(remote=lambda work: "open"),
            annotate=SimpleNamespace(remote=lambda number: number),
        )

    def wait(self, references: list, timeout: float) -> tuple[list, list]:
        return references[:1], references[1:]

    def get(self, reference: Any) -> Any:
        outcomes = self._outcomes.get(reference)
        outcome = outcomes.popleft() if outcomes else None
        if outcome is not None:
            raise outcome
        return FinishedShard(reference, {}, {}, [])

    def kill(self, _: Any) -> None:
        self.killed += 1


SOURCE, OUTPUT, STATES = Path("notes.jsonl"), Path("out"), {"notes.jsonl": ""}
TODO = [Shard(0, 0, number * 5, 5, number * 5) for number in range(3)]
MANIFEST = Manifest({}, {"threads": 1}, [], TODO)
WORK = ShardWork("pipeline", SOURCE, OUTPUT, BulkSettings(), None, MANIFEST, STATES)
DEATH = FakeRay.exceptions.RayError("died")


def annotate_with(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    monkeypatch.setitem(sys.modules, "ray", ray)
    results = ray_engine._Team(WORK, 1, {}).annotate([0, 1, 2])
    return [result.shard for result in results]


def test_shards_of_dead_workers_are_begun_again(monkeypatch):
    ray = FakeRay({0: [DEATH, DEATH], 2: [DEATH], "open": [DEATH]})
    assert annotate_with(ray, monkeypatch) == [0, 1, 2]
    assert (ray.started, ray.killed) == (5, 4)


@pytest.mark.parametrize(
    ("ray", "message"),
    [
        (
            FakeRay({1: [DEATH] * ATTEMPTS}),
            r"shard 1 \(rows 6 to 10 of notes\.jsonl\): its process",
        ),
        (FakeRay({"open": [DEATH] * ATTEMPTS}), "workers died before they had loaded the pipeline"),
        (FakeRay({0: [DEATH]}, nodes=()), "no node is alive any more"),
        (FakeRay({0: [DEATH]}, nodes=(0, 0)), "none of its 2 nodes has 1 processors"),
        (
            FakeRay({"open": [FakeRay.exceptions.RayTaskError(BiomedError("out: not there"))]}),
            "^out: not there$",
        ),
    ],
)
def test_what_does_not_get_better_stops_the_run(ray, message, monkeypatch):
    with pytest.raises(BiomedError, match=message):
        annotate_with(ray, monkeypatch)


def test_a_worker_that_does_not_see_the_output_or_the_input_of_the_run_refuses(
    ruler, notes, tmp_path, monkeypatch
):
    annotate_collection(str(ruler), notes, tmp_path / "out", BulkSettings(shard_size=5))
    manifest = read_manifest(tmp_path / "out")
    paths = {"pipeline": str(ruler), "source": notes, "manifest": manifest}
    work = {**vars(WORK), **paths, "output": tmp_path / "elsewhere"}
    with pytest.raises(BiomedError, match="put the output on a file system that all of them share"):
        ShardWorker().open(ShardWork(**work))
    work["output"] = tmp_path / "out"
    with pytest.raises(BiomedError, match=r"notes\.jsonl: changes while it is read"):
        ShardWorker().open(ShardWork(**work))
    status = notes.stat()
    work["states"] = {"notes.jsonl": f"{status.st_size} {status.st_mtime_ns}"}
    ShardWorker().open(ShardWork(**work))
    monkeypatch.setattr("spacy_biomed.bulk.shards.describe_pipeline", lambda nlp: {"spacy": "1"})
    with pytest.raises(BiomedError, match=r"other values of the pipeline \(spacy\)"):
        ShardWorker().open(ShardWork(**work))
