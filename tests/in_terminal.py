"""Run a command in a terminal of 80 columns and 24 rows: python tests/in_terminal.py COMMAND ...

Programs draw bars and tables there, which they leave out where their output is a file, or a
terminal that gives no size.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence

COLUMNS, ROWS = 80, 24


def run_in_terminal(command: Sequence[str], write: Callable[[bytes], object]) -> int:
    """Run a command, and pass on what it prints.

    Returns:
        its exit status; the negative number of the signal that ended it.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {"TERM": "xterm-256color", **os.environ}
    for name in ("COLUMNS", "LINES"):  # which go before the size of the terminal
        environment.pop(name, None)
    running = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        while printed := os.read(ours, 4096):
            write(printed)
    except OSError:  # Linux's end of a terminal that nothing has open
        pass
    os.close(ours)
    return running.wait()


if __name__ == "__main__":
    status = run_in_terminal(sys.argv[1:], lambda printed: os.write(sys.stdout.fileno(), printed))
    sys.exit(status if status >= 0 else 128 - status)
