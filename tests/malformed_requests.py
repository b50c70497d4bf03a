"""Malformed requests of many kinds, drawn by number, for the server to refuse."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

# Seconds until an answer must be there; more than the server's own limit.
PATIENCE = 120.0
# Bytes of the largest bodies.
HUGE = 50_000_000
# How uvicorn answers what is not HTTP.
NO_HTTP = b"Invalid HTTP request received."


def connect(address: str) -> httpx.AsyncClient:
    """A client with any number of connections."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits)


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
        "statuses": dict(sorted(statuses.items())),
        "without a status of 4xx and a line": wrong,
        "health after it": health["status"],
        "annotates after it": {key: found[key] for key in expected} == expected,
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
    except (httpx.HTTPError, OSError, EOFError, asyncio.TimeoutError):
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
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        # A connection without a length is closed; one with a length stays open for a minute.
        body = await reader.readexactly(int(length[1])) if length else await reader.read()
        status = int(head.split()[1]) if head.startswith(b"HTTP/") else 0
        return status, NO_HTTP in body or is_error_line(body.decode())
    finally:
        writer.close()
