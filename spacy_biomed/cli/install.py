"""`spacy biomed install`."""

from pathlib import Path

import typer


def install(
    folders: list[Path] = typer.Argument(help="Folders that `spacy package` wrote to."),
) -> None:
    """Install the wheels under the folders into this environment, offline.

    What the wheels require is not fetched: this environment trained them and has it.

    Example: python -m spacy biomed install packages/ncbi_disease
    """
    import subprocess
    import sys

    from wasabi import msg

    from ..errors import BiomedError

    wheels = []
    for folder in folders:
        found = sorted(folder.rglob("*.whl"), key=lambda path: path.stat().st_mtime)
        if not found:
            raise BiomedError(
                f"{folder}: no wheel there; `python -m spacy package PIPELINE {folder} --build "
                "wheel` builds one"
            )
        wheels.append(found[-1])
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    done = subprocess.run([*command, "--force-reinstall", *map(str, wheels)], check=False)
    if done.returncode:
        names = ", ".join(str(wheel) for wheel in wheels)
        raise BiomedError(f"{names}: not installed; what pip says above is why")
    for wheel in wheels:
        msg.good(f"Installed {wheel.name}")
