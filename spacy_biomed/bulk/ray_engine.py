"""Annotate shards on Ray: on this machine, or on a cluster.

Ray starts the workers where there is room, sends them shards, and notices when a worker or a node
dies. The workers are actors, without Ray Data, since there are no data to move: they read and write
files, and a shard is a number. What a dead worker was doing is begun again here, because Ray counts
attempts while the worker is still starting again: one death uses up `max_task_retries`.
"""

import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..encoders.batching.concurrency import available_processors
from ..errors import BiomedError, first_line, install_command
from ..workers.process import WorkerDied, start_worker, thread_settings
from .manifest import FinishedShard
from .shards import ATTEMPTS, ShardWork, ShardWorker, explain_deaths

# The names of Ray's sockets have about 65 characters below its folder, and at most 107 in total.
_LONGEST_FOLDER = 40
# Seconds that Ray's processes may write to their folder after they were told to end.
_ENDING = 10
# Bytes. Shards do not go through Ray's store of objects; this is little more than its minimum.
_OBJECT_STORE = 80 << 20
# Seconds after which the nodes are looked at if no shard is finished, and to wait for an answer.
_PATIENCE = 10


def annotate_on_ray(
    work: ShardWork, unfinished: list[int], on_shard: Callable[[int, int], None]
) -> Generator[FinishedShard, None, None]:
    """An `Engine`: processes that Ray runs.

    Ray's driver, which prints messages and may end without an exception, is a process of its own.
    """
    if not unfinished:
        return
    with _temporary_folder() as folder:
        name = f"{__name__}:Driver"
        driver = start_worker(name, keep_errors=not work.settings.verbose)
        try:
            driver.ask("begin", work=work, unfinished=unfinished, folder=folder)
            while (finished := driver.ask("wait")) is not None:
                on_shard(work.manifest.shards[finished.shard].rows, finished.counts["words"])
                yield finished
        except WorkerDied:
            raise BiomedError(
                "Ray's driver ended: it or other processes of Ray were killed, or there was not "
                "enough memory; --verbose shows Ray's messages"
            ) from None
        finally:
            driver.close()


@contextmanager
def _temporary_folder() -> Iterator[str]:
    """A folder whose name is short enough for Ray's sockets in it."""
    is_short = len(tempfile.gettempdir()) <= _LONGEST_FOLDER or os.name == "nt"
    folder = tempfile.mkdtemp(prefix="ray-", dir=None if is_short else "/tmp")
    try:
        yield folder
    finally:
        _remove_folder(folder)


def _remove_folder(folder: str) -> None:
    """Delete Ray's folder, in which its processes may still write for a while."""
    end = time.monotonic() + _ENDING
    while os.path.exists(folder) and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)


