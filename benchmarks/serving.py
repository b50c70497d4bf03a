"""Load a server of `spacy biomed serve` on this machine.

    python benchmarks/serving.py assets/pipelines/en_biomed_ner assets/starter_en/train.jsonl

Two parts, each with a server in a process of its own on a free port of the loopback address:

- load: `--clients` clients for `--seconds` seconds. Each sends a text, waits for the answer, and
  sends the next. Every answer is compared with what `nlp.pipe` finds: spans and labels, and
  confidences to a thousandth.
- overload: the same clients for a tenth of the time, with a queue of `--waiting` documents. Every
  request must be answered, by what `nlp.pipe` finds or by 429.

The clients are on the same cores as the server, so that its own speed is higher. The output has
requests per second, the median and the 95th percentile of the time to an answer, statuses, and the
largest resident size of the server. It also has the server's and `nlp.pipe`'s processor time for a
text, which depends less on what else the machine does. A violated expectation ends the program with
an error. It runs on Linux.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import httpx
from comparisons import create_parser, write_results

from spacy_biomed.formats.findings import describe, find_layers
from spacy_biomed.pipeline import load_pipeline

# Seconds until an answer must be there; more than the server's own limit.
PATIENCE = 120.0
# Confidences may differ by batch in the last digits.
TOLERANCE = 1e-3


def main() -> None:
    parser = create_parser(__doc__, "serving.json")
    parser.add_argument("pipeline", help="installed package or pipeline directory")
    parser.add_argument("texts", type=Path, help="JSON lines with the field text")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--waiting", type=int, default=16)
    args = parser.parse_args()
    lines = args.texts.read_text(encoding="utf8").splitlines()
    expected, alone = annotate(args.pipeline, [json.loads(line)["text"] for line in lines])
    report: dict[str, Any] = {"nlp.pipe": {"processor ms per text": alone}}
    for name, seconds, options in (
        ("load", args.seconds, ()),
        ("overload", args.seconds / 10, ("--max-waiting", str(args.waiting))),
    ):
        with serving(args.pipeline, *options) as server:
            before = server.processor_time()
            report[name] = asyncio.run(load(server.address, expected, args.clients, seconds))
            used = 1000 * (server.processor_time() - before)
            report[name]["processor ms per text"] = round(
                used / report[name]["statuses"].get(200, 1), 1
            )
            report[name]["megabytes"] = server.megabytes()
    print(json.dumps(report, indent=2))
    write_results(args, [], **report)
    check(report)


def annotate(pipeline: str, texts: list[str]) -> tuple[dict[str, Any], float]:
    """What `nlp.pipe` finds in each text, and the processor time for one, in milliseconds."""
    nlp = load_pipeline(pipeline)
    layers = find_layers(nlp)
    list(nlp.pipe(texts))
    start = time.process_time()
    docs = list(nlp.pipe(texts))
    seconds = time.process_time() - start
    expected = {doc.text: describe(doc, layers) for doc in docs}
    return expected, round(1000 * seconds / len(texts), 1)


class Server(NamedTuple):
    """A running server."""

    address: str
    process: subprocess.Popen[str]

    def megabytes(self) -> float:
        """Its largest resident size until now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return round(int(line.split()[1]) / 1024, 1)

    def processor_time(self) -> float:
        """The processor time that it has used, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(pipeline: str, *options: str) -> Iterator[Server]:
    """Run a server within the context."""
    command = [sys.executable, "-m", "spacy", "biomed", "serve", pipeline, "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf8"
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if " at http" not in line:
            raise SystemExit(f"the server did not start: {' '.join(command)}")
        yield Server(line.split(" at ")[1].split()[0], process)
        if process.poll() is not None:
            raise SystemExit(f"the server ended with status {process.returncode}")
    finally:
        process.terminate()
        process.wait()


@dataclass
class Record:
    """What the clients have seen."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    different: int = 0
    lost: int = 0


async def load(
    address: str, expected: dict[str, Any], clients: int, seconds: float
) -> dict[str, Any]:
    """Send texts from several clients, and compare the answers."""
    record = Record()
    start = time.monotonic()
    end = start + seconds
    # Any number of connections.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits) as client:
        await asyncio.gather(
            *(run_client(client, expected, random.Random(n), end, record) for n in range(clients))
        )
    duration = time.monotonic() - start
    answered = sorted(record.times)
    return {
        "seconds": round(duration, 1),
        "sent": record.sent,
        "annotated per second": round(record.statuses[200] / duration, 1),
        "median ms": round(1000 * median(answered)),
        "95th percentile ms": round(1000 * quantiles(answered, n=20)[-1]),
        "statuses": dict(sorted(record.statuses.items())),
        "different from nlp.pipe": record.different,
        "lost": record.lost,
    }


async def run_client(
    client: httpx.AsyncClient,
    expected: dict[str, Any],
    rng: random.Random,
    end: float,
    record: Record,
) -> None:
    texts = list(expected)
    while time.monotonic() < end:
        text = rng.choice(texts)
        record.sent += 1
        began = time.monotonic()
        try:
            response = await client.post("/annotate", json={"text": text})
        except httpx.HTTPError:
            record.lost += 1
            continue
        record.statuses[response.status_code] += 1
        if response.status_code == 200:
            record.times.append(time.monotonic() - began)
            record.different += not is_equal(response.json(), expected[text])
        else:
            await asyncio.sleep(0.05)


def is_equal(one: Any, other: Any) -> bool:
    """Whether an answer has the same values, confidences to within the tolerance."""
    if isinstance(other, float) and isinstance(one, float | int):
        return abs(one - other) <= TOLERANCE
    if isinstance(other, dict):  # an answer says more
        return one.keys() >= other.keys() and all(is_equal(one[k], other[k]) for k in other)
    if isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return one == other


def check(report: dict[str, Any]) -> None:
    """End the program where an expectation is violated."""
    for name in ("load", "overload"):
        one = report[name]
        if one["lost"] or one["different from nlp.pipe"] or set(one["statuses"]) - {200, 429}:
            raise SystemExit(f"{name}: {json.dumps(one)}")


if __name__ == "__main__":
    main()
