"""A terminology on disk: the names of concepts, and where to find them, read in place.

The files are NumPy arrays that are mapped into memory, so that opening one takes milliseconds, and
processes share it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from thinc.types import Floats1d, Ints1d

from ..errors import BiomedError
from ..files.outputs import replacing_directory
from .name_forms import GRAM_BITS, abbreviate, find_grams, hash_key, loosen, normalize
from .term_formats import Term, read_terms

MADE_BY = "spacy biomed terminology build"
META = "terminology.json"
VERSION = 1

# Trigrams of a name that it is found by: the rarest.
POSTED_GRAMS = 8
# Names that are compared with a searched one, those with the most posted trigrams in common.
_COMPARED = 24
_MOST_POSTINGS = 30_000
_MOST_MATCHES = 64
_CHUNK = 100_000
_FORMS: dict[str, Callable[[str], str | None]]
_FORMS = {"normal": str, "abbreviated": abbreviate, "loose": loosen}


class Match(NamedTuple):
    """A name of a terminology that fits another.

    Attributes:
        concept: its place in the terminology.
        name: as the terminology writes it.
        form: "normal" if the names are the same but for case, accents and punctuation, "loose" if
            also but for plural and word order, "abbreviated" ("E. coli"), "similar".
        similarity: the cosine of trigrams, from 0 to 1.
    """

    concept: int
    name: str
    form: str
    similarity: float
    is_preferred: bool


class Concept(NamedTuple):
    """A concept of a terminology.

    Attributes:
        id: as the terminology has it.
        type: "" without one.
        parent: the place of a broader concept; None without one.
        usualness: the logarithm of the number of its narrower concepts and of its names.
    """

    id: str
    type: str
    parent: int | None
    usualness: float


class Terminology:
    """A terminology that `build_terminology` wrote to a directory.

    Attributes:
        meta: `name`, `format`, `version`, `licence`, numbers of `concepts` and `names`, `types`.

    Raises:
        BiomedError: if it is not one, or of another version.

    Examples:
        >>> terminology = Terminology("terms/taxonomy")  # doctest: +SKIP
        >>> [terminology.describe(one.concept).id for one in terminology.find("mus musculus")]
        ... # doctest: +SKIP
        ['10090']
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        try:
            self.meta: dict[str, Any] = json.loads((self.path / META).read_text(encoding="utf8"))
            if self.meta["layout"] != VERSION:
                raise ValueError(f"its layout is {self.meta['layout']} and not {VERSION}")
            self._arrays = {
                name: np.asarray(np.load(self.path / f"{name}.npy", mmap_mode="r"))
                for name in self.meta["arrays"]
            }
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BiomedError(
                f"{self.path}: not a terminology ({reason}); write one with `python -m spacy "
                "biomed terminology build`, or give the path of one that was moved"
            ) from error

    def __reduce__(self) -> tuple[type[Terminology], tuple[Path]]:
        return Terminology, (self.path,)

    def __len__(self) -> int:
        return len(self._arrays["ids"])

    def find(self, key: str) -> list[Match]:
        """The names whose normalised form, loose form or abbreviation is a key."""
        hashes, wanted = self._arrays["key_hashes"], hash_key(key)
        first = int(hashes.searchsorted(hashes.dtype.type(wanted)))
        same = hashes[first : first + _MOST_MATCHES] == wanted
        matches = []
        for name in self._arrays["key_names"][first : first + len(same)][same].tolist():
            text = self._read_name(name)
            normal = normalize(text)
            form = next((form for form, write in _FORMS.items() if write(normal) == key), None)
            if form:  # else another key with the same hash
                matches.append(self._match(name, text, form, 1.0))
        return matches

    def search(self, key: str, limit: int = 8, least: float = 0.5) -> list[Match]:
        """At most `limit` names whose trigrams are most similar to those of a normalised name.

        `least` is the smallest cosine of the trigrams, weighted by the logarithm of their rarity.
        """
        _, grams = find_grams([key])
        names = self._list_sharing(grams)
        if not len(names):
            return []
        texts = [self._read_name(name) for name in names.tolist()]
        row, of_names = find_grams(list(map(normalize, texts)))
        weight = self._arrays["gram_idf"][of_names] ** 2
        shared = np.bincount(row, weight * np.isin(of_names, grams), len(texts))
        size = np.bincount(row, weight, len(texts))
        own = float((self._arrays["gram_idf"][grams] ** 2).sum())
        cosine = shared / np.sqrt(size * own + 1e-9)
        best = np.argsort(-cosine, kind="stable")[:limit].tolist()
        return [
            self._match(int(names[place]), texts[place], "similar", float(cosine[place]))
            for place in best
            if cosine[place] >= least
        ]

    def _list_sharing(self, grams: Ints1d) -> Ints1d:
        """The names that share the most of these trigrams, among those that they are found by."""
        starts = self._arrays["gram_starts"]
        first, last = starts[grams].astype("int64"), starts[grams + 1].astype("int64")
        order = np.argsort(last - first, kind="stable")
        taken = order[np.cumsum((last - first)[order]) <= _MOST_POSTINGS]
        posted = [self._arrays["gram_names"][first[one] : last[one]] for one in taken.tolist()]
        if not posted:
            return np.zeros(0, dtype="int32")
        names, count = np.unique(np.concatenate(posted), return_counts=True)
        if len(names) > _COMPARED:
            names = names[np.argpartition(-count, _COMPARED)[:_COMPARED]]
        return names

    def get_place(self, id: str) -> int | None:
        """The place of a concept by its id."""
        return _find_place(self._arrays["ids"], id)

    def find_present_id(self, id: str) -> str:
        """The id of the concept into which that of an id was merged; else the id itself."""
        former = self._arrays.get("former_ids")
        place = None if former is None else _find_place(former, id)
        if place is None:
            return id
        return self.describe(int(self._arrays["former_concepts"][place])).id

    def get_name(self, concept: int) -> str:
        """The preferred name of a concept."""
        return self._read_name(int(self._arrays["first_names"][concept]))

    def describe(self, concept: int) -> Concept:
        """What is known of a concept."""
        parent = int(self._arrays["parents"][concept])
        return Concept(
            self._arrays["ids"][concept].decode(),
            self.meta["types"][int(self._arrays["types"][concept])],
            None if parent < 0 else parent,
            float(self._arrays["usualness"][concept]),
        )

    def _read_name(self, name: int) -> str:
        starts = self._arrays["name_starts"]
        return self._arrays["name_bytes"][starts[name] : starts[name + 1]].tobytes().decode()

    def _match(self, name: int, text: str, form: str, similarity: float) -> Match:
        firsts = self._arrays["first_names"]
        concept = int(firsts.searchsorted(firsts.dtype.type(name), "right")) - 1
        return Match(concept, text, form, similarity, int(firsts[concept]) == name)


