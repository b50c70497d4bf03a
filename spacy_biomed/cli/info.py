"""`spacy biomed info` and `spacy biomed --version`."""

import platform
import shutil
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version

import typer
from packaging.requirements import Requirement

from ..errors import install_command

# For users; the others are for contributors.
EXTRAS = ("train", "stock", "serve", "openvino", "vault", "inception", "ray")


def info() -> None:
    """Print what a report of a problem needs: versions, processor, GPU and missing extras.

    It has nothing of your texts, files and pipelines.

    Example: python -m spacy biomed info
    """
    from ..evaluation.benchmark import describe_machine

    machine = describe_machine(DISTRIBUTIONS)
    for name, number in machine["versions"].items():
        typer.echo(f"{name} {number}")
    typer.echo(f"{machine['system']}")
    instructions = ", ".join(machine["instructions"]) or "none of the known instructions"
    typer.echo(f"{machine['processors']} x {machine['processor']} ({instructions})")
    typer.echo(_find_gpus() or "no NVIDIA GPU")
    for extra in EXTRAS:
        if missing := _find_missing(extra):
            typer.echo(f"{extra}: lacks {', '.join(missing)}; {install_command(extra)}")
        else:
            typer.echo(f"{extra}: installed")


def _find_gpus() -> str:
    """A line for each NVIDIA GPU with its driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    query = [program, "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.strip()


def _find_missing(extra: str) -> list[str]:
    """The requirements of an extra that are not installed, or in another version."""
    missing = []
    for requirement in map(Requirement, requires("spacy-biomed") or ()):
        if requirement.marker is None or not requirement.marker.evaluate({"extra": extra}):
            continue
        installed = ""
        with suppress(PackageNotFoundError):
            installed = version(requirement.name)
        if not (installed and requirement.specifier.contains(installed, prereleases=True)):
            missing.append(f"{requirement.name}{requirement.specifier}")
    return missing


# The package, what it is built on, and what runs encoders. The last may not be installed.
DISTRIBUTIONS = (
    *("spacy-biomed", "spacy", "thinc", "transformers", "torch"),
    *("onnxruntime", "onnxruntime-gpu", "openvino"),
)


def print_versions(is_asked: bool) -> None:
    """Print the versions of what is installed, without importing it, and exit."""
    if not is_asked:
        return
    first, *others = DISTRIBUTIONS
    lines = [f"{first} {version(first)}", f"Python {platform.python_version()}"]
    for name in others:
        with suppress(PackageNotFoundError):
            lines.append(f"{name} {version(name)}")
    typer.echo("\n".join(lines))
    raise typer.Exit
