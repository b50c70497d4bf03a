"""Fixtures that every room's tests share."""

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]


def _archives() -> Path:
    """The folder of the public corpora's archives: SPACY_BIOMED_CORPORA, or beside the project."""
    return Path(os.environ.get("SPACY_BIOMED_CORPORA", REPOSITORY.parent / "shared" / "corpora"))


@pytest.fixture(scope="session")
def corpora_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpack a public corpus by name, once a session; skip the test where it is not there."""
    unpacked = tmp_path_factory.mktemp("corpora")

    def unpack(name: str) -> Path:
        folder = unpacked / name
        if folder.is_dir():
            return folder
        archive = _archives() / f"{name}.tar.xz"
        if not archive.is_file():
            pytest.skip(f"no archive of {name}: set SPACY_BIOMED_CORPORA to the archives' folder")
        with tarfile.open(archive) as tar:
            has_folder = any(member.name.split("/")[0] == name for member in tar.getmembers())
            tar.extractall(unpacked if has_folder else folder, filter="data")
        return folder

    return unpack
