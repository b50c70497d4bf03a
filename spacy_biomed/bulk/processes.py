"""Annotate shards in several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import as_completed
from itertools import repeat

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
    name, environment = f"{__package__}.shard_worker:ShardWorker", thread_settings(work.threads)
    with ProcessPool(name, processes, repeat({"work": work}), environment, ATTEMPTS) as pool:
        submitted = {
            pool.submit("annotate", number=number, shard=shard): (number, shard)
            for number, shard in unfinished
        }
        for future in as_completed(submitted):
            number, shard = submitted.pop(future)
            try:
                finished = future.result()
            except WorkerFailed as error:
                if error.kind:
                    raise
                raise explain_deaths(work, number, shard) from None
            on_shard(shard.rows, finished.counts["words"])
            yield finished
