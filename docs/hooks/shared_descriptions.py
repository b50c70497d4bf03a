"""Descriptions of several parameters (`start, end: in characters.`), repeated for each of them."""

from __future__ import annotations

import re
from typing import Any

import griffe

# Their names, and the lines of the description.
SHARED = re.compile(r"^( +)(\w+(?:, \w+)+): (.*(?:\n\1 +.*)*)", re.MULTILINE)


class SharedDescriptions(griffe.Extension):
    """Let the parser of docstrings see one name in each description."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = SHARED.sub(repeat, obj.docstring.value)


def repeat(description: re.Match[str]) -> str:
    """Write a description once for each of its names."""
    indent, names, text = description.groups()
    return "\n".join(f"{indent}{name}: {text}" for name in names.split(", "))
