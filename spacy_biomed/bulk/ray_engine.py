"""Annotate shards on Ray: on this machine, or on a cluster."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

from ..errors import BiomedError
from ..evaluation.workers import Worker, WorkerFailed
from .manifest import FinishedShard
from .shard_worker import ShardWork, ShardWorker
from .sources import Shard


@dataclass(frozen=True)
class RaySettings:
    """Where Ray runs.

    Attributes:
        address: of a cluster, `HOST:PORT` or "auto"; None starts Ray on this machine.
        workers: processes that annotate; None for as many as there are processors in the cluster.
        verbose: whether Ray's messages are printed.
    """

    address: str | None = None
    workers: int | None = None
    verbose: bool = False


def annotate_on_ray(
    work: ShardWork,
    todo: list[tuple[int, Shard]],
    on_shard: Callable[[int, int], None],
    settings: RaySettings,
) -> Generator[FinishedShard, None, None]:
    """Annotate shards; yield each when it is finished, in any order.

    Ray's driver is a process of its own (`ray_driver`). It prints messages, needs an environment of
    its own before Ray is imported, and ends without an exception if the processes of Ray do.

    Args:
        work: what to do.
        todo: the shards by number, ascending.
        on_shard: called after each shard with its rows and words.
        settings: where Ray runs.

    Raises:
        BiomedError: if Ray is not installed or cannot be reached, if a worker cannot read the input
            or write the output, or if several die at the same shard, or all nodes.
    """
    if find_spec("ray") is None:
        raise BiomedError("--engine ray needs Ray: pip install 'spacy-biomed[ray]'")
    if not todo:
        return
    rows = {number: shard.rows for number, shard in todo}
    command = [sys.executable, "-m", f"{__package__}.ray_driver"]
    driver = Worker(command, keep_errors=not settings.verbose)
    try:
        driver.ask("begin", work=asdict(work), todo=todo, settings=asdict(settings))
        while (result := driver.ask("wait")) is not None:
            finished = FinishedShard(**result)
            on_shard(rows[finished.shard], finished.counts["words"])
            yield finished
    except WorkerFailed as error:
        if error.kind == BiomedError.__name__:
            raise BiomedError(str(error)) from None
        if error.kind:
            raise
        raise BiomedError(f"Ray's driver ended ({error}); --verbose shows Ray's messages") from None
    finally:
        driver.close()


class RayWorker(ShardWorker):
    """A `ShardWorker` in a process of Ray's, an actor.

    Ray keeps in its logs what a process prints, and a component could print a text.
    """

    def __init__(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(nowhere, stream.fileno())

    def open(self, work: dict[str, Any]) -> None:
        """Load the pipeline; an error also has the name of the machine."""
        try:
            super().open(work)
        except BiomedError as error:
            raise BiomedError(f"{error} (on {socket.gethostname()})") from error
