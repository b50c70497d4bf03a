"""A stand-in of the Hugging Face Hub on this machine: as much of its HTTP interface as is used."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class StandIn(ThreadingHTTPServer):
    """One repository, whose only commit is `COMMIT`.

    Attributes:
        files: content by name.
        private: whether the repository is private; None if there is none.
        requests: method and path of each request.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.private: bool | None = None
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def answer(self, path: str, body: bytes) -> dict:
        """What the hub answers a POST, or a GET of its interface for programs."""
        if path == "/api/repos/create":
            if self.private is None:
                self.private = bool(json.loads(body).get("private"))
            return {"url": f"{self.url}/me/tiny"}
        if "/preupload/" in path:
            names = [file["path"] for file in json.loads(body)["files"]]
            kept = {"uploadMode": "regular", "shouldIgnore": False}
            return {"files": [{"path": name, **kept} for name in names]}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    value = line["value"]
                    self.files[value["path"]] = base64.b64decode(value["content"])
            return {"commitUrl": f"{self.url}/me/tiny/commit/{COMMIT}", "commitOid": COMMIT}
        return {"id": "me/tiny", "private": self.private, "errors": [], "warnings": []}


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        begin = f"/me/tiny/resolve/{COMMIT}/"
        if not self.path.startswith(begin):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._send(json.dumps(self.server.answer(self.path, body)).encode())
        elif (content := self.server.files.get(self.path.removeprefix(begin))) is not None:
            self._send(content, ETag='"0"', **{"X-Repo-Commit": COMMIT})
        else:
            self._send(b"", 404, **{"X-Error-Code": "EntryNotFound"})

    do_HEAD = do_POST = do_GET

    def _send(self, content: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def running() -> Iterator[StandIn]:
    """The stand-in, answering within the context."""
    with StandIn() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
