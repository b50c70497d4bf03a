"""Annotate shards on Ray: on this machine, or on a cluster."""

import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from ..errors import BiomedError, install_command
from ..workers.process import WorkerDied, start_worker
from .manifest import FinishedShard
from .shard_worker import ShardWorker
from .shards import ShardWork

# The names of Ray's sockets have about 65 characters below its folder, and at most 107 in total.
_LONGEST_FOLDER = 40
# Seconds that Ray's processes may write to their folder after they were told to end.
_ENDING = 10


def annotate_on_ray(
    work: ShardWork, unfinished: list[int], on_shard: Callable[[int, int], None]
) -> Generator[FinishedShard, None, None]:
    """An `Engine`: processes that Ray runs.

    Ray's driver is a process of its own (`ray_driver`). It prints messages, needs an environment of
    its own before Ray is imported, and ends without an exception if the processes of Ray do.
    """
    if find_spec("ray") is None:
        raise BiomedError(f"--engine ray needs Ray: {install_command('ray')}")
    if not unfinished:
        return
    with _temporary_folder() as folder:
        name = f"{__package__}.ray_driver:Driver"
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
        remove_folder(folder)


def remove_folder(folder: str) -> None:
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
