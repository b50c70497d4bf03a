"""Download the files of a corpus from the public git repository that the catalogue names, or unpack
the zip file that its authors publish, while it is read.

Only the files of the corpus are fetched, from one commit, by the command `git`.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ..errors import BiomedError, escape
from ..files.digests import digest_files, hash_file
from ..files.outputs import scratch_directory
from ..formats.archives import list_packed_files
from .corpus_catalogue import CorpusEntry

_ROOT = "."
# Files of corpora that are unpacked.
SUFFIXES = (".ann", ".json", ".tsv", ".txt", ".xml")


def download_corpus(entry: CorpusEntry, folder: Path) -> list[Path]:
    """Download a corpus to its folder, and list what is new; or check the files that are there.

    Nothing is left of a download that fails, or whose files are not as published.
    """
    if entry.access == "ships":
        raise BiomedError(f"{entry.name}: comes with the project, in assets/{entry.name}/")
    paths = _find_paths(entry)
    if paths and all((folder / path).exists() for path in paths):
        _check(entry, folder, "is not as published; remove it to download it again")
        return []
    if entry.access != "download":
        raise BiomedError(
            f"{entry.name}: no command can download it ({entry.access}): {entry.instructions} "
            f"Its source is {entry.source}"
        )
    for path in paths:
        if (folder / path).exists():
            raise BiomedError(f"{folder / path}: is there already; remove it to download it again")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(folder) as scratch:
        _fetch(entry, paths, scratch)
        arranged = scratch / "corpus"
        for path, source in paths.items():
            _move(scratch / "repository" / source, arranged / path, entry)
        _check(entry, arranged, "is not as published: removed what was downloaded; try again")
        for path in paths:
            _move(arranged / path, folder / path, entry)
    return [folder / path for path in paths]


def _find_paths(entry: CorpusEntry) -> dict[str, str]:
    """Path in the corpus folder to path in the repository of every file or folder of a corpus."""
    parts = {path for paths in entry.splits.values() for path in paths} - {_ROOT}
    named = {path for path in entry.repository_paths if path != _ROOT}
    base = entry.repository_paths.get(_ROOT, _ROOT)
    return {one: entry.repository_paths.get(one, f"{base}/{one}") for one in sorted(named or parts)}


def _check(entry: CorpusEntry, folder: Path, problem: str) -> None:
    """Compare the files with the checksums of the catalogue; those without one pass."""
    for path, checksum in entry.sha256.items():
        place = folder / path
        found = digest_files(place) if place.is_dir() else hash_file(place)
        if found != checksum:
            raise BiomedError(f"{entry.name}: {path} {problem} (SHA-256 {found}, not {checksum})")


def _fetch(entry: CorpusEntry, paths: Mapping[str, str], scratch: Path) -> None:
    """Check out the paths of the repository at its commit into `scratch/repository`."""
    repository = scratch / "repository"
    commands: list[list[str]] = [
        ["init", "--quiet", str(repository)],
        ["remote", "add", "origin", entry.repository or ""],
        ["fetch", "--quiet", "--depth", "1", "--filter=blob:none", "origin", entry.commit or ""],
        ["sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in paths.values())],
        ["checkout", "--quiet", "FETCH_HEAD"],
    ]
    for number, command in enumerate(commands):
        place = ["-C", str(repository)] if number else []
        # Bytes as they are committed, whatever the user's settings say; no question for a password.
        try:
            done = subprocess.run(
                ["git", "-c", "core.autocrlf=false", *place, *command],
                capture_output=True,
                text=True,
                errors="replace",
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
                check=False,
            )
        except FileNotFoundError as error:
            raise BiomedError("downloads need the command git: install it") from error
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise BiomedError(
                f"{entry.name}: {entry.repository} at {entry.commit} could not be downloaded "
                f"({escape(reason, 300)}); try again where there is internet, and copy "
                "the folder here"
            )


def _move(source: Path, target: Path, entry: CorpusEntry) -> None:
    if not source.exists():
        raise BiomedError(f"{entry.name}: {source.name} is not in {entry.repository}")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(source, target)


@contextmanager
def unpacking(entry: CorpusEntry | None, source: Path) -> Iterator[Path]:
    """Find the folder with the files of a corpus, in a zip file where the folder has only that.

    Errors inside name its files as in the zip file.
    """
    first = next((path for paths in entry.splits.values() for path in paths), "") if entry else ""
    archives = sorted(source.glob("*.zip")) if first and not (source / first).exists() else []
    if len(archives) != 1:
        yield source
        return
    with tempfile.TemporaryDirectory() as scratch:
        for file in list_packed_files(archives[0], SUFFIXES):
            name = PurePosixPath(*file.name.parts[1:])
            if name.is_absolute() or ".." in name.parts:
                continue
            place = Path(scratch, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read())
        found = next((path for path in Path(scratch).rglob(first) if path.exists()), None)
        root = found.parents[len(PurePosixPath(first).parts) - 1] if found else source
        try:
            yield root
        except BiomedError as error:
            raise BiomedError(str(error).replace(scratch, str(source))) from None
