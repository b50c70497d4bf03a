"""Pipelines to and from the Hugging Face Hub: what leaves this machine, and what comes back."""

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from spacy.util import get_package_path, is_package

from ..errors import BiomedError, escape, quote
from ..files.outputs import replacing_directory
from ..pipeline.checksums import CHECKSUMS, check_checksums, list_files
from ..training.config import read_fields
from .described_pipeline import read_pipeline_config

MADE_BY = "spacy biomed pull"
# Begins of licences under which what is made of a work may be passed on, and words that forbid it
# or ask for the same licence.
_FREE = re.compile(r"(the )?public domain|CC0|CC[ -]BY\b|MIT\b|Apache\b|BSD\b", re.IGNORECASE)
_BOUND = re.compile(r"\b(NC|SA|ND)\b|non-?commercial|share-?alike|no-?deriv", re.IGNORECASE)
# Packages whose registered functions read a pipeline's files without running what is in them.
_TRUSTED = ("spacy", "spacy_biomed", "spacy_legacy", "spacy_loggers", "srsly", "thinc")
# Groups of entry points that no config names.
_DATA = ("spacy_cli", "spacy_lookups", "spacy_models")


@dataclass(frozen=True, slots=True)
class Shipment:
    """The files of a pipeline that go to the hub.

    Attributes:
        title: name and version of the package.
        files: each file, by its name in the repository.
        unclear: name and licence of each corpus and encoder whose licence may not allow passing on
            what is made of it: non-commercial, share-alike, terms of its own, not given.
    """

    title: str
    files: dict[str, Path]
    unclear: list[str]


def prepare_shipment(pipeline: str, wheel: Path | None = None) -> Shipment:
    """Choose the files of a described pipeline; nothing is sent.

    Only files that `SHA256SUMS` lists are chosen, with this list, meta, model card and wheel.

    Args:
        pipeline: an installed package, or a directory that `spacy biomed card` wrote.
        wheel: the pipeline's wheel.

    Raises:
        BiomedError: if there is no such pipeline, if it is damaged or not described, if its model
            card or its meta gives no licence, or if the wheel is of another pipeline.
    """
    directory = _find_directory(pipeline)
    files = {name: directory / name for name in list_files(directory)}
    check_checksums(directory)
    needed = ("lang", "name", "version")
    meta: Mapping[str, Any] = read_fields(directory / "meta.json", needed, "spacy biomed card")
    package, version = f"{meta['lang']}_{meta['name']}", str(meta["version"])
    if not (_read_licence(directory / "README.md") and meta.get("license")):
        raise BiomedError(
            f"{directory}: its README.md or its meta.json gives no license; "
            "`python -m spacy biomed card` writes them, or add it"
        )
    if wheel is not None:
        if not wheel.name.startswith(f"{package}-{version}-"):
            raise BiomedError(f"{wheel}: not a wheel of {package} {version}, which is {directory}")
        files[wheel.name] = wheel
    unclear = []
    for source in meta.get("sources") or [{**meta, "name": package}]:
        licence = source.get("license") or "not stated"
        if not _FREE.match(licence) or _BOUND.search(licence):
            unclear.append(f"{source['name']}: {licence}")
    return Shipment(f"{package} {version}", files, unclear)


def push_pipeline(shipment: Shipment, repo_id: str, *, private: bool = False) -> str:
    """Send the files of a pipeline in one commit to a repository of models on the hub.

    The repository is created if there is none. The hub is that of `HF_ENDPOINT`, and the token that
    of `huggingface_hub` (`hf auth login`, or `HF_TOKEN`).

    Args:
        repo_id: owner and name, such as "me/en_biomed_ner".
        private: whether the repository must be private.

    Returns:
        the hash of the commit.

    Raises:
        BiomedError: if the repository must not be public, or the hub cannot be reached or refuses.
    """
    from huggingface_hub import CommitOperationAdd, HfApi

    api = HfApi()
    with _explaining(repo_id):
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        if private and not api.model_info(repo_id).private:
            raise BiomedError(
                f"{repo_id}: this repository is public; name another, or leave out --private"
            )
        added = [CommitOperationAdd(name, str(path)) for name, path in shipment.files.items()]
        return api.create_commit(repo_id, added, commit_message=shipment.title).oid


