"""Checksums of a pipeline's files: a pipeline that is not as it was written is refused.

They are in the file `SHA256SUMS` of the pipeline's directory, in the format of `sha256sum --check`.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ..errors import DamagedPipelineError, quote
from ..files.digests import hash_file
from ..files.outputs import replacing_directory

CHECKSUMS = "SHA256SUMS"
# The folder with the same pipeline in PyTorch, which has checksums of its own.
TRAINABLE = "trainable"
# What `spacy package` rewrites.
_REWRITTEN = ("meta.json", "README.md")
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


@contextmanager
def replacing_pipeline(
    output: Path, made_by: str, sources: Iterable[Path | str] = ()
) -> Iterator[Path]:
    """`outputs.replacing_directory` for a pipeline, which gets its checksums at the end."""
    with replacing_directory(output, made_by, sources) as partial:
        yield partial
        write_checksums(partial)


def write_checksums(directory: Path) -> None:
    """Write the checksums of a pipeline's files, but hidden ones, meta, card and `trainable`."""
    files = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    lines = [
        f"{_hash(directory / name)}  {name.as_posix()}\n"
        for name in sorted(files)
        if name.as_posix() not in (*_REWRITTEN, CHECKSUMS)
        and not name.name.startswith(".")
        and name.parts[0] != TRAINABLE
    ]
    (directory / CHECKSUMS).write_text("".join(lines), encoding="utf8")


def forget_checksums(directory: Path) -> None:
    """Delete the checksums of a pipeline whose files are being rewritten."""
    (directory / CHECKSUMS).unlink(missing_ok=True)


def check_checksums(directory: Path) -> None:
    """Raise DamagedPipelineError if a pipeline's files do not fit its checksums, if it has any."""
    sums = directory / CHECKSUMS
    if not sums.is_file():
        return
    for name, expected in _read(sums):
        problem = ""
        try:
            is_whole = _hash(directory / name) == expected
        except OSError as error:
            is_whole, problem = False, f" ({error.strerror})"
        if not is_whole:
            raise DamagedPipelineError(
                f"{directory / name}: is not as it was written, by its checksum in {CHECKSUMS}"
                f"{problem}; copy or install the pipeline again. If you have changed the file "
                f"yourself, delete {CHECKSUMS}"
            )


def list_files(directory: Path) -> list[str]:
    """The names of a pipeline's files: those with a checksum, the checksums, meta and model card.

    A checksum of a file elsewhere or of a hidden file is refused.
    """
    sums = directory / CHECKSUMS
    if not sums.is_file():
        raise DamagedPipelineError(
            f"{directory}: has no {CHECKSUMS}; `python -m spacy biomed card` writes it"
        )
    names = [name for name, _ in _read(sums)]
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or "\\" in name or any(part[0] == "." for part in path.parts):
            raise DamagedPipelineError(f"{sums}: {quote(name)} is not a file of the pipeline")
    return [*names, CHECKSUMS, *_REWRITTEN]


def check_component(path: Path) -> None:
    """Check the pipeline that a component is loaded from, by the component's directory."""
    check_checksums(path.parent)
    if not (path / "cfg").is_file():  # spaCy would take the defaults
        raise DamagedPipelineError(
            f"{path}: lacks the file cfg with the settings of the component; copy or install the "
            "pipeline again"
        )


def _read(sums: Path) -> list[tuple[str, str]]:
    """The name and the checksum of each file."""
    try:
        lines = sums.read_text(encoding="utf8").splitlines()
        found = [(line[2], line[1]) for line in map(_LINE.fullmatch, lines) if line]
        if not lines or len(found) < len(lines):
            raise ValueError(f"{len(lines) - len(found)} of {len(lines)} lines are none")
        return found
    except (OSError, ValueError) as error:
        raise DamagedPipelineError(
            f"{sums}: has no checksums that can be read ({error}); copy or install the pipeline "
            "again"
        ) from error


def _hash(path: Path) -> str:
    state = path.stat()
    return _hash_once(path, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


# Each component checks the pipeline that it is loaded from.
@lru_cache(maxsize=1024)
def _hash_once(path: Path, *state: int) -> str:
    """SHA-256 of a file, which is read again only if it has changed."""
    return hash_file(path)
