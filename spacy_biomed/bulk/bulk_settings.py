"""How a collection is annotated."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..files.records import Layout
from ..files.sources import Columns
from .time_limit import DEFAULT_SECONDS


@dataclass(frozen=True)
class BulkSettings:
    """How a collection is annotated.

    Attributes:
        code: Python file with what the pipeline needs, such as its own components.
        shard_size: rows of a shard. All of a shard's documents are in memory.
        batch_size: documents of a batch; None for the pipeline's, and at least 512 on a GPU.
        n_process: processes that annotate shards; None for one, or with Ray for one for each
            processor. Their number of threads is recorded in the
            manifest, and the same in continued runs: OMP_NUM_THREADS, or one for several processes,
            or else the number of processors. The output does not depend on the number of processes.
        max_errors: the run stops after a shard with which more rows than this could not be
            annotated; None for no limit.
        min_confidence: entities of a lower confidence are left out, from 0 to 1; 0 keeps all.
        engine: who runs the processes: this process, or Ray.
        address: of a Ray cluster, `HOST:PORT` or "auto"; None starts Ray on this machine.
        verbose: whether Ray's messages are printed.
        meanings: JSON file with what labels mean, for FHIR and OMOP (`read_meanings`).
        gpu_id: the GPU on which encoders in PyTorch compute; processes share it. -1 for the CPU.
        max_seconds: time for a text, after which it fails.
    """

    columns: Columns = field(default_factory=Columns)
    layout: Layout = field(default_factory=Layout)
    code: str | None = None
    shard_size: int = 1000
    batch_size: int | None = None
    n_process: int | None = None
    max_errors: int | None = None
    min_confidence: float = 0.0
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    verbose: bool = False
    meanings: Path | None = None
    gpu_id: int = -1
    max_seconds: float = DEFAULT_SECONDS
