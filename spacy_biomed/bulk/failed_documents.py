"""The documents of a run that failed: their list, and whether so many may."""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import BiomedError
from ..files.outputs import replace_text


def check_failed(
    output: Path, documents: int, failed: list[dict[str, str]], listed: Path, max_errors: int | None
) -> None:
    """Raise BiomedError if documents failed and --max-errors does not allow it, or if all did.

    Args:
        documents: number of documents that did not fail.
        failed: `id` and `reason` of the others.
        listed: file that has them.
        max_errors: number of documents that may fail; None for none.
    """
    if not failed or (documents and max_errors is not None):
        return
    first = f"{failed[0]['id']}: {failed[0]['reason']}"
    count = f"{len(failed):,} of {documents + len(failed):,} documents failed"
    if not documents:
        raise BiomedError(f"{output}: has no document, since all {len(failed):,} failed: {first}")
    raise BiomedError(
        f"{output}: {count}, the others are done: {first}; see {listed}, or allow it with "
        f"--max-errors {len(failed)}"
    )


def write_failed(path: Path, failed: list[dict[str, str]]) -> None:
    """Write the documents that failed; without any, remove the list of an earlier run."""
    if failed:
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in failed)
        replace_text(path, "".join(lines))
    else:
        path.unlink(missing_ok=True)


def check_list(path: Path) -> None:
    """Refuse to write the list of failed documents where something else is."""
    if path.is_dir() or (path.exists() and not _is_list_of_failed(path)):
        raise BiomedError(
            f"{path}: documents that fail would be listed here, and this is not such a list: move "
            "it away, or name another output"
        )


def _is_list_of_failed(path: Path) -> bool:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
        return bool(rows) and all(set(row) == {"id", "reason"} for row in rows)
    except (OSError, ValueError, TypeError):
        return False
