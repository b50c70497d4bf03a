"""Load a server of `spacy biomed serve` on this machine, and send it what is malformed.

    python benchmarks/serving.py assets/pipelines/en_biomed_ner assets/starter_en/train.jsonl

Three parts, each with a server in a process of its own on a free port of the loopback address:

- load: `--clients` clients for `--seconds` seconds. Each sends a text, waits for the answer, and
  sends the next. Every answer is compared with what `nlp.pipe` finds: spans and labels, and
  confidences to a thousandth.
- overload: the same clients for a tenth of the time, with a queue of `--waiting` documents. Every
  request must be answered, by what `nlp.pipe` finds or by 429.
- malformed: `--malformed` requests drawn at random with a seed: broken JSON, wrong types, bodies
  that are too large, other paths and methods, and bytes that are no HTTP. Each must be answered by
  a status from 400 to 499 and one line.

The clients are on the same cores as the server, so that its own speed is higher. The output has
requests per second, the median and the 95th percentile of the time to an answer, statuses, the
largest resident size of the server, and its processor time for a text beside that of `nlp.pipe`,
which depends less on what else the machine does. A violated expectation ends the program with an
error. It runs on Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from spacy_biomed.bulk.findings import describe, find_layers
from spacy_biomed.outputs import replace_text
from spacy_biomed.pipeline import load_pipeline

# Seconds until an answer must be there; more than the server's own limit.
PATIENCE = 120.0
# Bytes of the largest bodies.
HUGE = 50_000_000
# How uvicorn answers what is no HTTP.
NO_HTTP = b"Invalid HTTP request received."
# Confidences may differ by batch in the last digits.
TOLERANCE = 1e-3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="installed package or pipeline directory")
    parser.add_argument("texts", type=Path, help="JSON lines with the field text")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--waiting", type=int, default=16)
    parser.add_argument("--malformed", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks/serving.json"))
    args = parser.parse_args()
    lines = args.texts.read_text(encoding="utf8").splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    expected, seconds = annotate(args.pipeline, texts)
    alone = round(1000 * seconds / len(texts), 1)
    report: dict[str, Any] = {
        "clients": args.clients,
        "nlp.pipe": {"texts": len(texts), "processor ms per text": alone},
    }
    with serving(args.pipeline) as server:
        before = server.processor_time()
        report["load"] = asyncio.run(load(server.address, expected, args.clients, args.seconds))
        used = server.processor_time() - before
        report["load"]["processor ms per text"] = round(
            1000 * used / report["load"]["statuses"][200], 1
        )
        report["load"]["megabytes"] = server.megabytes()
    with serving(args.pipeline, "--max-waiting", str(args.waiting)) as server:
        report["overload"] = asyncio.run(
            load(server.address, expected, args.clients, args.seconds / 10)
        )
    with serving(args.pipeline) as server:
        report["malformed"] = asyncio.run(
            send_malformed(server.address, args.malformed, args.seed, next(iter(expected.items())))
        )
        report["malformed"]["megabytes"] = server.megabytes()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    replace_text(args.output, json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))
    check(report)


def annotate(pipeline: str, texts: list[str]) -> tuple[dict[str, Any], float]:
    """What `nlp.pipe` finds in each text, and the processor time that it takes, in seconds."""
    nlp = load_pipeline(pipeline)
    layers = find_layers(nlp)
    list(nlp.pipe(texts))
    start = time.process_time()
    docs = list(nlp.pipe(texts))
    seconds = time.process_time() - start
    return {doc.text: describe(doc, layers) for doc in docs}, seconds


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
    async with connect(address) as client:
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


def connect(address: str) -> httpx.AsyncClient:
    """A client with any number of connections."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits)


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


def is_equal(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    """Whether an answer has the same values, confidences to within the tolerance."""
    return all(_is_equal(found.get(name), value) for name, value in expected.items())


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(other, float) and isinstance(one, float | int):
        return abs(one - other) <= TOLERANCE
    if isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_equal(one[k], other[k]) for k in other)
    if isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return one == other


class Malformed(NamedTuple):
    """A request that must be refused."""

    path: str = "/annotate"
    content: bytes = b""
    method: str = "POST"
    headers: dict[str, str] | None = None
    # Instead of all of these: the bytes to send.
    raw: bytes = b""


