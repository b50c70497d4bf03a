"""Start `python -m MODULE ...` as a fork of a server that has imported everything.

A new process takes seconds to import PyTorch and transformers. The server has computed nothing, as
PyTorch requires of a process whose forks train. Forks start their own workers in the same way.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

# The environment variable with the place of the server's socket.
_PLACE = "SPACY_BIOMED_FORK_SERVER"


class ForkedCommand:
    """What `subprocess.Popen` is for [sys.executable, "-m", MODULE, *arguments].

    Args:
        has_terminal: whether `stdin` is a terminal, which the process is to control.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdin: int | IO | None = None,
        stdout: int | IO | None = None,
        stderr: int | IO | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        has_terminal: bool = False,
    ):
        self.returncode: int | None = None
        with contextlib.ExitStack() as others:
            files = []
            for number, (name, given) in enumerate(
                {"stdin": stdin, "stdout": stdout, "stderr": stderr}.items()
            ):
                ours = None
                if given == subprocess.PIPE:
                    ends = os.pipe()
                    theirs = ends[number > 0]
                    ours = os.fdopen(ends[number == 0], "rb" if number else "wb")
                    others.callback(os.close, theirs)
                elif given == subprocess.DEVNULL:
                    theirs = others.enter_context(open(os.devnull, "r+b")).fileno()
                else:
                    theirs = number if given is None else given
                    theirs = theirs if isinstance(theirs, int) else theirs.fileno()
                setattr(self, name, ours)
                files.append(theirs)
            message = {
                "arguments": [*map(str, command[2:])],
                "folder": str(cwd or os.getcwd()),
                "environment": dict(os.environ if env is None else env),
                "has_terminal": has_terminal,
            }
            self._server = socket.socket(socket.AF_UNIX)
            self._server.connect(find_server())
            socket.send_fds(self._server, [b"x"], files)
            self._server.sendall(f"{json.dumps(message)}\n".encode())
        self.pid = int(_read_line(self._server))

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit status."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = int(_read_line(self._server))
            self._server.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit status, or None if the process is running."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def kill(self) -> None:
        """End the process at once, also while another thread waits for it."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def start_command(command: Sequence[str], **options: Any) -> Any:
    """Start a command: a module in a fork, if there are forks; else as `subprocess` does."""
    is_module = list(command[:2]) == [sys.executable, "-m"] and hasattr(os, "fork")
    return (ForkedCommand if is_module else subprocess.Popen)(command, **options)


def run_command(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run(command, capture_output=True, encoding="utf8")` returns."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = start_command(command, stdout=output, stderr=errors, **options).wait()
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(
            command, status, output.read().decode(), errors.read().decode()
        )


def fork_workers() -> None:
    """Let `spacy_biomed.workers` start its processes as forks."""
    from spacy_biomed.workers import process

    names = {name: getattr(subprocess, name) for name in ("PIPE", "TimeoutExpired")}
    process.subprocess = SimpleNamespace(Popen=start_command, **names)  # type: ignore[assignment]


def save_time() -> None:
    """Make commands and find encoders of msgpack once; flush nothing to the disk."""
    import typer.testing
    from spacy.cli import _util
    from srsly.msgpack import msgpack_encoders

    import spacy_biomed.encoders.batching.encoded  # noqa: F401  # registers an encoder

    for owner, name in (
        (typer.testing, "_get_command"),
        (_util, "get_command"),
        (msgpack_encoders, "get_all"),
    ):
        setattr(owner, name, cache(getattr(owner, name)))
    _util.registry.cli.get_all()
    os.fsync = lambda descriptor: None


@cache
def find_server() -> str:
    """The place of the server's socket, after starting the server if there is none."""
    if _PLACE in os.environ:
        return os.environ[_PLACE]
    folder = tempfile.mkdtemp()  # which no process but this one deletes
    place = os.environ[_PLACE] = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            stdin=subprocess.PIPE,  # which is closed when this process ends, by whatever
            pass_fds=[listener.fileno()],
        )
    atexit.register(shutil.rmtree, folder)
    atexit.register(server.communicate)
    return place


def serve(listener: socket.socket) -> None:
    """Fork for each connection; return in the forks, with nothing left to do, and at the end."""
    import spacy.cli
    from transformers import AutoModel, AutoTokenizer, BertModel, DistilBertModel  # noqa: F401

    import spacy_biomed

    for module in pkgutil.walk_packages(spacy_biomed.__path__, "spacy_biomed."):
        importlib.import_module(module.name)
    fork_workers()
    save_time()
    spacy.cli._util.get_command(spacy.cli.app)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch
    while True:
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            return
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            return _watch(connection)
        connection.close()


def _watch(connection: socket.socket) -> None:
    """Start what is asked for, and send its process id and its exit status."""
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    message = _read_line(connection)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not (process := os.fork()):
        connection.close()
        return _run(files, **json.loads(message))
    for file in files:
        os.close(file)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(f"{process}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        connection.sendall(f"{status}\n".encode())
    os._exit(0)


def _read_line(connection: socket.socket) -> str:
    """A line, and nothing of the next."""
    line = b""
    while not line.endswith(b"\n"):
        if not (character := connection.recv(1)):
            raise ConnectionError("the server of forks has ended")
        line += character
    return line.decode()


def _run(
    files: Sequence[int],
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    has_terminal: bool,
) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if has_terminal:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        # Background jobs of shells ignore Ctrl-C, and so do the processes that they start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = os.fdopen(0, encoding="utf8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf8", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    others = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [folder, *filter(None, others)]
    tempfile.tempdir = None
    module, *sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    # Under its own name too, for the forks.
    sys.modules["forked_commands"] = sys.modules["__main__"]
    serve(socket.socket(fileno=int(sys.argv[1])))
