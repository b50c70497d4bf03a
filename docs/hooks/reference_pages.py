"""Reference pages: one for each room, from its public names, and one for the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PACKAGE = Path(__file__).parents[2] / "spacy_biomed"
# The rooms that export names.
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.pyi"))

# What `typer` adds to the options of an app that is not a part of another one.
NOT_OURS = ("* `--install-completion`", "* `--show-completion`")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "reference/commands.md", content=describe_commands()))
    for package in ["spacy_biomed", *(f"spacy_biomed.{room}" for room in ROOMS)]:
        page = f"# `{package}`\n\n::: {package}\n"
        files.append(File.generated(config, f"reference/{package}.md", content=page))
    return files


def describe_commands() -> str:
    """Write the help of all commands as one page of Markdown."""
    typer = [sys.executable, "-m", "typer", "spacy_biomed.cli", "utils", "docs"]
    names = ["--name", "python -m spacy biomed", "--title", "Commands"]
    page = subprocess.run([*typer, *names], capture_output=True, text=True, check=True).stdout
    return "".join(line for line in page.splitlines(True) if not line.startswith(NOT_OURS))
