"""Run commands in forked processes, with an error or a kill at a chosen system call.

Everything is imported before the fork, so that a run takes little more time than its work.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import random
import re
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from spacy.cli import setup_cli

# Temporary names of outputs.
TEMPORARY = re.compile(r"\.[^/]*\.([0-9a-f]{8}\.(partial|old)|lock)(/|$)")

Snapshot = dict[str, bytes | None]
Tried = TypeVar("Tried")


def is_campaign() -> bool:
    """Whether all is to be tried: SPACY_BIOMED_CAMPAIGNS=1 in the environment."""
    return bool(os.environ.get("SPACY_BIOMED_CAMPAIGNS"))


def choose_tries(tries: Sequence[Tried], seed: str, fewest: int = 1) -> list[Tried]:
    """A tenth of many tries, in their order, and the last one; all of a campaign."""
    if is_campaign():
        return list(tries)
    most = min(max(len(tries) // 10, fewest), len(tries))
    last = len(tries) - 1
    return [tries[n] for n in sorted([*random.Random(seed).sample(range(last), most - 1), last])]


def snapshot(folder: Path) -> Snapshot:
    """The content of all files below a folder, by path; None for folders."""
    found: Snapshot = {}
    for place, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(place, name), folder)] = None
        for name in files:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def without_temporary(found: Snapshot) -> Snapshot:
    return {name: content for name, content in found.items() if not TEMPORARY.search(name)}


def temporary(found: Snapshot) -> list[str]:
    """The outermost temporary names left in a snapshot."""
    return sorted(
        {
            name[: match.end()].rstrip("/")
            for name in found
            for match in [TEMPORARY.search(name)]
            if match
        }
    )


def below(found: Snapshot, name: str) -> Snapshot:
    """The part of a snapshot at and below a name."""
    return {
        path: content
        for path, content in found.items()
        if path == name or path.startswith(f"{name}/")
    }


@dataclass
class Fault:
    """A fault to inject.

    Attributes:
        at: index of the call, among the calls that change something below the folder; None for no
            call.
        error: error number of the failure; with 0 the process is killed instead.
        file_size: maximum size of files; with the error 0 the process is killed at the write.
        hold: descriptors of a pipe to report that the call is reached, and of a pipe to wait for
            permission to continue.
    """

    at: int | None = None
    error: int = 0
    file_size: int | None = None
    hold: tuple[int, int] | None = None


@dataclass
class Outcome:
    """The result of a command.

    Attributes:
        status: exit status; negative for the signal that killed it.
        lines: output to standard error.
        calls: the calls that changed something below the folder.
    """

    status: int
    lines: list[str]
    calls: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([f"status {self.status} after {self.calls[-3:]}", *self.lines])


@dataclass
class Running:
    process: int
    errors: int
    calls: int

    def wait(self) -> Outcome:
        calls = _read_all(self.calls).splitlines()
        lines = _read_all(self.errors).splitlines()
        _, status = os.waitpid(self.process, 0)
        return Outcome(os.waitstatus_to_exitcode(status), lines, calls)


def run(*arguments: Any, **options: Any) -> Outcome:
    """Start a command, with the arguments of `start`, and wait for its end."""
    return start(*arguments, **options).wait()


def start(
    arguments: list[str],
    folder: Path,
    fault: Fault | None = None,
    prepare: Callable[[], Any] = lambda: None,
) -> Running:
    """Start `spacy biomed ...` in a folder.

    Args:
        prepare: called in the new process before the command.
    """
    read_errors, write_errors = os.pipe()
    read_calls, write_calls = os.pipe()
    process = os.fork()
    if process:
        os.close(write_errors)
        os.close(write_calls)
        return Running(process, read_errors, read_calls)
    gc.freeze()  # what is here stays, and need not be looked through again
    try:
        os.chdir(folder)
        prepare()
        _redirect(write_errors)
        _inject(fault or Fault(), folder.resolve(), write_calls)
        status = call(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        status = 99
    os._exit(status)


def call(arguments: list[str], command: Callable[[], object] = setup_cli) -> int:
    """Run `spacy biomed ...` in this process; return its exit status."""
    sys.argv = ["spacy", "biomed", *arguments]
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _redirect(errors: int) -> None:
    logging.raiseExceptions = False  # some handlers still use the earlier streams
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(errors, 2)
    sys.stdout = os.fdopen(1, "w", encoding="utf8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf8", closefd=False)


def _inject(fault: Fault, folder: Path, calls: int) -> None:
    count = 0
    root = f"{folder}/"

    def reach(name: str, path: str, given: Any) -> None:
        nonlocal count
        if not path.startswith(root):
            return
        os.write(calls, f"{name} {path[len(root) :]}\n".encode())
        number, count = count, count + 1
        if number != fault.at:
            return
        if fault.hold is not None:
            os.write(fault.hold[0], b"x")
            os.read(fault.hold[1], 1)
        elif fault.error:
            raise OSError(
                fault.error, os.strerror(fault.error), *([] if given is None else [given])
            )
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(event: str, arguments: tuple) -> None:
        if event in _CALLS or (event == "open" and _writes(arguments)):
            given = arguments[0]
            if isinstance(given, int):
                return
            at = arguments[_CALLS[event]] if event in _CALLS else -1
            reach(event, _absolute(given, at), given)

    fsync = os.fsync

    def watched_fsync(descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        reach("fsync", os.readlink(f"/proc/self/fd/{number}"), None)
        fsync(descriptor)

    os.fsync = watched_fsync
    sys.addaudithook(watch)
    if fault.file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.file_size, fault.file_size))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN if fault.error else signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# Audit events of calls that change names, and the index of their argument with the folder.
_CALLS = {"os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.link": 2}


def _writes(arguments: tuple) -> bool:
    flags = arguments[2]
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))


def _absolute(path: Any, folder: int) -> str:
    path = os.fsdecode(path)
    if folder >= 0:
        path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
    return os.path.normpath(os.path.join(os.getcwd(), path))


def _read_all(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        return file.read().decode("utf8", "replace")


# --- Mounts ---


def in_mount_namespace(work: Callable[[], Any]) -> str | None:
    """Call a function in a process with a separate mount namespace.

    Returns:
        None if it succeeded, "" if mounting is not permitted, else the error.
    """
    read, write = os.pipe()
    process = os.fork()
    if not process:
        status = 1
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(0x00020000):  # CLONE_NEWNS
                os._exit(2)
            if libc.mount(None, b"/", None, 0x4000 | 0x40000, None):  # MS_REC | MS_PRIVATE
                os._exit(2)
            work()
            status = 0
        except BaseException:
            os.write(write, traceback.format_exc()[-4000:].encode())
        os._exit(status)
    os.close(write)
    message = _read_all(read)
    _, status = os.waitpid(process, 0)
    return {0: None, 2: ""}.get(os.waitstatus_to_exitcode(status), message or "it was killed")


def mount(name: str, target: Path, options: str) -> None:
    """Mount a tmpfs.

    Raises:
        OSError: if it cannot be mounted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(name.encode(), bytes(target), b"tmpfs", 0, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))
