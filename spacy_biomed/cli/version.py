"""`spacy biomed --version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

# The package, what it is built on, and what runs encoders. The last may not be installed.
DISTRIBUTIONS = (
    "spacy-biomed",
    "spacy",
    "thinc",
    "transformers",
    "torch",
    "onnxruntime",
    "onnxruntime-gpu",
    "openvino",
)


def print_versions(is_asked: bool) -> None:
    """Print the versions of what is installed, without importing it, and exit."""
    if not is_asked:
        return
    first, *others = DISTRIBUTIONS
    lines = [f"{first} {version(first)}", f"Python {platform.python_version()}"]
    for name in others:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    typer.echo("\n".join(lines))
    raise typer.Exit
