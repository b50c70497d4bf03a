"""Annotate shards in several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice, repeat

from ..files.sources import Shard
from ..workers.pool import ProcessPool
from ..workers.process import WorkerFailed, thread_settings
from .manifest import FinishedShard
from .shard_worker import ATTEMPTS, ShardWork, explain_deaths


def annotate_in_processes(
    work: ShardWork,
    unfinished: list[tuple[int, Shard]],
    on_shard: Callable[[int, int], None],
    processes: int,
) -> Generator[FinishedShard, None, None]:
    """Annotate shards; yield each when it is finished, in any order.

    The shard of a process that dies is begun again by a new one.

    Args:
        unfinished: the shards by number, ascending.
        on_shard: called after each shard with its rows and words.
        processes: number of processes, which end with the generator.

    Raises:
        BiomedError: if a process cannot read the input or write the output, or if several die at
            the same shard.
    """
    waiting = iter(unfinished)
    running: dict[Future[FinishedShard], tuple[int, Shard]] = {}
    name, environment = f"{__package__}.shard_worker:ShardWorker", thread_settings(work.threads)
    with ProcessPool(name, processes, repeat({"work": work}), environment, ATTEMPTS) as pool:

        def submit(count: int) -> None:
            for number, shard in islice(waiting, count):
                running[pool.submit("annotate", number=number, shard=shard)] = (number, shard)

        submit(processes)
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            submit(len(done))  # so that no process waits until the caller has recorded these
            for future in done:
                number, shard = running.pop(future)
                try:
                    finished = future.result()
                except WorkerFailed as error:
                    if error.kind:
                        raise
                    raise explain_deaths(work, number, shard) from None
                on_shard(shard.rows, finished.counts["words"])
                yield finished