def build_terminology(
    path: Path,
    output: Path,
    *,
    format: str,
    language: str | None = None,
    name: str = "",
    version: str = "",
    licence: str = "",
) -> dict[str, object]:
    """Read a terminology as it is published, and write the directory that `Terminology` opens.

    Args:
        path, format, language: as for `read_terms`.
        output: directory to write; replaced if a terminology is there.
        name, version, licence: for the meta; by default what the file says.

    Returns:
        the meta.

    Raises:
        BiomedError: as `read_terms` does, or if the output cannot be written.
    """
    with replacing_directory(output, MADE_BY, [path]) as partial:
        terms, found = read_terms(path, format, language)
        arrays, types = _index(terms)
        for array, values in arrays.items():
            np.save(partial / f"{array}.npy", values)
        meta = {
            "layout": VERSION,
            "name": name or output.name,
            "format": format,
            "version": version or found.get("version", ""),
            "licence": licence or found.get("licence", ""),
            "language": language or "",
            "concepts": len(terms),
            "names": int(arrays["first_names"][-1]),
            "types": types,
            "arrays": sorted(arrays),
        }
        (partial / META).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf8")
    return meta


def _index(terms: list[Term]) -> tuple[dict[str, np.ndarray], list[str]]:
    ids = np.array([term.id.encode("utf8", "replace") for term in terms])
    order = np.argsort(ids, kind="stable")
    terms = [terms[place] for place in order.tolist()]
    ids = ids[order]
    places = {term.id: place for place, term in enumerate(terms)}
    parents = np.array([places.get(term.parent, -1) for term in terms], dtype="int32")
    parents[parents == np.arange(len(terms))] = -1
    types = sorted({term.type for term in terms})
    numbers = {type: number for number, type in enumerate(types)}
    counts = np.array([len(term.names) for term in terms])
    names = [name for term in terms for name in term.names]
    encoded = [name.encode("utf8", "replace") for name in names]
    keys = [normalize(name) for name in names]
    arrays = {
        "ids": ids,
        "types": np.array([numbers[term.type] for term in terms], dtype="uint32"),
        "parents": parents,
        "usualness": np.log1p(_count_narrower(parents) + counts - 1).astype("float16"),
        "first_names": np.append(0, np.cumsum(counts)).astype("int32"),
        "name_bytes": np.frombuffer(b"".join(encoded), dtype="uint8"),
        "name_starts": _starts(np.fromiter(map(len, encoded), "int64", len(encoded))),
        **_index_keys(keys),
        **_index_grams(keys),
    }
    former = sorted((old, place) for place, term in enumerate(terms) for old in term.former)
    if former:
        old_ids, concepts = zip(*former, strict=True)
        arrays["former_ids"] = np.array([id.encode("utf8", "replace") for id in old_ids])
        arrays["former_concepts"] = np.array(concepts, dtype="int32")
    return arrays, types


