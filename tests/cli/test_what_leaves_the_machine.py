"""Training, compressing, annotating, de-identifying under `strace`: no network, no stray file."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

SYSTEM_CALLS = (
    "bind,connect,sendto,sendmsg,sendmmsg,open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,"
    "link,linkat,symlink,symlinkat,rename,renameat,renameat2,truncate"
)
WORK = """
import sys

import spacy
from spacy.cli import setup_cli

def run(*arguments):
    sys.argv = ["spacy", "biomed", *arguments]
    try:
        setup_cli()
    except SystemExit as end:
        assert not end.code, arguments

config, notes = sys.argv[1:]
run("train", config, "--output", "trained")
run("compress", "trained/model-best", "compressed", "--precision", "int8", "--max-loss", "100")
run("annotate", "compressed", "Aspirin reduced the risk of stroke.")
run("annotate", "compressed", notes, "annotated", "--n-process", "2", "--shard-size", "1")
nlp = spacy.load("compressed")
nlp.remove_pipe("biomed_ner")
nlp.add_pipe("entity_ruler").add_patterns([{"label": "NOMBRE", "pattern": "Ochoa"}])
nlp.to_disk("finder")
run("deidentify", "finder", notes, "clean.txt", "--mode", "tags")
"""
RAY_WORK = """
import sys

import spacy
from spacy.cli import setup_cli

spacy.blank("en").to_disk("blank")
options = ["--engine", "ray", "--n-process", "1"]
sys.argv = ["spacy", "biomed", "annotate", "blank", sys.argv[1], "annotated", *options]
setup_cli()
"""
# Settings of the person who runs the tests that would keep programs quiet.
QUIETING = (
    "ORT_",
    "HF_",
    "RAY_",
    "TRANSFORMERS_",
    "XDG_",
    "DO_NOT_TRACK",
    "DISABLE_TELEMETRY",
    "TMP",
)


@pytest.fixture(scope="module")
def traced(tiny_config, tmp_path_factory):
    """What the work above did: the folder it ran in, and the lines of `strace`."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "notes.txt").write_text("Ochoa took aspirin.\n" * 2, encoding="utf8")
    lines = run_traced(folder, WORK, tiny_config, folder / "notes.txt")
    assert (folder / "work/clean.txt").read_text(encoding="utf8") == "[NOMBRE] took aspirin.\n" * 2
    return folder, lines


def run_traced(folder: Path, code: str, *arguments: Path | str) -> list[str]:
    """Run Python code in `work` under a folder; return the lines of `strace`."""
    for name in ("home", "temporary", "work"):
        (folder / name).mkdir()
    lines = folder / "strace.txt"
    trace = ["strace", "-f", "-y", "-qq", "--seccomp-bpf", "-e", f"trace={SYSTEM_CALLS}"]
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    if subprocess.run([*trace, "-o", lines, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not permitted here, or too old for --seccomp-bpf")
    own = {k: v for k, v in os.environ.items() if not k.upper().startswith(QUIETING)}
    done = subprocess.run(
        [*trace, "-o", lines, sys.executable, "-c", code, *arguments],
        cwd=folder / "work",
        env={
            **own,
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "temporary"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONIOENCODING": "utf8",
        },
        capture_output=True,
        text=True,
        encoding="utf8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return lines.read_text(encoding="utf8", errors="replace").splitlines()


def test_nothing_is_sent_to_another_machine(traced):
    _, lines = traced
    assert list_remote(lines) == []


def list_remote(lines: list[str]) -> list[str]:
    """The lines of `strace` with an address that is not of this machine."""
    addresses = [line for line in lines if re.search(r"sa_family=AF_INET|systemd\.Resolve", line)]
    # A resolver on this machine would ask others: port 53 is never local.
    local = re.compile(r'htons\((?!53\))\d+\).*(inet_addr\("127\.|"::1"|"::ffff:127\.)')
    return [line for line in addresses if not local.search(line)]


def test_files_are_written_to_the_output_and_the_temporary_directory_alone(traced):
    folder, lines = traced
    work = folder / "work"
    written = [work / path for line in lines if (path := written_path(line)) is not None]
    assert work / "trained" in written
    assert work / "annotated/_manifest.json" in written
    assert list_stray(written, folder) == []


def list_stray(written: list[Path], folder: Path) -> list[Path]:
    """The paths that are neither in the working folder nor in the temporary one."""
    allowed = (folder / "work", folder / "temporary", Path("/dev"), Path("/proc"))
    return [path for path in written if not any(map(path.is_relative_to, allowed))]


def test_the_home_directory_stays_as_it_was(traced):
    folder, _ = traced
    assert list((folder / "home").rglob("*")) == []


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install ray")
def test_ray_on_this_machine_listens_and_writes_to_this_machine_alone():
    # Ray's sockets have to be in a folder with a short name.
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as short:
        folder = Path(short)
        (folder / "notes.txt").write_text("Ochoa took aspirin.\n" * 2, encoding="utf8")
        lines = run_traced(folder, RAY_WORK, folder / "notes.txt")
        written = [folder / "work" / path for line in lines if (path := written_path(line))]
        assert folder / "work/annotated/_manifest.json" in written
        assert any(path.is_relative_to(folder / "temporary") for path in written)
        assert list_remote(lines) == []
        assert list_stray(written, folder) == []
        assert list((folder / "home").rglob("*")) == []
        assert list((folder / "temporary").glob("ray-*")) == []
    assert any("bind(" in line and "::ffff:127." in line for line in lines)


@pytest.mark.parametrize(("own", "value"), [({}, "1"), ({"ORT_DISABLE_TELEMETRY": "0"}, "0")])
def test_a_setting_of_ones_own_stays(own, value):
    code = "import os, spacy_biomed; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    others = {k: v for k, v in os.environ.items() if not k.startswith(QUIETING)}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**others, **own}, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == value


def written_path(line: str) -> Path | None:
    """The file or folder that a system call made or opened for writing; None if it did neither.

    >>> written_path('7 openat(AT_FDCWD</a>, "b", O_WRONLY|O_CREAT, 0666) = 3</a/b>')
    PosixPath('/a/b')
    >>> written_path('7 openat(AT_FDCWD</a>, "b", O_RDONLY) = 3</a/b>') is None
    True
    """
    call = re.search(r"\b([a-z0-9]+)\((.*)\)\s+= (-?\d+)", line)
    if call is None or int(call[3]) < 0 or call[1].startswith(("bind", "connect", "send")):
        return None
    if call[1].startswith("open") and not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", call[2]):
        return None
    # The last name is the new one of those that move and link.
    places = re.findall(r'(?:<([^>"]*)>, )?"([^"]*)"', call[2])
    if not places:
        return None
    folder, name = places[-1] if not call[1].startswith("open") else places[0]
    return Path(os.path.normpath(os.path.join(folder, name)))
