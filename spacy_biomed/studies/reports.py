"""The files of a study's report, and its tables in Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..outputs import replace_text


def write_report_files(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write the files of a report.

    Args:
        folder: existing folder to write to.
        contents: by file name, a text, or any other content to write as JSON.
    """
    for name, content in contents.items():
        if not isinstance(content, str):
            content = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        replace_text(folder / name, content)


def format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns are numbers, except for the first."""
    ruler = ["---", *("---:" for _ in titles[1:])]
    return "".join(f"| {' | '.join(row)} |\n" for row in (titles, ruler, *rows))
