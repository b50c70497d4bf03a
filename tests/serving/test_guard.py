"""What every request passes: names of the host, the token, sizes, time, and what is logged."""

import asyncio
import json
import logging
import sys
import time

import pytest
from served_pipelines import STAYS, entered, released

from spacy_biomed.serving import ServerLimits, create_app
from spacy_biomed.serving.guard import HEADERS, Guard

LOCAL = ("localhost", "127.0.0.1", "::1")
BODY = {"text": "Ochoa took aspirin."}


def scope(path: str = "/annotate", **headers: str) -> dict:
    """The scope of a POST."""
    pairs = {"host": "localhost", "content-type": "application/json", **headers}
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 5),
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in pairs.items()],
    }


class Client:
    """A client of an application, for what no library sends.

    Args:
        chunks: of the body; an event instead of one is waited for.
        stays: whether it keeps the connection after the body.
    """

    def __init__(self, *chunks: bytes | asyncio.Event, stays: bool = True):
        self.chunks = list(chunks)
        self._stays = stays
        self.left = asyncio.Event()
        self.messages: list[dict] = []

    async def receive(self) -> dict:
        while self.chunks:
            chunk = self.chunks.pop(0)
            if isinstance(chunk, bytes):
                more = bool(self.chunks) or not self._stays
                return {"type": "http.request", "body": chunk, "more_body": more}
            await chunk.wait()
        if self._stays:
            await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int | None:
        return self.messages[0]["status"] if self.messages else None

    @property
    def line(self) -> str:
        return json.loads(self.messages[1]["body"])["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "is_taken"),
    [
        ("localhost", True),
        ("LOCALHOST:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("example.org", False),
        ("localhost.example.org", False),
        ("127.0.0.1.example.org:8000", False),
        ("localhost@example.org", False),
        ("example.org@localhost", False),
        ("localhost/example.org", False),
        ("[::", False),
        ("", False),
        ("127.0.0.1\\@example.org", False),
    ],
)
def test_only_the_servers_own_names_are_taken(post, host, is_taken):
    response = post("/annotate", BODY, hosts=LOCAL, headers={"host": host})
    assert response.status_code == (200 if is_taken else 421)
    assert is_taken or "--allow-host" in response.json()["error"]


def test_without_names_every_host_is_taken(post):
    assert post("/annotate", BODY, headers={"host": "example.org"}).status_code == 200


def test_the_page_too_is_for_the_servers_own_names_alone(ask):
    assert ask(lambda client: client.get("/"), hosts=LOCAL).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site", "x"])
def test_pages_of_other_sites_are_refused(post, site):
    response = post("/annotate", BODY, headers={"sec-fetch-site": site})
    assert response.status_code == 403


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_the_servers_own_page_is_not(post, site):
    assert post("/annotate", BODY, headers={"sec-fetch-site": site}).status_code == 200


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "sécret"]
)
def test_without_the_token_texts_are_refused(post, given):
    headers = {"authorization": given.encode("utf8")} if given else {}
    response = post("/annotate", BODY, token="secret", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "Bearer TOKEN" in response.json()["error"]


@pytest.mark.parametrize("given", ["Bearer secret", "bearer  secret "])
def test_with_the_token_they_are_taken(post, given):
    response = post("/annotate", BODY, token="secret", headers={"authorization": given})
    assert response.status_code == 200


def test_page_and_health_need_no_token(ask):
    for path in ("/", "/health"):
        assert ask(lambda client, path=path: client.get(path), token="x").status_code == 200


def test_every_answer_has_the_headers(ask):
    async def talk(client):
        return [await client.get(path) for path in ("/", "/health", "/none", "/page/script.js")]

    for response in ask(talk):
        assert {name: response.headers[name] for name in HEADERS} == HEADERS
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "http" not in policy


async def run(app, client: Client, **headers: str) -> Client:
    await asyncio.wait_for(app(scope(**headers), client.receive, client.send), 30)
    return client


async def until(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("headers", [{}, {"content_length": "150"}, {"content_length": "9" * 400}])
def test_a_body_that_is_too_large_is_refused_and_read_to_its_end(rules, headers):
    async def converse():
        app = create_app(rules, ServerLimits(max_body=100))
        return await run(app, Client(b"a" * 60, b"b" * 60, b"c" * 60), **headers)

    client = asyncio.run(converse())
    assert client.status == 413
    assert client.line == "the body is larger than 100 bytes; send less at a time"
    assert client.chunks == []


def test_a_client_that_asks_first_is_not_waited_for(rules):
    async def converse():
        app = create_app(rules, ServerLimits(max_body=100, timeout=20))
        return await run(app, Client(asyncio.Event()), content_length="101", expect="100-continue")

    assert asyncio.run(converse()).status == 413


def test_bodies_that_do_not_fit_into_memory_together_are_refused_until_others_are_answered(rules):
    text = b'{"text": "' + b"a" * 60 + b'"}'

    async def converse():
        app = create_app(rules, ServerLimits(max_body=100, max_held=100))
        rest = asyncio.Event()
        slow = Client(text[:50], rest, text[50:])
        first = asyncio.ensure_future(run(app, slow))
        await until(lambda: slow.chunks == [text[50:]])
        refused = await run(app, Client(text))
        rest.set()
        await first
        return slow, refused, await run(app, Client(text))

    slow, refused, last = asyncio.run(converse())
    assert (slow.status, refused.status, last.status) == (200, 429, 200)
    assert (b"retry-after", b"1") in refused.messages[0]["headers"]


def test_a_body_that_takes_too_long_is_refused(rules):
    async def converse():
        app = create_app(rules, ServerLimits(timeout=0.1))
        return await run(app, Client(b'{"text"', asyncio.Event(), b': "a"}'))

    client = asyncio.run(converse())
    assert client.status == 408
    assert client.line == "the body did not arrive in 0.1 s"


def test_a_text_that_takes_too_long_is_refused_and_others_are_not(ask, rules):
    if sys.gettrace() is not None and sys.version_info < (3, 12):
        pytest.skip("CPython 3.11 waits under a tracer until the other thread is interrupted")

    async def talk(client):
        stuck = await client.post("/annotate", json={"text": STAYS})
        for _ in range(200):  # it began a little after it was asked
            await asyncio.sleep(0.05)
            if (health := await client.get("/health")).status_code != 200:
                break
        released.set()
        return stuck, health, await client.post("/annotate", json=BODY)

    stuck, health, other = ask(talk, limits={"timeout": 1.5})
    assert stuck.status_code == 504
    assert stuck.json()["error"] == "not finished within 1.5 s; send less at a time"
    assert (health.status_code, health.json()["status"]) == (503, "stuck")
    assert other.status_code == 200


def test_a_full_queue_refuses_and_loses_nothing(ask):
    async def talk(client):
        requests = [
            asyncio.ensure_future(client.post("/annotate", json={"text": f"aspirin {STAYS}"}))
            for _ in range(20)
        ]
        await until(lambda: sum(request.done() for request in requests) >= 13)
        released.set()
        return await asyncio.gather(*requests)

    limits = {"max_waiting": 5, "max_documents": 5, "batch_documents": 2}
    responses = ask(talk, limits=limits)
    statuses = [response.status_code for response in responses]
    # The first batch has one document or two, and five wait.
    assert statuses.count(429) in (13, 14)
    assert statuses.count(200) == 20 - statuses.count(429)
    for response in responses:
        if response.status_code == 429:
            assert response.headers["retry-after"] == "1"
            assert "waiting" in response.json()["error"]
        else:
            assert len(response.json()["entities"]) == 1


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_client_that_leaves_frees_its_place(rules, is_waiting):
    async def health(app) -> dict:
        client = Client(b"")
        await app({**scope("/health"), "method": "GET"}, client.receive, client.send)
        return json.loads(client.messages[1]["body"])

    async def converse():
        app = create_app(rules, ServerLimits())
        clients = [Client(json.dumps({"text": STAYS}).encode()) for _ in range(1 + is_waiting)]
        requests = []
        for number, client in enumerate(clients):
            requests.append(asyncio.ensure_future(run(app, client)))
            await until(entered.is_set)
            while (await health(app))["waiting"] < number:
                await asyncio.sleep(0.01)
        clients[-1].left.set()
        await requests[-1]
        after = await health(app)
        released.set()
        await asyncio.gather(*requests)
        return after["waiting"], clients

    after, clients = asyncio.run(converse())
    assert after == 0
    assert clients[-1].messages == []
    assert [client.status for client in clients[:-1]] == [200] * is_waiting


def test_a_client_that_leaves_before_the_end_of_the_body_gets_nothing(rules, caplog):
    caplog.set_level(logging.INFO)

    async def converse():
        return await run(create_app(rules), Client(b'{"text"', stays=False))

    assert asyncio.run(converse()).messages == []
    assert "POST /annotate 499" in caplog.text


def test_an_application_that_fails_is_answered_and_logged_without_its_message(caplog):
    caplog.set_level(logging.DEBUG)

    async def fail(scope, receive, send):
        raise RuntimeError((await receive())["body"].decode())

    guard = Guard(fail, ServerLimits(), paths=["/annotate"])
    client = asyncio.run(run(guard, Client(b"Ochoa")))
    assert client.status == 500
    assert client.line == "the server failed; its log says where"
    assert "RuntimeError in test_guard.py:" in caplog.text
    assert "Ochoa" not in caplog.text


def test_the_log_has_methods_paths_and_statuses_and_nothing_of_what_was_sent(ask, caplog):
    caplog.set_level(logging.INFO, logger="spacy_biomed")
    requests = [
        ("POST", "/annotate?note=Ochoa"),
        ("POST", "/annotate/Ochoa"),
        ("OCHOA", "/annotate"),
        ("GET", "/health"),
    ]

    async def talk(client):
        for method, path in requests:
            await client.request(method, path, json=BODY, headers={"x-ochoa": "Ochoa"})

    ask(talk)
    lines = [record.getMessage() for record in caplog.records if "serving" in record.name]
    shown = [" ".join(line.split()[1:4]) for line in lines]
    assert shown == ["POST /annotate 200", "POST - 404", "- /annotate 405", "GET /health 200"]
    assert "ochoa" not in caplog.text.lower().replace("http request", "")