JSON = {"content-type": "application/json"}
PATHS = ("/annotate", "/annotate/batch", "/deidentify", "/deidentify/batch")
NO_TEXTS: tuple[Any, ...] = (None, -1, 0, 1.5, -1e300, True, [], {}, ["a"], {"text": "a"}, [[[]]])
WORDS = ("aspirin", "Ochoa", "\u00e9", "\U0001f642", "\x00", "\n", "\u202e", "a" * 500)


def write_text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randrange(1, 20)))


def write_good(path: str, text: str) -> dict[str, Any]:
    """A body that would be good for a path."""
    return {"documents": [{"text": text}]} if path.endswith("/batch") else {"text": text}


def encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def cut_json(rng: random.Random, path: str) -> Malformed:
    whole = encode(write_good(path, write_text(rng)))
    return Malformed(path, whole[: rng.randrange(len(whole))])


def spoil_json(rng: random.Random, path: str) -> Malformed:
    whole = encode(write_good(path, write_text(rng)))
    more = rng.choice([b"}", b"]", b",", b"1", b"\x00", b"\xff", whole])
    return Malformed(path, whole + more if rng.random() < 0.5 else more + whole)


def change_type(rng: random.Random, path: str) -> Malformed:
    wrong = rng.choice(NO_TEXTS)
    if not path.endswith("/batch"):
        body: Any = rng.choice([{"text": wrong}, {"text": "a", "id": wrong or 1}, [wrong]])
    else:
        one = [{"text": "a"}, {"text": wrong}]
        body = rng.choice([{"documents": wrong or 1}, {"documents": one}, {"documents": [[wrong]]}])
    return Malformed(path, encode(body))


def change_fields(rng: random.Random, path: str) -> Malformed:
    body = write_good(path, write_text(rng))
    body["other " + write_text(rng)] = rng.choice(NO_TEXTS)
    return Malformed(path, encode(rng.choice([body, {}, {"id": "a"}, {"documents": [{}]}])))


def send_no_object(rng: random.Random, path: str) -> Malformed:
    values = [*NO_TEXTS[:7], write_text(rng), [write_good(path, "a")]]
    return Malformed(path, encode(rng.choice(values)))


def nest(rng: random.Random, path: str) -> Malformed:
    depth = rng.choice([100, 1_000, 10_000, 500_000])
    inner = rng.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    return Malformed(path, rng.choice([inner, b'{"text": ' + inner + b"}"]))


def spoil_encoding(rng: random.Random, path: str) -> Malformed:
    bad = rng.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80"])
    whole = encode(write_good(path, "aspirin X"))
    return Malformed(path, whole.replace(b"X", bad * rng.randrange(1, 9)))


def halve_pairs(rng: random.Random, path: str) -> Malformed:
    half = rng.choice([b"\\ud83d", b"\\udc00", b"\\ud83d\\ud83d", b"\\udfff a"])
    return Malformed(path, encode(write_good(path, "aspirin X")).replace(b"X", half))


def send_numbers(rng: random.Random, path: str) -> Malformed:
    number = rng.choice([b"-", b"", b"1e", b"0x"]) + b"9" * rng.choice([1, 400, 5_000, 100_000])
    return Malformed(path, b'{"text": ' + number + b"}")


def send_noise(rng: random.Random, path: str) -> Malformed:
    return Malformed(path, rng.randbytes(rng.randrange(2_000)))


def send_too_much(rng: random.Random, path: str) -> Malformed:
    kind = rng.random()
    if kind < 0.5:
        return Malformed(path, encode(write_good(path, "a" * rng.randrange(100_001, 120_000))))
    if kind < 0.8:
        documents = [{"text": "a"}] * rng.randrange(1_001, 5_000)
        return Malformed("/annotate/batch", encode({"documents": documents}))
    if kind < 0.9:
        return Malformed("/annotate/batch", b'{"documents": [' + b"{}," * 1_000_000 + b"{}]}")
    size = HUGE if kind > 0.98 else rng.randrange(5_000_001, 6_000_000)
    return Malformed(path, b" " * size)


def change_content_type(rng: random.Random, path: str) -> Malformed:
    kinds = ["text/plain", "application/xml", "multipart/form-data; boundary=x", "x", "json", "/"]
    headers = {"content-type": rng.choice(kinds)}
    return Malformed(path, encode(write_good(path, "a")), headers=headers)


def change_target(rng: random.Random, path: str) -> Malformed:
    body = encode(write_good(path, "a"))
    other = rng.choice(["/Ochoa", f"{path}/", f"{path}/x", "/..%2f..%2fetc", "/%00", "/%ff"])
    if rng.random() < 0.5:
        return Malformed(other, body, rng.choice(["GET", "POST", "PUT"]))
    return Malformed(path, body, rng.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "OCHOA"]))


