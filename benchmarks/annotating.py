"""Compare the speed of `spacy biomed annotate` with `nlp.pipe`, and two processes with one.

    python benchmarks/annotating.py assets/pipelines/en_biomed_ner assets/starter_en/train.jsonl

The texts are repeated to `--documents` documents, numbered so that no two are the same. Each
contestant runs in a process of its own with one thread (two processes: one thread each), in turns,
`--repeats` times. `nlp.pipe` annotates a list in memory and throws the documents away; `annotate`
reads and writes Parquet. The seconds are from the first document to the end, without loading; with
two processes from the end of their second shard, when both have loaded. The output has the fastest
run of each, in words per second, and the ratios; and for one process the ratio by processor time,
which hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from spacy_biomed.bulk import BulkSettings, Columns, annotate_collection
from spacy_biomed.bulk.sources import find_parts, plan_shards
from spacy_biomed.evaluation.workers import thread_settings
from spacy_biomed.outputs import replace_text
from spacy_biomed.pipeline import load_pipeline

CONTESTANTS = ("nlp.pipe", "one process", "two processes")
TARGETS = {("one process", "nlp.pipe"): 0.95, ("two processes", "one process"): 1.8}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="installed package or pipeline directory")
    parser.add_argument("texts", type=Path, help="input of `spacy biomed annotate`")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--shard-size", type=int, default=250)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/annotating.json"))
    parser.add_argument("--run", choices=CONTESTANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(run(args.run, args.pipeline, args.texts, args.shard_size)))
        return
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes.parquet"
        write_notes(args.texts, notes, args.documents)
        measured: dict[str, list[dict]] = {name: [] for name in CONTESTANTS}
        for _ in range(args.repeats):
            for name, runs in measured.items():
                runs.append(run_alone(name, args, notes))
    report(measured, args.output)


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
    done = subprocess.run(
        [*command, "--shard-size", str(args.shard_size)],
        env={**os.environ, **thread_settings(1), "SPACY_BIOMED_ENGINE": "onnxruntime"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def run(name: str, pipeline: str, notes: Path, shard_size: int) -> dict:
    """Annotate all notes; return the seconds, the words and the entities."""
    if name == "nlp.pipe":
        return run_pipe(pipeline, notes)
    stops: list[tuple[float, float, int]] = []

    def record(rows: int, total: int, words: int) -> None:
        stops.append((time.perf_counter(), time.process_time(), words))

    settings = BulkSettings(shard_size=shard_size, n_process=2 if name == "two processes" else 1)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        found = annotate_collection(pipeline, notes, output, settings, on_progress=record)
    start, processor, before = stops[0 if settings.n_process == 1 else 2]
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor,
        "words": found.counts["words"] - before,
        "entities": found.counts["entities"],
    }


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
        "words": words,
        "entities": entities,
    }


def report(measured: dict[str, list[dict]], output: Path) -> None:
    speeds = {
        name: max(one["words"] / one["seconds"] for one in runs) for name, runs in measured.items()
    }
    for name, speed in speeds.items():
        print(f"{name:15} {speed:10,.0f} words/s  {measured[name][0]['entities']:,} entities")
    for (name, base), target in TARGETS.items():
        ratio = speeds[name] / speeds[base]
        print(f"{name} / {base}: {ratio:.2f} (target {target})")
    pipe, alone = (
        min(one["processor_seconds"] for one in measured[name]) for name in CONTESTANTS[:2]
    )
    print(f"one process / nlp.pipe by processor time: {pipe / alone:.2f}")
    replace_text(output, json.dumps({"words_per_second": speeds, "runs": measured}, indent=2))


if __name__ == "__main__":
    main()
