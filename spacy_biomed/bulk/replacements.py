"""What replaces the mentions of documents: the parts of a run of `spacy biomed deidentify`."""

from __future__ import annotations

import json
from hashlib import blake2b

from ..errors import BiomedError
from ..formats.findings import AnnotatedShard
from ..formats.registry import Format


def hash_text(text: str) -> str:
    """The hash that tells whether offsets belong to a text."""
    return blake2b(text.encode("utf8", "surrogatepass"), digest_size=16).hexdigest()


def write_replacements(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a line for each document, with what replaces its mentions and nothing of its text.

    It has the document's number, a hash of its text, and offsets in it, label and replacement of
    each mention, in text order.
    """
    lines = []
    for number, item, doc, _ in shard.documents:
        deidentified = doc._.deidentified
        if deidentified is None:
            raise BiomedError(
                f"{item.id}: no component has looked for mentions: give a pipeline that does, or "
                "the component's spans_key"
            )
        rows = [(one.start, one.end, one.label, one.text) for one in deidentified.replacements]
        lines.append(json.dumps([number, hash_text(item.text), rows], ensure_ascii=False) + "\n")
    return {f"{shard.name}.jsonl": "".join(lines).encode()}


REPLACEMENTS = Format(write=write_replacements)