class RayWorker(ShardWorker):
    """A `ShardWorker` in a process of Ray's, an actor.

    Ray keeps in its logs what a process prints, and a component could print a text.
    """

    def __init__(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(nowhere, stream.fileno())

    def open(self, work: ShardWork) -> None:
        """Load the pipeline; an error also has the name of the machine."""
        try:
            super().open(work)
        except BiomedError as error:
            raise BiomedError(f"{error} (on {socket.gethostname()})") from error


class Driver:
    """Answers the requests of `annotate_on_ray`."""

    _results: Generator[FinishedShard, None, None]

    def begin(self, work: ShardWork, unfinished: list[int], folder: str) -> None:
        """Take the work and a folder for Ray's files; begin nothing. Ctrl-C stops Ray at once."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._results = _annotate(work, unfinished, folder)

    def wait(self) -> FinishedShard | None:
        """The next finished shard; None at the end."""
        return next(self._results, None)

    def end(self) -> None:
        """Stop the workers, and Ray if it was started here."""
        if hasattr(self, "_results"):
            self._results.close()


def _annotate(
    work: ShardWork, unfinished: list[int], folder: str
) -> Generator[FinishedShard, None, None]:
    with _connected(work, folder) as environment:
        nodes = _find_nodes(work.threads)
        workers = work.settings.n_process or sum(cpus // work.threads for cpus in nodes)
        yield from _Team(work, min(workers, len(unfinished)), environment).annotate(unfinished)


class _Team:
    """The workers, actors of Ray, each with one shard at a time, and variables for them."""

    def __init__(self, work: ShardWork, workers: int, environment: dict[str, str]):
        import ray

        self._ray, self._work = ray, work
        own = {k: v for k, v in os.environ.items() if k.startswith("SPACY_BIOMED_")}
        variables = {**own, **thread_settings(work.threads), **environment}
        self._actor = ray.remote(RayWorker).options(
            num_cpus=work.threads, scheduling_strategy="SPREAD", runtime_env={"env_vars": variables}
        )
        # Each worker's shard, by the reference to its answer; None while it loads the pipeline.
        self._running: dict[Any, tuple[Any, int | None]] = {}
        self._free: list[Any] = []
        self._deaths: Counter[int | None] = Counter()
        for _ in range(workers):
            self._start()

    def annotate(self, unfinished: list[int]) -> Generator[FinishedShard, None, None]:
        waiting = deque(unfinished)
        left = len(unfinished)
        while left:
            while waiting and self._free:
                number, worker = waiting.popleft(), self._free.pop()
                self._running[worker.annotate.remote(number)] = (worker, number)
            done, _ = self._ray.wait(list(self._running), timeout=_PATIENCE)
            if not done:
                _find_nodes(self._work.threads)
            for reference in done:
                worker, begun = self._running.pop(reference)
                try:
                    result = self._take(reference)
                except self._ray.exceptions.RayError:
                    self._replace(worker, begun)
                    if begun is not None:
                        waiting.appendleft(begun)
                    continue
                self._free.append(worker)
                if begun is not None:
                    left -= 1
                    yield result

    def _start(self) -> None:
        worker = self._actor.remote()
        self._running[worker.open.remote(self._work)] = (worker, None)

    def _take(self, reference: Any) -> Any:
        """The answer of a worker; its errors are raised as the worker has raised them."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, BiomedError):
                raise BiomedError(str(error.cause)) from None
            raise RuntimeError(str(error.cause)) from None

    def _replace(self, worker: object, begun: int | None) -> None:
        """Start another worker instead of one that has died, or cannot be reached any more."""
        self._ray.kill(worker)
        self._deaths[begun] += 1
        _find_nodes(self._work.threads)
        if self._deaths[begun] == ATTEMPTS:
            if begun is not None:
                raise explain_deaths(self._work, begun)
            raise BiomedError(
                f"Ray: {ATTEMPTS} workers died before they had loaded the pipeline; is "
                "spacy-biomed installed on each node, and is there enough memory?"
            )
        self._start()


def _find_nodes(threads: int) -> list[int]:
    """The number of processors of each node that has room for a worker; at least one has."""
    import ray

    cpus = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    nodes = [number for number in cpus if number >= threads]
    if not cpus:
        raise BiomedError("Ray: no node is alive any more; were its processes killed?")
    if not nodes:
        raise BiomedError(
            f"Ray: none of its {len(cpus)} nodes has {threads} processors, for the threads of a "
            "worker; start larger nodes, or set OMP_NUM_THREADS"
        )
    return nodes


@contextmanager
def _connected(work: ShardWork, folder: str) -> Iterator[dict[str, str]]:
    """Connect to a cluster, or start Ray on this machine; yield variables for the workers."""
    settings = work.settings
    arguments: dict[str, Any] = {"address": settings.address or "local"}
    variables = {}
    if settings.address is None:
        if home := os.environ.get("HOME"):
            variables["HOME"] = home
        _isolate(folder)
        cpus = settings.n_process * work.threads if settings.n_process else available_processors()
        arguments.update(
            num_cpus=max(cpus, work.threads),
            object_store_memory=_OBJECT_STORE,
            include_dashboard=False,
            _temp_dir=folder,
        )
    else:
        check_ray(settings.address)
    import ray

    level = "info" if settings.verbose else "error"
    try:
        try:
            ray.init(log_to_driver=False, logging_level=level, **arguments)
        except Exception as error:
            raise BiomedError(
                f"Ray at {arguments['address']}: cannot be started or reached "
                f"({first_line(error)}); start a cluster with `ray start --head`, and check "
                "--address"
            ) from error
        yield variables
    finally:
        ray.shutdown()
        if settings.address is None:
            _remove_folder(folder)  # `annotate_on_ray` does too, unless it was killed


def check_ray(address: str | None) -> None:
    """Raise BiomedError without Ray, or an answer at an address: Ray tries for many minutes."""
    if find_spec("ray") is None:
        raise BiomedError(f"--engine ray needs Ray: {install_command('ray')}")
    if address is None or address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except (OSError, ValueError, OverflowError) as error:
        raise BiomedError(
            f"{address}: nothing answers there ({error}); start Ray with `ray start --head`, and "
            "give HOST:PORT or auto as --address"
        ) from error


def _isolate(folder: str) -> None:
    """Set the environment of a Ray that is started here, before it is imported.

    It can be reached only from this machine and with a token, and does not report its use. It does
    not ask the network which cloud this machine is of, since its home is an empty folder with a
    description of the cluster.
    """
    Path(folder, "ray_bootstrap_config.yaml").write_text("{}\n", encoding="utf8")
    os.environ.update(
        HOME=folder,
        RAY_USAGE_STATS_ENABLED="0",
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # on every system: then it listens to 127.0.0.1
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),
    )
