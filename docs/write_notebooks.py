"""Write `notebooks/`: what each page of `docs/tasks` says to try, for Jupyter.

Run it when a page changes: python docs/write_notebooks.py
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted((REPOSITORY / "docs" / "tasks").glob("*.md"))
SECTION = "Try it"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^ {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)

LINK = re.compile(r"(?<=\]\()[^)#:]+(?=[)#])")

BEGINNING = 'import os\n\nos.chdir("..")  # the root of the repository'
ENTITIES = 'from spacy import displacy\n\ndisplacy.render(doc, style="ent")'


class Block(NamedTuple):
    """A block of a page: "commands", a "python" snippet, or "text"."""

    kind: str
    text: str


def read_section(page: str) -> tuple[str, str]:
    """The title of a page, and the text of the section to run, which has to be its first."""
    head, *sections = re.split(r"^## ", page, flags=re.MULTILINE)
    title, _, text = sections[0].partition("\n") if sections else ("", "", "")
    assert title == SECTION, f"the first section has to be '{SECTION}'"
    return head.partition("\n")[0], text


def find_blocks(section: str) -> list[Block]:
    """The indented blocks ("commands"), the fenced blocks, and the text of a section, in order."""
    blocks, end = [], 0
    for found in [*BLOCK.finditer(section), None]:
        text = section[end : found.start() if found else None].strip()
        if text:
            blocks.append(Block("text", text))
        if found:
            language, fenced, indented = found.groups()
            blocks.append(Block("commands", indented) if indented else Block(language, fenced))
            end = found.end()
    return blocks


def find_target(link: re.Match[str]) -> str:
    """The target of a link of a page, from the folder of the notebooks."""
    return posixpath.normpath(posixpath.join("../docs/tasks", link[0]))


def make_notebook(page: Path) -> dict[str, Any]:
    """The section of a page as a notebook of nbformat 4.5, without outputs."""
    title, section = read_section(page.read_text(encoding="utf8"))
    blocks = find_blocks(section)
    cells = [("markdown", title), ("code", BEGINNING)]
    for kind, text in blocks:
        if kind == "commands":
            lines = text.replace("\\\n", "").splitlines()
            cells.append(("code", "\n".join(f"!{' '.join(line.split())}" for line in lines)))
        elif kind == "text":
            cells.append(("markdown", LINK.sub(find_target, text)))
        else:
            cells.append(("code", text.rstrip("\n")))
    if "doc.ents" in section:
        cells.append(("code", ENTITIES))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [
            {
                "cell_type": kind,
                "id": f"{page.stem}-{place}",
                "metadata": {},
                "source": text.splitlines(keepends=True),
                **({"execution_count": None, "outputs": []} if kind == "code" else {}),
            }
            for place, (kind, text) in enumerate(cells)
        ],
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def main() -> None:
    for page in PAGES:
        notebook = json.dumps(make_notebook(page), indent=1, ensure_ascii=False) + "\n"
        (REPOSITORY / "notebooks" / f"{page.stem}.ipynb").write_text(notebook, encoding="utf8")


if __name__ == "__main__":
    main()
