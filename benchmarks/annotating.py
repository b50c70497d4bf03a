"""Compare the speed of `spacy biomed annotate` with `nlp.pipe`: processes and Ray.

    python benchmarks/annotating.py assets/pipelines/en_biomed_ner assets/starter_en/train.jsonl

The texts are repeated to `--documents` documents, numbered so that no two are the same. Each
contestant runs in a process of its own, with one thread for each process that annotates, in turns,
`--repeats` times. `nlp.pipe` annotates a list in memory and throws the documents away; `annotate`
reads and writes Parquet, in one or two processes, and on Ray with one or two workers, and with two
nodes (raylets) of one processor each. `nlp.pipe` and a single process have one core, since while
the encoder computes on its one thread, Python would otherwise run on another core.

The seconds are from the first document to the end, without loading: with several processes from the
end of the shard with which all have loaded. The start and the end of Ray are left out. The output
has the fastest run of each, in documents per second, and the ratios; for one process the ratio by
processor time, which hardly depends on what else the machine does; and what 100 million such
documents take.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spacy_biomed.bulk import BulkSettings, annotate_collection
from spacy_biomed.evaluation.benchmark import describe_machine
from spacy_biomed.evaluation.workers import thread_settings
from spacy_biomed.files import Columns
from spacy_biomed.files.sources import plan_shards
from spacy_biomed.formats.inputs import find_parts
from spacy_biomed.outputs import replace_text
from spacy_biomed.pipeline import load_pipeline

# Settings of `annotate` by contestant.
OURS = {
    "one process": {"n_process": 1},
    "two processes": {"n_process": 2},
    "Ray, one worker": {"n_process": 1, "engine": "ray"},
    "Ray, two workers": {"n_process": 2, "engine": "ray"},
    "Ray, two nodes": {"n_process": 2, "engine": "ray"},
}
CONTESTANTS = ("nlp.pipe", *OURS)
# Confined to one core.
ON_ONE_CORE = ("nlp.pipe", "one process")
# Least ratios of documents per second.
TARGETS = {
    ("one process", "nlp.pipe"): 0.95,
    ("two processes", "one process"): 1.8,
    ("Ray, one worker", "one process"): 0.95,
    ("Ray, two workers", "two processes"): 0.95,
    ("Ray, two nodes", "two processes"): 0.95,
}
MOST_GROWTH = 50  # MB


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="installed package or pipeline directory")
    parser.add_argument("texts", type=Path, help="input of `spacy biomed annotate`")
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--shard-size", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/annotating.json"))
    parser.add_argument("--run", choices=CONTESTANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run(args.run, args.pipeline, args.texts, args.shard_size)))
        return
    contestants = [name for name in CONTESTANTS if can_run(name)]
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes.parquet"
        write_notes(args.texts, notes, args.documents)
        measured: dict[str, list[dict]] = {name: [] for name in contestants}
        for _ in range(args.repeats):
            for name, runs in measured.items():
                runs.append(run_alone(name, args, notes))
    report(measured, args.output)


def can_run(name: str) -> bool:
    """Whether what a contestant needs is there; else say that it is left out."""
    is_missing = OURS.get(name, {}).get("engine") == "ray" and find_spec("ray") is None
    if is_missing:
        print(f"{name} is left out: without Ray")
    return not is_missing


def write_notes(texts: Path, path: Path, documents: int) -> None:
    """Write texts repeatedly, each with its number, to a Parquet file."""
    parts = find_parts(texts, Columns())
    items = [item for shard in plan_shards(parts, 1000) for item in parts[shard.part].read(shard)]
    found = [item.text for item in items if not item.error]
    repeated = [f"{found[number % len(found)]} {number}." for number in range(documents)]
    ids = [f"note{number}" for number in range(documents)]
    pq.write_table(pa.table({"id": ids, "text": repeated}), path)


def run_alone(name: str, args: argparse.Namespace, notes: Path) -> dict:
    """Run a contestant in a process of its own."""
    command = [sys.executable, __file__, args.pipeline, str(notes), "--run", name]
    command += ["--shard-size", str(args.shard_size)]
    done = subprocess.run(
        command,
        env={**os.environ, **thread_settings(1), "SPACY_BIOMED_ENGINE": "onnxruntime"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run(name: str, pipeline: str, notes: Path, shard_size: int) -> dict:
    """Annotate all notes; return the seconds, the documents and what was found."""
    if name in ON_ONE_CORE and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if name == "nlp.pipe":
        return run_pipe(pipeline, notes)
    stops: list[tuple[float, float, int, int]] = []

    def record(rows: int, total: int, words: int) -> None:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        stops.append((time.perf_counter(), time.process_time(), rows, memory))

    settings = BulkSettings(shard_size=shard_size, **OURS[name])
    with tempfile.TemporaryDirectory() as folder, nodes(name) as address:
        settings = replace(settings, address=address)
        output = Path(folder) / "out"
        found = annotate_collection(pipeline, notes, output, settings, on_progress=record)
        end, processor_end = time.perf_counter(), time.process_time()
    if settings.engine == "ray":
        end = stops[-1][0]  # without the end of Ray's processes
    is_alone = name == "one process"
    # All processes have loaded when each may have finished a shard.
    start, processor, before, _ = stops[0 if is_alone else settings.n_process or 1]
    return {
        "seconds": end - start,
        "processor_seconds": processor_end - processor,
        "documents": stops[-1][2] - before,
        "entities": found.counts["entities"],
        "memory_growth_mb": stops[-1][3] - stops[len(stops) // 10][3],
    }


@contextmanager
def nodes(name: str) -> Iterator[str | None]:
    """A cluster of two nodes on this machine for the contestant with this name; yield its address.

    It is for the measurement alone: other machines can reach it.
    """
    if name != "Ray, two nodes":
        yield None
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    one = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=one)
    cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


def run_pipe(pipeline: str, notes: Path) -> dict:
    nlp = load_pipeline(pipeline)
    texts = pq.read_table(notes)["text"].to_pylist()
    start, processor = time.perf_counter(), time.process_time()
    words = entities = 0
    for doc in nlp.pipe(texts):
        words += len(doc)
        entities += len(doc.ents)
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor,
        "documents": len(texts),
        "words": words,
        "entities": entities,
    }


def report(measured: dict[str, list[dict]], output: Path) -> None:
    speeds = {
        name: max(one["documents"] / one["seconds"] for one in runs)
        for name, runs in measured.items()
    }
    pipe = measured["nlp.pipe"][0]
    length = pipe["words"] / pipe["documents"]
    machine = describe_machine(("spacy-biomed", "spacy", "onnxruntime", "torch", "ray"))
    print(f"{machine['processor']}; {length:.0f} words a document")
    for name, speed in speeds.items():
        print(
            f"{name:21} {speed:9,.1f} documents/s {speed * length:9,.0f} words/s  "
            f"{measured[name][0]['entities']:,} entities"
        )
    for (name, base), target in TARGETS.items():
        if name in speeds and base in speeds:
            check(f"{name} / {base}", speeds[name] / speeds[base], target)
    seconds = {
        name: min(one["processor_seconds"] for one in measured[name])
        for name in ("nlp.pipe", "one process")
    }
    ratio = seconds["nlp.pipe"] / seconds["one process"]
    check("one process / nlp.pipe by processor time", ratio, 0.95)
    growth = max(one["memory_growth_mb"] for one in measured["one process"])
    print(
        f"memory of one process: +{growth} MB after a tenth of the documents (most {MOST_GROWTH})"
    )
    hours = 1e8 / speeds["one process"] / 3600
    print(f"100 million such documents: {hours:,.0f} hours, divided by the number of processes")
    replace_text(
        output,
        json.dumps(
            {"machine": machine, "documents_per_second": speeds, "runs": measured}, indent=2
        ),
    )


def check(name: str, ratio: float, target: float) -> None:
    print(f"{'✔' if ratio >= target else '✘'} {name}: {ratio:.2f} (target {target})")


if __name__ == "__main__":
    main()
