"""What a run reads and writes, and which of its shards are finished.

The output has two files for this. `_manifest.json` is written once, before the first document, and
fixes input, pipeline, settings and shards. `_finished.jsonl` gets a line for each finished shard,
flushed to disk, after the shard's files are in their place. Neither has text or paths. The manifest
and each of these lines have their own SHA-256, so that damage is not taken for content.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from spacy.language import Language

from ..errors import BiomedError
from ..files.compression import reading
from ..files.digests import digest_files, hash_file
from ..files.outputs import ERRORS, FINISHED, MANIFEST, append_text, write_part
from ..files.sources import Part, Shard, plan_shards

_FORMAT = 2
_PACKAGES = ("spacy-biomed", "spacy", "thinc", "onnxruntime", "openvino", "torch", "pyarrow")


@dataclass
class FinishedShard:
    """A line of `_finished.jsonl`.

    Attributes:
        shard: its number.
        counts: documents, words, entities and so on.
        files: the SHA-256 of each file by its path in the output. A folder has the SHA-256 of the
            lines that `sha256sum *` prints there.
        errors: `id` and `reason` of each row that was not annotated.
    """

    shard: int
    counts: dict[str, int]
    files: dict[str, str]
    errors: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Manifest:
    """What a run reads and how it is cut into shards.

    Attributes:
        pipeline: name, version and checksum, and the versions of the packages that run it.
        settings: everything else that the output depends on.
        parts: name, state, checksum and number of rows of each part of the input.
        shards: in ascending order.
    """

    pipeline: dict[str, str]
    settings: dict[str, Any]
    parts: list[dict[str, object]]
    shards: list[Shard]

    def to_json(self) -> str:
        head = {"format": _FORMAT, "sha256": self.checksum()}
        return json.dumps({**head, **vars(self)}) + "\n"

    def checksum(self) -> str:
        """SHA-256 of the content."""
        return _hash_values([self.pipeline, self.settings, self.parts, self.shards])


def open_manifest(
    output: Path,
    parts: list[Part],
    states: dict[str, str],
    pipeline: dict[str, str],
    settings: dict[str, Any],
) -> Manifest:
    """Read the manifest of an output that is to be continued, or write that of a new one.

    If the output has no part, the run starts again.

    Args:
        states: of the parts by name, before they were read.
        pipeline: see `describe_pipeline`.
        settings: everything else that the output depends on, with `shard_size`.

    Raises:
        BiomedError: if the output was begun with another input, pipeline or setting, or its
            manifest cannot be read.
    """
    path = output / MANIFEST
    if not _is_continued(output):
        shards = plan_shards(parts, settings["shard_size"])
        manifest = Manifest(pipeline, settings, _describe_parts(parts, states), shards)
        write_part(output, MANIFEST, manifest.to_json().encode())
        return manifest
    manifest = _read_manifest(path)
    _check_same(output, "the pipeline", manifest.pipeline, pipeline)
    _check_same(output, "the settings", manifest.settings, settings)
    if states != {part["name"]: part["state"] for part in manifest.parts}:
        # Files that were only copied or touched have the same content.
        found = _describe_parts(parts, states)
        if [_content(part) for part in found] != [_content(part) for part in manifest.parts]:
            raise BiomedError(
                f"{output}: the input has changed since this output was begun; name another "
                "output, or restore the input"
            )
    return manifest


def read_settings(output: Path) -> dict[str, Any]:
    """The settings with which an output was begun; none if the run starts again.

    Raises:
        BiomedError: if its manifest cannot be read.
    """
    return _read_manifest(output / MANIFEST).settings if _is_continued(output) else {}


def _is_continued(output: Path) -> bool:
    """Whether an output was begun, and has something of a shard."""
    kept = (output / FINISHED).exists() or any(_find_files(output))
    return kept and (output / MANIFEST).exists()


def _find_files(output: Path) -> Iterator[Path]:
    return chain(output.glob("part-*"), output.glob("[!p]*/part-*"))


def describe_pipeline(nlp: Language) -> dict[str, str]:
    """Name, version and checksum of a loaded pipeline, and the versions of what runs it.

    The packages are those whose other versions may compute or write other bytes.
    """
    checksum = ""
    if nlp.path is not None:
        with reading(nlp.path):
            checksum = digest_files(nlp.path)
    versions = {name: version(name) for name in _PACKAGES if find_spec(name.replace("-", "_"))}
    return {
        "name": f"{nlp.meta['lang']}_{nlp.meta['name']}",
        "version": nlp.meta["version"],
        "sha256": checksum,
        **versions,
    }


def read_finished(output: Path, shards: int) -> dict[int, FinishedShard]:
    """The finished shards of an output by number, whose files are as they were written.

    A shard whose files or line have changed is not finished. An incomplete last line, as a kill
    leaves it, is removed from the file.

    Raises:
        BiomedError: if the file cannot be read.
    """
    path = output / FINISHED
    if not path.exists():
        return {}
    with reading(path):
        content = path.read_bytes()
        complete, _, rest = content.rpartition(b"\n")
        if rest:
            with path.open("rb+") as file:
                file.truncate(len(content) - len(rest))
    read = filter(None, map(_read_line, complete.split(b"\n")))
    return {
        one.shard: one
        for one in read
        if one.shard < shards
        and all(_hash_written(output / file) == digest for file, digest in one.files.items())
    }


def check_no_others(output: Path, finished: dict[int, FinishedShard]) -> None:
    """Raise BiomedError if there are other parts, which would be read with those of the shards."""
    names = {output / file for one in finished.values() for file in one.files}
    for path in sorted({*_find_files(output)} - names):
        raise BiomedError(f"{path}: not a part of this run; move it away")


def _read_line(line: bytes) -> FinishedShard | None:
    """A line of `_finished.jsonl`; None if it is damaged."""
    try:
        fields = json.loads(line)
        return FinishedShard(**fields) if fields.pop("sha256") == _hash_values(fields) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _hash_written(path: Path) -> str:
    """SHA-256 of a file, or of a folder (`FinishedShard.files`); "" if it cannot be read."""
    try:
        if not path.is_dir():
            return hash_file(path)
        names = sorted(os.listdir(path))
        return hash_folder({name: hash_file(path / name) for name in names})
    except OSError:
        return ""


def hash_folder(files: dict[str, str]) -> str:
    """SHA-256 of the lines that `sha256sum *` prints in a folder, from those of its files."""
    lines = (f"{files[name]}  {name}\n" for name in sorted(files))
    return sha256(os.fsencode("".join(lines))).hexdigest()


def record_finished(output: Path, finished: FinishedShard) -> None:
    """Add a shard to the finished ones, on disk.

    Raises:
        BiomedError: if it cannot be written.
    """
    append_text(output / FINISHED, _to_finished_line(finished))


def write_results(output: Path, finished: dict[int, FinishedShard]) -> None:
    """Write the finished shards in their order, and `_errors.jsonl` of them.

    Raises:
        BiomedError: if they cannot be written.
    """
    ordered = [finished[number] for number in sorted(finished)]
    lines = "".join(map(_to_finished_line, ordered)).encode()
    if ordered and (output / FINISHED).read_bytes() != lines:
        write_part(output, FINISHED, lines)
    errors = "".join(_to_line(error) for one in ordered for error in one.errors).encode()
    place = output / ERRORS
    if not place.exists() or place.read_bytes() != errors:
        write_part(output, ERRORS, errors)


def _to_finished_line(finished: FinishedShard) -> str:
    fields = asdict(finished)
    return _to_line({"sha256": _hash_values(fields), **fields})


def _to_line(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _hash_values(values: object) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _read_manifest(path: Path) -> Manifest:
    try:
        content = json.loads(path.read_text(encoding="utf8"))
        if content.pop("format") != _FORMAT:
            raise ValueError("another format")
        digest = content.pop("sha256")
        content["shards"] = [Shard(*shard) for shard in content["shards"]]
        manifest = Manifest(**content)
        if manifest.checksum() != digest:
            raise ValueError("damaged")
        return manifest
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BiomedError(
            f"{path}: damaged, or of another version; delete {path.parent}, or name another output"
        ) from error


def _describe_parts(parts: list[Part], states: dict[str, str]) -> list[dict[str, object]]:
    return [
        {"name": part.name, "state": states[part.name], "sha256": part.checksum()} for part in parts
    ]


def _content(part: dict[str, Any]) -> tuple[str, str]:
    return part["name"], part["sha256"]


def _check_same(
    output: Path, what: str, old: Mapping[str, object], new: Mapping[str, object]
) -> None:
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if changed:
        raise BiomedError(
            f"{output}: was begun with other values of {what} ({', '.join(changed)}); name "
            "another output, or run it as it was begun"
        )
