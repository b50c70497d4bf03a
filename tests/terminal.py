"""Run a command in a pseudo-terminal of 80 x 24, in which it shows its progress."""

from __future__ import annotations

import os
import re
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from forked_commands import ForkedCommand

COLUMNS, LINES = 80, 24
INTERRUPT = b"\x03"  # Ctrl-C

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Shown(NamedTuple):
    """What a command printed, without the terminal's escape sequences, and its exit status."""

    text: str
    status: int


def run_in_terminal(
    *arguments: str | Path, cwd: Path | None = None, interrupt_after: str | None = None
) -> Shown:
    """Run `python -m spacy` with arguments in a terminal.

    Args:
        interrupt_after: text after which Ctrl-C is pressed, once.
    """
    import fcntl
    import pty
    import termios

    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = ForkedCommand(
        [sys.executable, "-m", "spacy", *map(str, arguments)],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm"},
        has_terminal=True,
    )
    os.close(its)
    shown = b""
    while part := _read(ours):
        shown += part
        if interrupt_after is not None and interrupt_after.encode() in shown:
            os.write(ours, INTERRUPT)
            interrupt_after = None
    os.close(ours)
    return Shown(_ESCAPES.sub("", shown.decode("utf8")), process.wait())


def _read(terminal: int) -> bytes:
    """What is printed next; nothing once the last process has closed the terminal."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""
