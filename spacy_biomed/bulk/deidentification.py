"""What `spacy biomed deidentify` asks of the engine of `annotate`, and the parts it writes."""

import json
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from spacy.language import Language

from ..deidentification.encoded_text import find_encodings, repair
from ..deidentification.pattern_matches import PATTERN_LANGUAGES
from ..deidentification.vault import read_secret
from ..errors import BiomedError, suggest
from ..files.sources import Item, Part
from ..formats.findings import AnnotatedShard
from ..formats.registry import Format
from ..pipeline.deidentify import PATTERNS, BiomedDeidentifier, add_deidentifier
from ..pipeline.factories import find_names
from .text_documents import MADE_BY

# Marks the working folder, so that nothing takes it for an output.
DEIDENTIFIED_BY = f"{MADE_BY}, unfinished"


@dataclass(frozen=True)
class Deidentification:
    """How documents are de-identified; plain data, that other processes get."""

    # Whether documents share surrogates that have the same patient (`files.sources.Columns`); else
    # each document has its own.
    by_patient: bool = False
    mode: str | None = None  # "tags" or "surrogates"; None for the pipeline's own
    kinds: dict[str, str] = field(default_factory=dict)  # label to kind, added to the pipeline's
    # Whether `biomed_phi_patterns` runs; None to add it where the language has any.
    patterns: bool | None = None
    secret_file: str | None = None  # file with the secret; None for the environment variable
    # Whether texts that are still encoded are decoded first (`encoded_text.repair`).
    repair: bool = False

    def prepare(self, nlp: Language) -> BiomedDeidentifier:
        """Give a pipeline the components that this asks for, and check that it can de-identify."""
        key_from = "document_id" if self.by_patient else None
        component = add_deidentifier(nlp, self.mode, key_from, self.kinds)
        if self.secret_file is not None:
            component.set_secret(read_secret(Path(self.secret_file)))
        found = find_names(nlp, PATTERNS)
        if self.patterns is False:
            for name in found:
                nlp.remove_pipe(name)
        elif not found and (self.patterns or nlp.lang in PATTERN_LANGUAGES):
            nlp.add_pipe(PATTERNS, config={"spans_key": component.spans_key}, before=component.name)
        component.check_pipeline()
        self._check_labels(nlp)
        if component.mode == "surrogates":
            component.make_key("")
        return component

    def _check_labels(self, nlp: Language) -> None:
        """Refuse kinds of labels that the pipeline lacks and that are named like one it has."""
        labels = {one for _, pipe in nlp.pipeline for one in getattr(pipe, "labels", ())}
        for label in sorted(set(self.kinds) - labels):
            if hint := suggest(label, labels, 1):
                raise BiomedError(f"--kind {label}: the pipeline has no such label; {hint}")

    def read(self, part: Part) -> Part:
        """The part whose texts are to be de-identified: decoded, if that is asked for."""
        if self.repair:
            part.change = _repair
        return part

    def describe(self, nlp: Language) -> dict[str, object]:
        """The settings that the result depends on; nothing that tells the secret."""
        component = add_deidentifier(nlp)
        has_key = component.mode == "surrogates"
        return {
            "repair": self.repair,
            "mode": component.mode,
            "kinds": self.kinds,
            "components": list(nlp.pipe_names),
            "secret": component.make_key("").digest(16, "secret").hex() if has_key else "",
        }


def _repair(item: Item) -> Item:
    """The item with its text decoded; an error if it still looks encoded."""
    text = repair(item.text)
    if found := find_encodings(text):
        return Item(item.id, error=f"still looks encoded ({found[0]}) with --repair")
    return item._replace(text=text)


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
