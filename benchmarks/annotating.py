"""Compare the speed of `spacy biomed annotate` with `nlp.pipe`: processes and Ray.

    python benchmarks/annotating.py assets/pipelines/en_biomed_ner assets/starter_en/train.jsonl

The texts are repeated to `--documents` documents, numbered so that no two are the same. Each
contestant runs in a process of its own, with one thread for each process that annotates, in turns,
`--repeats` times. `nlp.pipe` annotates a list in memory and throws the documents away. `annotate`
reads and writes Parquet: in one or two processes, and on Ray with one or two workers. `nlp.pipe`
and a single process have one core, since while the encoder computes on its one thread, Python would
otherwise run on another core.

With `--gpu-id 0` it compares, on a GPU that all processes share, `nlp.pipe` with `annotate` in as
many processes as `--n-process` says, and with stock spacy-transformers (`--stock`, a pipeline that
`inference.py --work` has written). There `nlp.pipe` annotates a tenth of the documents, and files
are JSON lines.

The seconds are from the first document to the end, without loading. With several processes they
start at the end of the shard with which all have loaded, or of the first quarter of the shards if
that is later. The start and the end of Ray are left out. The output has the fastest run of each,
the ratios (for one process also by processor time, which hardly depends on what else the machine
does) and the time for 100 million such documents.
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
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path

from comparisons import Check, console, create_parser, write_results

from spacy_biomed.bulk import BulkSettings, annotate_collection
from spacy_biomed.evaluation.benchmark import describe_machine
from spacy_biomed.files import Columns
from spacy_biomed.files.sources import plan_shards
from spacy_biomed.formats.inputs import find_parts
from spacy_biomed.pipeline import load_pipeline
from spacy_biomed.workers.process import thread_settings

OURS = {  # settings of `annotate`
    "one process": {"n_process": 1},
    "two processes": {"n_process": 2},
    "Ray, one worker": {"n_process": 1, "engine": "ray"},
    "Ray, two workers": {"n_process": 2, "engine": "ray"},
}
PIPE, STOCK = "nlp.pipe", "stock, nlp.pipe"
ON_ONE_CORE = (PIPE, "one process")  # confined to it
# Least ratios of documents per second.
TARGETS = {
    ("one process", PIPE): 0.95,
    ("two processes", "one process"): 1.9,
    ("Ray, one worker", "one process"): 0.95,
    ("Ray, two workers", "two processes"): 0.95,
}
MOST_GROWTH = 50  # MB


def main() -> None:
    parser = create_parser(__doc__, "annotating.json", repeats=1)
    parser.add_argument("pipeline", help="installed package or pipeline directory")
    parser.add_argument("texts", type=Path, help="input of `spacy biomed annotate`")
    parser.add_argument("--documents", type=int, default=24000)
    parser.add_argument("--shard-size", type=int, default=500)
    parser.add_argument("--gpu-id", type=int, default=-1, help="-1 for the CPU")
    parser.add_argument("--on-device", action="store_true", help="as on a GPU, whatever --gpu-id")
    parser.add_argument("--n-process", type=int, nargs="+", default=[4, 8, 12], help="on a GPU")
    parser.add_argument("--stock", help="pipeline to compare with on a GPU")
    parser.add_argument("--target", type=int, help="words/s to reach on a GPU")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.on_device |= args.gpu_id >= 0
    if args.run:
        print(json.dumps(run(args.run, args)))
        return
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / ("notes.jsonl" if args.on_device else "notes.parquet")
        write_notes(args.texts, notes, args.documents)
        measured: dict[str, list[dict]] = {name: [] for name in list_contestants(args)}
        for _ in range(args.repeats):
            for name, runs in measured.items():
                runs.append(run_alone(name, args, notes))
    report(measured, args)


def list_contestants(args: argparse.Namespace) -> list[str]:
    """The contestants that can run here."""
    if args.on_device:
        processes = [f"{number} processes" for number in args.n_process]
        return [PIPE, *([STOCK] if args.stock else []), *processes]
    missing = [name for name, own in OURS.items() if "engine" in own and find_spec("ray") is None]
    if missing:
        print(f"left out, without Ray: {'; '.join(missing)}")
    return [PIPE, *(name for name in OURS if name not in missing)]


def write_notes(texts: Path, path: Path, documents: int) -> None:
    """Write texts repeatedly, each with its number, to a Parquet file or as JSON lines."""
    endless = cycle(read_texts(texts))
    rows = [
        {"id": f"note{number}", "text": f"{text} {number}."}
        for number, text in enumerate(islice(endless, documents))
    ]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), path)


def read_texts(path: Path) -> list[str]:
    parts = find_parts(path, Columns())
    items = (item for shard in plan_shards(parts, 1000) for item in parts[shard.part].read(shard))
    return [item.text for item in items if not item.error]


def run_alone(name: str, args: argparse.Namespace, notes: Path) -> dict:
    """Run a contestant in a process of its own."""
    pipeline = args.stock if name == STOCK else args.pipeline
    command = [sys.executable, __file__, pipeline, str(notes), "--run", name]
    command += ["--shard-size", str(args.shard_size), "--gpu-id", str(args.gpu_id)]
    command += ["--on-device"] * args.on_device
    done = subprocess.run(
        command,
        env={**os.environ, **thread_settings(1), "SPACY_BIOMED_ENGINE": "onnxruntime"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def run(name: str, args: argparse.Namespace) -> dict:
    """Annotate all notes; return the seconds, the documents and what was found."""
    if name in ON_ONE_CORE and not args.on_device and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if name in (PIPE, STOCK):
        return run_pipe(args)
    own = OURS.get(name) or {"n_process": int(name.split()[0]), "gpu_id": args.gpu_id}
    settings = BulkSettings(shard_size=args.shard_size, **own)
    stops: list[tuple[float, float, int, int]] = []

    def record(rows: int, total: int, words: int) -> None:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        stops.append((time.perf_counter(), time.process_time(), rows, memory))

    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / ("out.jsonl" if args.on_device else "out")
        found = annotate_collection(args.pipeline, args.texts, output, settings, on_progress=record)
        end, processor_end = time.perf_counter(), time.process_time()
    if settings.engine == "ray":
        end = stops[-1][0]  # without the end of Ray's processes
    # All processes have loaded when each may have finished a shard.
    shards = max(settings.n_process or 1, len(stops) // 4)
    start, processor, before, _ = stops[0 if name == "one process" else shards]
    return {
        "seconds": end - start,
        "processor_seconds": processor_end - processor,
        "documents": stops[-1][2] - before,
        "entities": found.counts["entities"],
        "memory_growth_mb": stops[-1][3] - stops[len(stops) // 10][3],
    }


def run_pipe(args: argparse.Namespace) -> dict:
    nlp = load_pipeline(args.pipeline, gpu_id=args.gpu_id)
    texts = read_texts(args.texts)
    if args.on_device:
        list(nlp.pipe(texts[:1000]))
        texts = texts[: len(texts) // 10]
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


def report(measured: dict[str, list[dict]], args: argparse.Namespace) -> None:
    """Print and write the fastest runs, and their ratios."""
    speeds = {
        name: max(one["documents"] / one["seconds"] for one in runs)
        for name, runs in measured.items()
    }
    length = measured[PIPE][0]["words"] / measured[PIPE][0]["documents"]
    print(f"{describe_machine()['processor']}; {length:.0f} words a document")
    for name, speed in speeds.items():
        print(
            f"{name:21} {speed:9,.1f} documents/s {speed * length:9,.0f} words/s  "
            f"{measured[name][0]['entities']:,} entities"
        )
    checks = list(make_checks(measured, speeds, length, args))
    if not args.on_device:
        hours = 1e8 / speeds["one process"] / 3600
        console.print(f"100 million such documents: {hours:,.0f} hours, by number of processes")
    write_results(args, checks, documents_per_second=speeds, words=length, runs=measured)


def make_checks(
    measured: dict[str, list[dict]],
    speeds: dict[str, float],
    length: float,
    args: argparse.Namespace,
) -> Iterator[Check]:
    if args.on_device:
        name = max(speeds.keys() - {STOCK}, key=speeds.__getitem__)
        if STOCK in speeds:
            yield Check(f"{name} / {STOCK}", speeds[name] / speeds[STOCK], 8)
        yield Check(name, speeds[name] * length, args.target, " words/s")
        return
    for (name, base), target in TARGETS.items():
        if name in speeds and base in speeds:
            yield Check(f"{name} / {base}", speeds[name] / speeds[base], target)
    seconds = [
        min(one["processor_seconds"] for one in measured[name]) for name in (PIPE, "one process")
    ]
    yield Check("one process / nlp.pipe by processor time", seconds[0] / seconds[1], 0.95)
    growth = max(one["memory_growth_mb"] for one in measured["one process"])
    title = "one process, more memory after a tenth of the documents"
    yield Check(title, growth, MOST_GROWTH, " MB", at_least=False)


if __name__ == "__main__":
    main()
