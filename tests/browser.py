"""A headless Chromium, driven through its DevTools protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
# Seconds.
PATIENCE = 60


class Page:
    """A page of the browser.

    Attributes:
        events: what the browser has told, by method: `Network.requestWillBeSent` and others.
    """

    def __init__(self, connection: ClientConnection):
        self._connection = connection
        self._number = 0
        self.events: list[dict[str, Any]] = []
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command of the protocol, and return its result."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        self._connection.send(json.dumps(command))
        while True:
            message = json.loads(self._connection.recv(timeout=PATIENCE))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; of a promise, what it becomes."""
        result = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, address: str) -> None:
        """Go to an address and wait until the page is loaded."""
        result = self.ask("Page.navigate", url=address)
        assert not result.get("errorText"), result
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def wait_for(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.05)

    def wait_for_file(self, path: Path) -> None:
        """Wait until a file is downloaded."""
        end = time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < end, f"never there: {path}"
            time.sleep(0.05)

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press and release a key; modifier 2 is Ctrl, 8 is Shift."""
        code = {"Enter": 13, "Tab": 9, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code="Space" if key == " " else key,
                windowsVirtualKeyCode=code,
                modifiers=modifiers,
                text=text if kind == "keyDown" else "",
            )

    def type(self, text: str) -> None:
        """Insert a text where the cursor is."""
        self.ask("Input.insertText", text=text)

    def take_picture(self, path: Path) -> None:
        """Write a picture of the whole page, a PNG."""
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(picture))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """Run a browser within the context.

    Args:
        profile: new folder for what it stores.
    """
    assert CHROMIUM is not None
    flags = [*FLAGS, f"--user-data-dir={profile}", "--window-size=1000,900"]
    process = subprocess.Popen(
        [CHROMIUM, *flags, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with connect(_find_page(profile, process), max_size=None, compression=None) as connection:
            yield Page(connection)
            connection.send(json.dumps({"id": 0, "method": "Browser.close"}))
        process.wait(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()


def _find_page(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """The address of the first page in the protocol."""
    from urllib.request import urlopen

    told = profile / "DevToolsActivePort"
    end = time.monotonic() + PATIENCE
    while not (told.exists() and told.read_text().count("\n")):
        assert process.poll() is None and time.monotonic() < end, "the browser did not start"
        time.sleep(0.05)
    port = told.read_text().split()[0]
    with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE) as answer:
        pages = [one for one in json.load(answer) if one["type"] == "page"]
    return pages[0]["webSocketDebuggerUrl"]
