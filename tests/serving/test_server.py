"""Servers in processes of their own: what they take, what they log, and how they end."""

import asyncio
import json
import signal
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import malformed_requests
import pytest
from commands import refuse
from running_server import running
from served_pipelines import BREAKS, STAY_VARIABLE, STAYS, create_rules, wait_until
from without_training import run_code

from spacy_biomed.errors import install_command
from spacy_biomed.formats.findings import describe, find_layers

REPOSITORY = Path(__file__).parents[2]
# Under load, a server takes its time.
HTTP = httpx.Client(timeout=60)
ONE_BY_ONE = ("--batch-size", "1")
TOKEN = "a token of the hospital"


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "rules"
    create_rules().to_disk(path)
    return path


@pytest.fixture(scope="module")
def server(directory, tmp_path_factory):
    with running(directory, tmp_path_factory.mktemp("log") / "log.txt") as server:
        yield server


@pytest.mark.slow
def test_it_listens_on_loopback_and_takes_its_own_names_alone(server):
    assert server.address.startswith("http://127.0.0.1:")
    for host, status in (("localhost:1", 200), ("example.org", 421)):
        answer = HTTP.get(f"{server.address}/health", headers={"host": host})
        assert answer.status_code == status


@pytest.mark.slow
def test_clients_at_the_same_time_get_what_nlp_pipe_gives(server):
    rules = create_rules()
    texts = [f"{n} aspirin, Ochoa. " * (n % 7) for n in range(100)]
    layers = find_layers(rules)
    expected = [{"id": "", **describe(doc, layers)} for doc in rules.pipe(texts)]

    async def ask():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=server.address, limits=limits, timeout=60) as client:
            return await asyncio.gather(
                *(client.post("/annotate", json={"text": text, "id": ""}) for text in texts)
            )

    assert [answer.json() for answer in asyncio.run(ask())] == json.loads(json.dumps(expected))


@pytest.mark.parametrize("has_length", [True, False])
def test_fifty_megabytes_are_refused_with_a_line(server, has_length):
    piece = b"a" * 1_000_000
    content = piece * 50 if has_length else (piece for _ in range(50))
    kind = {"content-type": "application/json"}
    answer = HTTP.post(f"{server.address}/annotate", content=content, headers=kind)
    assert answer.status_code == 413
    assert "5,000,000 bytes" in answer.json()["error"]


@pytest.mark.slow
def test_malformed_requests_are_answered_by_a_line_and_the_server_goes_on(server, monkeypatch):
    rules = create_rules()
    good = ("aspirin", describe(rules("aspirin"), find_layers(rules)))
    # Long ones are tried in the test above.
    monkeypatch.setattr(malformed_requests, "HUGE", 6_000_000)
    report = asyncio.run(malformed_requests.send_malformed(server.address, 150, 7, good))
    assert report["without a status of 4xx and a line"] == []
    assert sum(report["statuses"].values()) == 150
    assert (report["health after it"], report["annotates after it"]) == ("ok", True)


def test_the_log_has_no_text_and_no_path_that_is_not_the_servers_own(server):
    texts = ["Ochoa took aspirin.", f"Ochoa {BREAKS}"]
    for text in texts:
        for path in ("/annotate", "/annotate?q=Ochoa", "/deidentify", "/Ochoa"):
            HTTP.post(f"{server.address}{path}", json={"text": text, "id": "Ochoa"})
    log = server.log.read_text(encoding="utf8")
    assert "POST /annotate 200" in log
    assert "POST /annotate 422" in log
    assert "POST - 404" in log
    assert not [word for word in ("Ochoa", BREAKS, "aspirin", "Traceback") if word in log]


def count_waiting(server) -> int:
    return HTTP.get(f"{server.address}/health").json()["waiting"]


@pytest.mark.slow
def test_a_client_that_closes_its_connection_leaves_the_queue(directory, tmp_path):
    with running(directory, tmp_path / "log", *ONE_BY_ONE, **{STAY_VARIABLE: "60"}) as server:
        place = urlsplit(server.address)
        body = json.dumps({"documents": [{"text": STAYS}] * 3})
        request = (
            "POST /annotate/batch HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(request.encode())
            wait_until(lambda: count_waiting(server) == 2)
        wait_until(lambda: count_waiting(server) == 0)


@pytest.mark.slow
def test_the_end_of_a_server_waits_for_what_has_begun(directory, tmp_path):
    with running(directory, tmp_path / "log", *ONE_BY_ONE, **{STAY_VARIABLE: "2"}) as server:
        answers = []

        def ask() -> None:
            answer = httpx.post(f"{server.address}/annotate", json={"text": STAYS}, timeout=60)
            answers.append(answer.status_code)

        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        wait_until(lambda: count_waiting(server) == 1)
        server.process.send_signal(signal.SIGTERM)
        for thread in asking:
            thread.join(timeout=60)
        assert answers == [200, 200]
        assert server.process.wait(timeout=60) == -signal.SIGTERM
        with pytest.raises(httpx.ConnectError):
            HTTP.get(f"{server.address}/health")


@pytest.mark.slow
def test_a_component_that_never_returns_neither_holds_requests_nor_the_end(directory, tmp_path):
    options = ("--timeout", "0.5")
    with running(directory, tmp_path / "log", *options, **{STAY_VARIABLE: "600"}) as server:
        for text, status in ((STAYS, 504), ("aspirin", 429)):
            answer = HTTP.post(f"{server.address}/annotate", json={"text": text})
            assert answer.status_code == status
        assert HTTP.get(f"{server.address}/health").status_code == 503
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_token_of_a_file_is_needed_for_texts(directory, tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    options = ("--token-file", str(tmp_path / "token"), "--host", "0.0.0.0")
    with running(directory, tmp_path / "log", *options) as server:
        address = server.address.replace("0.0.0.0", "127.0.0.1")
        for given, status in (("another", 401), (TOKEN, 200)):
            headers = {"authorization": f"Bearer {given}"}
            answer = HTTP.post(f"{address}/annotate", json={"text": "a"}, headers=headers)
            assert answer.status_code == status
        assert 'id="token"' in HTTP.get(f"{address}/").text
        assert TOKEN not in server.log.read_text(encoding="utf8")


def test_a_port_in_use_and_other_addresses_are_a_line(server, directory):
    port = urlsplit(server.address).port
    assert f"127.0.0.1, port {port}: " in refuse("serve", directory, "--port", port)
    assert "192.0.2.1, port 8000: " in refuse("serve", directory, "--host", "192.0.2.1")
    assert "'example.org': no IP address" in refuse("serve", directory, "--host", "example.org")


def test_a_short_or_strange_token_is_a_line(directory, tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_text("short")
    assert "at least 16 printable ASCII" in refuse("serve", directory, "--token-file", path)
    path.write_bytes(b"\xff" * 20)
    assert "the token cannot be read (not UTF-8)" in refuse(
        "serve", directory, "--token-file", path
    )
    monkeypatch.setenv("SPACY_BIOMED_TOKEN", "also short")
    assert "SPACY_BIOMED_TOKEN: the token must have" in refuse("serve", directory)


def test_without_the_extra_the_command_says_how_to_install_it(directory, monkeypatch):
    code = "import sys, spacy_biomed.serving.server; assert 'starlette' not in sys.modules"
    run_code(code)
    monkeypatch.setattr("spacy_biomed.serving.server.find_spec", lambda name: None)
    assert install_command("serve") in refuse("serve", directory)
