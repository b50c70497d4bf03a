"""The files of an encoder in the bytes of a pipeline."""

from __future__ import annotations

from collections.abc import Collection

import srsly

from ..errors import BiomedError


def unpack_files(data: bytes, names: Collection[str]) -> dict[str, bytes]:
    """Read the output of an encoder's `to_bytes`: the content of its files by name.

    There are all files with these names and no others, or none for an encoder that was not loaded.
    """
    try:
        files = srsly.msgpack_loads(data)
    except Exception as error:  # whatever MessagePack and the decoders registered for it raise
        raise BiomedError(
            "the bytes of this pipeline's encoder are damaged: make them again (`nlp.to_bytes()`)"
        ) from error
    is_whole = isinstance(files, dict) and (not files or files.keys() == set(names))
    if not is_whole or not all(isinstance(content, bytes) for content in files.values()):
        raise BiomedError(
            "the bytes of this pipeline's encoder are not those of the files "
            f"{', '.join(names)}; nothing was written: make them with `nlp.to_bytes()`"
        )
    return files
