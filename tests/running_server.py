"""`spacy biomed serve` in a process of its own, on a free port."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# The pipelines of tests have a component of `served_pipelines`.
_PROGRAM = (
    "import served_pipelines; served_pipelines.register_component(); "
    "from spacy_biomed.cli import app; app()"
)


@dataclass
class RunningServer:
    """A server.

    Attributes:
        address: `http://127.0.0.1:` and the port.
        process: its process.
        log: file with what it has written to standard error.
    """

    address: str
    process: subprocess.Popen[str]
    log: Path


@contextmanager
def running(
    pipeline: Path, log: Path, *options: str, **environment: str
) -> Iterator[RunningServer]:
    """Run a server within the context.

    Args:
        pipeline: directory.
        log: file to write what it writes to standard error.
        options: of the command.
        environment: further environment variables.
    """
    command = [sys.executable, "-c", _PROGRAM, "serve", str(pipeline), "--port", "0", *options]
    own = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONIOENCODING": "utf8"}
    with log.open("w", encoding="utf8") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf8",
            env={**os.environ, **own, **environment},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http" in line, log.read_text(encoding="utf8")
        yield RunningServer(line.split(" at ")[1].split()[0], process, log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
