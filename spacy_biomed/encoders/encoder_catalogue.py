"""The encoders that the package knows by name, read from `encoder_catalogue.json`."""

import json
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class EncoderEntry:
    """The catalogue entry of one encoder.

    Attributes:
        name: identifier, lower case with hyphens.
        hub_id: its id on the hub; None if its authors publish it elsewhere (see `download`).
        revision: commit of the hub repository to load; None if none is pinned, which loads the
            newest.
        language: ISO 639-1 code, or "multilingual".
        cased: whether it distinguishes capitals from small letters; None if unknown.
        parameters: number of parameters, without pooler and pretraining head.
        layers, width: number of transformer layers; size of their output vectors.
        vocabulary, vocabulary_size: "WordPiece", "byte-level BPE", "BPE with byte fallback" or
            "SentencePiece unigram"; number of entries, None if unknown.
        licence: licence of the weights as their authors state it, or "not stated".
        paper: short reference to the paper that introduced it.
        papers: which of the five papers evaluate or release it, numbered as in `docs/encoders.md`.
        aliases: other names that `find_encoder` accepts.
        download: page or archive of the weights if there is no hub id.
    """

    name: str
    hub_id: str | None
    revision: str | None
    language: str
    cased: bool | None
    parameters: int
    layers: int
    width: int
    vocabulary: str
    vocabulary_size: int | None
    licence: str
    paper: str
    papers: tuple[int, ...] = ()
    aliases: tuple[str, ...] = ()
    download: str | None = None
    notes: str = ""

    @property
    def forbids_commercial_use(self) -> bool:
        """Whether the licence says so by its name; False also for an unknown licence."""
        return bool(re.search(r"\bnc\b|non-?commercial", self.licence, re.IGNORECASE))


@cache
def all_encoders() -> tuple[EncoderEntry, ...]:
    """Every encoder in the catalogue: biomedical, Spanish, and those they start from."""
    from pydantic import TypeAdapter

    text = files(__package__).joinpath("encoder_catalogue.json").read_text(encoding="utf-8")
    entries = TypeAdapter(list[EncoderEntry]).validate_python(json.loads(text)["encoders"])
    return tuple(entries)


def find_encoder(name: str) -> EncoderEntry | None:
    """The entry with this name or hub id; None if the catalogue has neither.

    Names ignore case, accents and hyphens, and common aliases work. Anything with a slash is a hub
    id or a path, and only a complete hub id matches.

    >>> find_encoder("BSC-Bio-EHR-ES").hub_id
    'PlanTL-GOB-ES/bsc-bio-ehr-es'
    >>> find_encoder("./biobert") is None
    True
    """
    if "/" in name or "\\" in name:
        ids = {entry.hub_id.lower(): entry for entry in all_encoders() if entry.hub_id}
        return ids.get(name.lower())
    wanted = _normalise(name)
    named = ((entry, {entry.name, *entry.aliases}) for entry in all_encoders())
    return next((entry for entry, names in named if wanted in map(_normalise, names)), None)


def _normalise(name: str) -> str:
    """Normalise a name: 'mBERT-Galén', 'mbert_galen' and 'MBERT Galen' are the same."""
    plain = unicodedata.normalize("NFKD", name.lower())
    return re.sub(r"[^a-z0-9]+", "", plain)