def pull_pipeline(repo_id: str, revision: str, output: Path) -> dict[str, Any]:
    """Download a pipeline from the hub into a directory, and check it; it is not loaded.

    Only the files that its `SHA256SUMS` lists are downloaded, with this list, meta and model card.

    Args:
        repo_id: owner and name.
        revision: the hash of a commit, 40 hexadecimal digits.
        output: directory to write; an earlier output is replaced.

    Returns:
        the meta.

    Raises:
        BiomedError: if the revision is not the hash of a commit, or a file is missing or not as
            listed. Also if the pipeline needs code of other packages than spaCy and this one, the
            output cannot be written, or the hub cannot be reached.
    """
    from huggingface_hub import hf_hub_download

    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise BiomedError(
            f"{repo_id}@{escape(revision)}: give the hash of a commit (40 hexadecimal digits, on "
            "the repository's page under Files, History), since a branch or tag can change"
        )
    with replacing_directory(output, MADE_BY) as partial:
        with _explaining(repo_id):
            hf_hub_download(repo_id, CHECKSUMS, revision=revision, local_dir=partial)
            for name in list_files(partial):
                hf_hub_download(repo_id, name, revision=revision, local_dir=partial)
        shutil.rmtree(partial / ".cache", ignore_errors=True)  # of the hub client
        check_checksums(partial)
        refuse_foreign_code(read_pipeline_config(partial / "config.cfg"), repo_id)
        return read_fields(partial / "meta.json", ("lang", "name", "version"), "spacy biomed card")


def refuse_foreign_code(config: Mapping[str, object], where: str) -> None:
    """Refuse a config that names registered functions of other packages than spaCy and this one."""
    groups = [name for name in entry_points().groups if name.startswith(("spacy_", "thinc_"))]
    foreign = {
        point.name: package
        for group in groups
        if group not in _DATA
        for point in entry_points(group=group)
        if (package := point.module.partition(".")[0]) not in _TRUSTED
    }
    for name in _find_registered(config):
        if name in foreign:
            raise BiomedError(
                f"{where}: its config.cfg names {quote(name)} of the package {foreign[name]}, "
                "which may run code that the pipeline brings; pull it where this is not installed"
            )


def _find_registered(section: Mapping[str, object]) -> Iterator[str]:
    """The values that spaCy looks up among registered functions, components and languages."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _find_registered(value)
        elif key in ("factory", "lang") or key.startswith("@"):
            yield str(value)


def _find_directory(pipeline: str) -> Path:
    """The directory of a pipeline: the given one, or that inside an installed package."""
    folders = [Path(pipeline)]
    if not folders[0].is_dir() and is_package(pipeline):
        folders = sorted(sums.parent for sums in get_package_path(pipeline).glob(f"*/{CHECKSUMS}"))
    for folder in folders:
        if (folder / "meta.json").is_file():
            return folder
    raise BiomedError(
        f"{pipeline}: neither a pipeline directory nor an installed pipeline package of "
        "spacy-biomed; `python -m spacy biomed card` writes a directory"
    )


def _read_licence(card: Path) -> str | None:
    """The licence in the front matter of a model card; None if there is none."""
    from huggingface_hub import ModelCard

    try:
        return ModelCard.load(card).data.license
    except (OSError, ValueError):  # not there, or no YAML
        return None


@contextmanager
def _explaining(repo_id: str) -> Iterator[None]:
    """Turn any exception of the hub client into a one-line error."""
    try:
        yield
    except BiomedError:
        raise
    except Exception as error:  # those of the HTTP library differ between versions
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BiomedError(f"{escape(repo_id)}: {escape(reason, 250)}") from error
