"""Kill `spacy biomed annotate` at random moments, and compare what it ends with.

    python benchmarks/interrupted_annotation.py assets/starter_en/train.jsonl --engine ray

The texts are repeated to `--documents` notes in Parquet, numbered so that no two are the same, and
annotated once without a disturbance by one local process. Then the command runs with `--engine`. At
`--kills` random moments (`--seed`), one of its processes is killed (SIGKILL): the command itself, a
worker, and on Ray also the driver or the raylet. Whenever the command has ended, it is started
again at once. At the end, all files have to be the same, byte for byte, have the checksums that are
recorded, and have each identifier once.

Then the same command writes to a file system that is too small, is read-only, and is neither (this
needs the right to mount): it has to end with one line each time, and keep its finished shards.

Without `--pipeline`, words of the texts are annotated by a pipeline of rules, which is quick.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import spacy
from annotating import write_notes

from spacy_biomed.outputs import replace_text

# By kind of victim: what its command line contains. All have the mark in their environment.
LOCAL = {"command": b"spacy\0biomed\0annotate", "worker": b"bulk.processes"}
ON_RAY = {
    "command": b"spacy\0biomed\0annotate",
    "driver": b"bulk.ray_driver",
    "worker": b"ray::RayWorker",
    "raylet": b"raylet/raylet",
}
MARK = "SPACY_BIOMED_INTERRUPTED"
WORDS = 300


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path, help="input of `spacy biomed annotate`")
    parser.add_argument("--pipeline", help="installed package or pipeline directory")
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--shard-size", type=int, default=1000)
    parser.add_argument("--n-process", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/interrupted.json"))
    parser.add_argument("--small-disk", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.small_disk:
        annotate_on_small_disk(args, args.small_disk)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        notes = folder / "notes.parquet"
        write_notes(args.texts, notes, args.documents)
        args.pipeline = args.pipeline or create_rules(notes, folder / "rules")
        start = time.monotonic()
        status, lines = start_command(args, notes, folder / "whole", local=True).end()
        assert status == 0, lines
        print(f"undisturbed: {args.documents:,} documents in {time.monotonic() - start:,.0f} s")
        start = time.monotonic()
        killed = annotate_interrupted(args, notes, folder / "out")
        print(f"killed {dict(Counter(killed))}: {time.monotonic() - start:,.0f} s", flush=True)
        compare(folder / "out", folder / "whole", notes)
        disk = try_small_disk(args, notes, folder)
    found = {"engine": args.engine, "documents": args.documents, "killed": killed, "disk": disk}
    replace_text(args.output, json.dumps(found, indent=2))


def create_rules(notes: Path, path: Path) -> str:
    """A pipeline that annotates the commonest long words of the first notes."""
    nlp = spacy.blank("en")
    texts = pq.read_table(notes, columns=["text"])["text"].slice(0, 200).to_pylist()
    words = Counter(word for text in texts for word in text.split() if len(word) > 7)
    patterns = [{"label": "WORD", "pattern": word} for word, _ in words.most_common(WORDS)]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.to_disk(path)
    return str(path)


class Running:
    """A command that runs."""

    def __init__(self, command: list[str], mark: str):
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            env={**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    def end(self) -> tuple[int, list[str]]:
        """Wait for the end; return the status and the lines on standard error."""
        status = self.process.wait()
        self._errors.seek(0)
        lines = self._errors.read().splitlines()
        self._errors.close()
        return status, lines


def start_command(args: argparse.Namespace, notes: Path, output: Path, local: bool) -> Running:
    command = [sys.executable, "-m", "spacy", "biomed", "annotate", args.pipeline, str(notes)]
    command += [str(output), "--shard-size", str(args.shard_size)]
    if not local:
        command += ["--engine", args.engine, "--n-process", str(args.n_process)]
    return Running(command, str(output))


def annotate_interrupted(args: argparse.Namespace, notes: Path, output: Path) -> list[str]:
    """Annotate, killing processes and starting again; return what was killed."""
    chance = random.Random(args.seed)
    shards = -(-args.documents // args.shard_size)
    moments = sorted(chance.sample(range(shards - 1), min(args.kills, shards - 1)))
    victims = ON_RAY if args.engine == "ray" else LOCAL
    killed: list[str] = []
    while True:
        running = start_command(args, notes, output, local=False)
        while running.process.poll() is None:
            time.sleep(0.02)
            if len(killed) < len(moments) and count_finished(output) >= moments[len(killed)]:
                time.sleep(chance.random())
                kind = chance.choice(list(victims))
                if kill_one(victims[kind], str(output), chance):
                    killed.append(kind)
        status, lines = running.end()
        assert len(lines) <= 1, lines
        print(
            f"{len(killed):3} kills, {count_finished(output):6} of {shards} shards: {lines}",
            flush=True,
        )
        if status == 0:
            return killed


def count_finished(output: Path) -> int:
    path = output / "_finished.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_one(name: bytes, mark: str, chance: random.Random) -> bool:
    """Kill a process with this in its command line and the mark in its environment, if any."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            if name in (folder / "cmdline").read_bytes() and mark.encode() in environment:
                found.append(int(folder.name))
        except OSError:  # ended, or not ours
            continue
    if found:
        os.kill(chance.choice(sorted(found)), signal.SIGKILL)
    return bool(found)


