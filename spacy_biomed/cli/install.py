"""`spacy biomed install`."""

import subprocess
import sys
from pathlib import Path
from zipfile import is_zipfile

import typer
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from wasabi import msg

from ..errors import BiomedError, escape


def install(
    folders: list[Path] = typer.Argument(help="Folders that `spacy package` wrote to."),
) -> None:
    """Install the wheels under the folders into this environment, offline.

    Requirements of the wheels are not fetched: this environment trained them and has them.

    Example: python -m spacy biomed install packages/ncbi_disease
    """
    wheels = [find_wheel(folder) for folder in folders]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--force-reinstall", *map(str, wheels)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        names = ", ".join(str(wheel) for wheel in wheels)
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        reason = said[0].removeprefix("ERROR: ") if said else f"pip's status is {done.returncode}"
        raise BiomedError(f"{names}: not installed ({escape(reason, 200)})")
    for wheel in wheels:
        msg.good(f"Installed {wheel.name}")
    names = " ".join(wheel.name for wheel in wheels)
    typer.echo(
        "To install elsewhere, build the wheel of spacy-biomed (which is not on PyPI) in its clone "
        "and name its folder:\n"
        "    python -m pip wheel --no-deps -w wheels .\n"
        f"    python -m pip install --find-links wheels {names}"
    )


def find_wheel(folder: Path) -> Path:
    """The newest wheel under a folder; raise BiomedError if there is none, or it is damaged."""
    found = sorted(folder.rglob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise BiomedError(
            f"{folder}: no wheel there; `python -m spacy package PIPELINE {folder} --build "
            "wheel` builds one"
        )
    return _check(found[-1])


def _check(wheel: Path) -> Path:
    """Raise BiomedError if a file is not a wheel, by its name or by its content."""
    try:
        parse_wheel_filename(wheel.name)
    except InvalidWheelFilename:
        raise BiomedError(f"{wheel}: not the name of a wheel; build it again") from None
    if not (wheel.is_file() and is_zipfile(wheel)):
        raise BiomedError(f"{wheel}: not a wheel, or a damaged one; build or copy it again")
    return wheel