def _find_place(ids: np.ndarray, id: str) -> int | None:
    """The place of an id in a sorted array."""
    wanted = id.encode()
    place = int(ids.searchsorted(np.bytes_(wanted))) if wanted else len(ids)
    return place if place < len(ids) and ids[place] == wanted else None


def _starts(sizes: Ints1d) -> Ints1d:
    """(sizes + 1,) where parts of these sizes begin."""
    starts = np.append(0, np.cumsum(sizes))
    return starts.astype("uint32" if starts[-1] < 1 << 32 else "uint64")


def _count_narrower(parents: Ints1d) -> Ints1d:
    """(concepts,) the number of concepts below each."""
    count = np.zeros(len(parents), dtype="int64")
    above = parents[parents >= 0]
    for _ in range(200):  # more only where concepts are in a circle
        if not len(above):
            break
        count += np.bincount(above, minlength=len(parents))
        above = parents[above]
        above = above[above >= 0]
    return count


def _index_keys(keys: Sequence[str]) -> dict[str, np.ndarray]:
    """The hashes of normalised names, loose forms and abbreviations, sorted, with their names."""
    found: list[int] = []
    names: list[int] = []
    for name, key in enumerate(keys):
        for form in filter(None, {key, loosen(key), abbreviate(key)}):
            found.append(hash_key(form))
            names.append(name)
    hashes = np.array(found, dtype="uint32")
    order = np.argsort(hashes, kind="stable")
    return {"key_hashes": hashes[order], "key_names": np.array(names, dtype="int32")[order]}


def _index_grams(keys: Sequence[str]) -> dict[str, np.ndarray]:
    """The names of each trigram that they are found by, and the rarity of trigrams."""
    count = np.zeros(1 << GRAM_BITS, dtype="int64")
    for first in range(0, len(keys), _CHUNK):
        _, gram = find_grams(keys[first : first + _CHUNK])
        count += np.bincount(gram, minlength=len(count))
    idf: Floats1d = np.log((len(keys) + 1) / (count + 1)).astype("float32") + 1
    names, grams = [], []
    for first in range(0, len(keys), _CHUNK):
        row, gram = find_grams(keys[first : first + _CHUNK])
        order = np.lexsort((count[gram], row))
        row, gram = row[order], gram[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        names.append((row + first)[rank < POSTED_GRAMS].astype("int32"))
        grams.append(gram[rank < POSTED_GRAMS].astype("int32"))
    posted = np.concatenate(grams)
    order = np.argsort(posted, kind="stable")
    return {
        "gram_idf": idf,
        "gram_starts": _starts(np.bincount(posted, minlength=len(count))),
        "gram_names": np.concatenate(names)[order],
    }