def change_headers(rng: random.Random, path: str) -> Malformed:
    other = rng.choice(
        [{"host": "example.org"}, {"host": ""}, {"host": "[::"}, {"host": "127.0.0.1.example.org"}]
        + [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}]
    )
    return Malformed(path, encode(write_good(path, "a")), headers={**JSON, **other})


def break_http(rng: random.Random, path: str) -> Malformed:
    start = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n".encode()
    return Malformed(
        raw=rng.choice(
            [
                rng.randbytes(50).replace(b"\n", b"") + b"\r\n\r\n",
                b"POST\r\n\r\n",
                f"POST {path} HTTP/1.1\r\n\r\n".encode(),  # no Host
                f"POST {path} HTTP/9.9\r\nHost: localhost\r\n\r\n".encode(),
                f"POST {path} a HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
                start + b"Content-Length: -5\r\n\r\n",
                start + b"Content-Length: x\r\n\r\n",
                start + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
                start + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
                start + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                start + b"Transfer-Encoding: gzip, x\r\n\r\n",
                start + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
                start + b"no colon\r\n\r\n",
                start + b"X: \x00\r\n\r\n",
            ]
        )
    )


KINDS: tuple[Callable[[random.Random, str], Malformed], ...] = (
    cut_json,
    spoil_json,
    change_type,
    change_fields,
    send_no_object,
    nest,
    spoil_encoding,
    halve_pairs,
    send_numbers,
    send_noise,
    send_too_much,
    change_content_type,
    change_target,
    change_headers,
    break_http,
)


def draw_malformed(number: int, seed: int) -> Malformed:
    """Draw a request by its number: each kind in turn, the rest at random."""
    rng = random.Random(f"{seed} {number}")
    return KINDS[number % len(KINDS)](rng, rng.choice(PATHS))


async def send_malformed(
    address: str, count: int, seed: int, good: tuple[str, dict[str, Any]]
) -> dict[str, Any]:
    """Send malformed requests, and a good one at the end."""
    statuses: Counter[int] = Counter()
    wrong: list[str] = []
    numbers = iter(range(count))

    async def send(client: httpx.AsyncClient) -> None:
        for number in numbers:
            status, is_line = await send_one(client, address, draw_malformed(number, seed))
            statuses[status] += 1
            if not (400 <= status < 500 and is_line):
                wrong.append(f"{KINDS[number % len(KINDS)].__name__} {number}: {status}")

    text, expected = good
    async with connect(address) as client:
        await asyncio.gather(*(send(client) for _ in range(8)))
        health = (await client.get("/health")).json()
        found = (await client.post("/annotate", json={"text": text})).json()
    return {
        "sent": count,
        "statuses": dict(sorted(statuses.items())),
        "without a status of 4xx and a line": wrong,
        "health after it": health["status"],
        "annotates after it": is_equal(found, expected),
    }


async def send_one(client: httpx.AsyncClient, address: str, request: Malformed) -> tuple[int, bool]:
    """Send a request.

    Returns:
        the status, 0 if there was no answer; whether the body is a line.
    """
    try:
        if request.raw:
            return await send_raw(address, request.raw)
        response = await client.request(
            request.method,
            request.path,
            content=request.content,
            headers=JSON if request.headers is None else request.headers,
        )
    except (httpx.HTTPError, OSError, asyncio.TimeoutError):
        return 0, False
    return response.status_code, is_error_line(response.text)


def is_error_line(body: str) -> bool:
    try:
        line = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError):
        return False
    return line.isprintable() and len(line) < 1_000


async def send_raw(address: str, content: bytes) -> tuple[int, bool]:
    """Send bytes on a connection of their own."""
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        writer.write(content)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        head, _, body = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1]) if head.startswith(b"HTTP/") else 0
        return status, NO_HTTP in body or is_error_line(body.decode())
    finally:
        writer.close()


def check(report: dict[str, Any]) -> None:
    """End the program where an expectation is violated."""
    load, overload, malformed = report["load"], report["overload"], report["malformed"]
    for name, one in (("load", load), ("overload", overload)):
        if one["lost"] or one["different from nlp.pipe"] or set(one["statuses"]) - {200, 429}:
            raise SystemExit(f"{name}: {json.dumps(one)}")
    if malformed["without a status of 4xx and a line"] or not malformed["annotates after it"]:
        raise SystemExit(f"malformed: {json.dumps(malformed)}")


if __name__ == "__main__":
    main()