def compare(output: Path, whole: Path, notes: Path) -> None:
    """Check that two outputs are the same, and have each document once."""
    files, expected = hash_files(output), hash_files(whole)
    assert files == expected, sorted(files.items() ^ expected.items())[:10]
    recorded = [json.loads(line) for line in (output / "_finished.jsonl").open(encoding="utf8")]
    for shard in recorded:
        assert all(files[name] == checksum for name, checksum in shard["files"].items()), shard
    ids = pq.read_table(output / "documents", columns=["id"])["id"].to_pylist()
    assert sorted(ids) == sorted(pq.read_table(notes, columns=["id"])["id"].to_pylist())
    assert len(set(ids)) == len(ids)
    print(f"{len(files):,} files are the same, {len(ids):,} documents are there once")


def hash_files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def try_small_disk(args: argparse.Namespace, notes: Path, folder: Path) -> bool:
    """Run `annotate_on_small_disk` where it may mount; return whether it could."""
    mounts = ["unshare", "--mount", "--propagation", "private"]
    may = shutil.which("unshare") and not subprocess.run([*mounts, "true"], check=False).returncode
    if not may:
        print("a full disk is left out: mounting is not permitted here")
        return False
    options = {"pipeline": args.pipeline, "engine": args.engine, "n-process": args.n_process}
    options |= {"shard-size": args.shard_size, "documents": args.documents, "small-disk": folder}
    given = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    subprocess.run([*mounts, sys.executable, __file__, str(notes), *given], check=True)
    return True


def annotate_on_small_disk(args: argparse.Namespace, folder: Path) -> None:
    """Annotate to a file system that is too small, then read-only, then neither."""
    disk, notes = folder / "disk", folder / "notes.parquet"
    disk.mkdir()
    size = sum(file.stat().st_size for file in (folder / "whole").rglob("*")) * 2 // 3
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk))
    for change, message in [(None, "No space left"), ("ro", "Read-only"), ("rw,size=1g", "")]:
        if change:
            mount("-o", f"remount,{change}", str(disk))
        before = count_finished(disk / "out")
        status, lines = start_command(args, notes, disk / "out", local=False).end()
        assert status == bool(message) == len(lines), lines
        assert not message or message in lines[0], lines
        assert count_finished(disk / "out") >= before
        print(
            f"small disk: {count_finished(disk / 'out')} shards are finished; {lines}", flush=True
        )
        assert change or count_finished(disk / "out"), "the disk is too small for one shard"
    compare(disk / "out", folder / "whole", notes)


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    main()
