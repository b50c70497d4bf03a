"""The terminal in which CI runs the README's commands."""

import sys

import pytest

pytest.importorskip("pty", reason="Windows has no pseudo-terminals")

from in_terminal import run_in_terminal


def run(code: str) -> tuple[int, str]:
    printed: list[bytes] = []
    status = run_in_terminal([sys.executable, "-c", code], printed.append)
    return status, b"".join(printed).decode()


def test_a_command_sees_a_terminal_with_a_size(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code = "import os, sys; print(os.get_terminal_size(), [f.isatty() for f in FILES])"
    status, printed = run(code.replace("FILES", "(sys.stdin, sys.stdout, sys.stderr)"))
    assert (status, printed.split("terminal_size")[1].strip()) == (
        0,
        "(columns=80, lines=24) [True, True, True]",
    )


def test_the_exit_status_is_that_of_the_command():
    assert run("raise SystemExit(3)") == (3, "")
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGTERM)") == (-15, "")
