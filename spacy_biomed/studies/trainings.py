"""The results that finished trainings and measurements leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

# Called with a description of the training that starts.
Progress = Callable[[str], None]


def create_digest(*parts: str) -> str:
    """A hash of everything that determines a result."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_result(path: Path, digest: str) -> dict[str, object] | None:
    """The result of a finished run; None if there is none, or the digest is different."""
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf8"))
    return content if content["run"] == digest else None
