"""What a run reads and writes, and which of its shards are finished.

The output has two files for this. `_manifest.json` is written once, before the first document, and
fixes input, pipeline, settings and shards. `_finished.jsonl` gets a line for each finished shard,
flushed to disk, after the shard's files are in their place. Neither has text or paths. The manifest
and each of these lines have their own SHA-256, so that damage is not taken for content.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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

_FORMAT = 3
_PACKAGES = ("spacy-biomed", "spacy", "thinc", "onnxruntime", "openvino", "torch", "pyarrow")


@dataclass
class FinishedShard:
    """A line of `_finished.jsonl`.

    `files` has the SHA-256 of each file by its path in the output; a folder has that of the lines
    that `sha256sum *` prints there. `errors` has `id` and `reason` of each row that failed.
    """

    shard: int
    counts: dict[str, int]
    files: dict[str, str]
    errors: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Manifest:
    """What a run reads and how it is cut into shards."""

    # Name, version and checksum, and the versions of the packages that run it.
    pipeline: dict[str, str]
    settings: dict[str, Any]  # everything else that the output depends on
    # Name, state, checksum and number of rows of each part of the input.
    parts: list[dict[str, object]]
    shards: list[Shard]  # in ascending order


def open_manifest(
    output: Path,
    earlier: Manifest | None,
    parts: list[Part],
    states: dict[str, str],
    pipeline: dict[str, str],
    settings: dict[str, Any],
) -> Manifest:
    """Write the manifest of an output, or check that of the `earlier` run that is continued.

    `states` are those of the parts before they were read, by name. Raise BiomedError if the output
    was begun with another input, pipeline or setting.
    """
    if earlier is None:
        shards = plan_shards(parts, settings["shard_size"])
        manifest = Manifest(pipeline, settings, _describe_parts(parts, states), shards)
        write_part(output, MANIFEST, _sign({"format": _FORMAT, **vars(manifest)}).encode())
        return manifest
    _check_same(output, "the pipeline", earlier.pipeline, pipeline)
    _check_same(output, "the settings", earlier.settings, settings)
    if states != {part["name"]: part["state"] for part in earlier.parts}:
        # Files that were only copied or touched have the same content.
        found = _describe_parts(parts, dict.fromkeys(states, ""))
        if found != [{**part, "state": ""} for part in earlier.parts]:
            raise BiomedError(
                f"{output}: the input has changed since this output was begun; name another "
                "output, or restore the input"
            )
    return earlier


def read_manifest(output: Path) -> Manifest | None:
    """The manifest of an output, None if there is none; raise BiomedError if it is damaged."""
    path = output / MANIFEST
    if not path.exists():
        return None
    with reading(path):
        fields = _read_signed(path.read_bytes())
    if fields is None or fields.pop("format") != _FORMAT:
        raise BiomedError(
            f"{path}: damaged, or of another version; delete {output}, or name another output"
        )
    return Manifest(**{**fields, "shards": [Shard(*shard) for shard in fields["shards"]]})


def is_continued(output: Path) -> bool:
    """Whether an output has something of a shard; else the run starts again."""
    return (output / FINISHED).exists() or any(_find_files(output))


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
    lines = filter(None, map(_read_signed, complete.split(b"\n")))
    return {
        one.shard: one
        for one in (FinishedShard(**fields) for fields in lines)
        if one.shard < shards
        and all(_hash_written(output / file) == digest for file, digest in one.files.items())
    }


def check_no_others(output: Path, finished: dict[int, FinishedShard]) -> None:
    """Raise BiomedError if there are other parts, which would be read with those of the shards."""
    names = {output / file for one in finished.values() for file in one.files}
    for path in sorted({*_find_files(output)} - names):
        raise BiomedError(f"{path}: not a part of this run; move it away")


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
    """Add a shard to the finished ones, on disk."""
    append_text(output / FINISHED, _sign(vars(finished)))


def write_results(output: Path, finished: dict[int, FinishedShard]) -> None:
    """Write the finished shards in their order, and `_errors.jsonl` of them."""
    ordered = [finished[number] for number in sorted(finished)]
    errors = (error for one in ordered for error in one.errors)
    results = {FINISHED: [_sign(vars(one)) for one in ordered]} if ordered else {}
    results[ERRORS] = [json.dumps(error, ensure_ascii=False) + "\n" for error in errors]
    for name, lines in results.items():
        content, place = "".join(lines).encode(), output / name
        if not place.exists() or place.read_bytes() != content:
            write_part(output, name, content)


def _sign(fields: Mapping[str, object]) -> str:
    """A line of JSON with fields and their SHA-256."""
    return json.dumps({"sha256": _hash_values(fields), **fields}) + "\n"


def _read_signed(line: bytes) -> dict[str, Any] | None:
    """The fields that `_sign` wrote; None if the line is damaged."""
    try:
        fields: dict[str, Any] = json.loads(line)
        return fields if fields.pop("sha256") == _hash_values(fields) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _hash_values(values: object) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _describe_parts(parts: list[Part], states: dict[str, str]) -> list[dict[str, object]]:
    return [
        {"name": part.name, "state": states[part.name], "sha256": part.checksum()} for part in parts
    ]


def _check_same(
    output: Path, what: str, old: Mapping[str, object], new: Mapping[str, object]
) -> None:
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if changed:
        raise BiomedError(
            f"{output}: was begun with other values of {what} ({', '.join(changed)}); name "
            "another output, delete this one, or run it as it was begun"
        )
