"""Sentences and documents that were there before, with what is remembered of them on disk."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from unicodedata import normalize as normalize_unicode
from zlib import crc32

import numpy as np

from ..errors import BiomedError

# Shingles that are hashed at a time: the memory that a long document takes is bounded so.
_SHINGLES_AT_A_TIME = 4096

# Documents that one is compared with for each band that they share, so that many from one mould
# that are not quite near duplicates of each other take no quadratic time.
_MAX_CANDIDATES = 20

_CACHE_KILOBYTES = 16384

_ACCENT = re.compile("[\u0300-\u036f]")
# Words and numbers, and the signs whose presence changes what a result means.
_TOKEN = re.compile(r"\w+|[+<>=±≤≥%]")


def normalize(text: str) -> str:
    """What has to be equal in two texts for them to be duplicates.

    Case, accents (which old files and capitals lack), kinds of white space, ligatures and the like
    (Unicode's NFKD) and punctuation make no difference. Digits and the signs + < > = ± ≤ ≥ % do:
    findings that differ in nothing else are not the same finding.

    Returns:
        the words in lower case and the signs, with single blanks between them.
    """
    text = text.casefold()
    if not text.isascii():
        text = _ACCENT.sub("", normalize_unicode("NFKD", text))
    return " ".join(_TOKEN.findall(text))


def hash_text(text: str) -> int:
    """A hash of 64 bits, signed, as SQLite's integers are."""
    return _hash_bytes(text.encode())


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """When documents are near duplicates of each other.

    Attributes:
        similarity: Jaccard similarity of their sets of shingles from which on they are.
        shingle_words: words in a shingle. With five, as Lee et al. (2022, "Deduplicating Training
            Data Makes Language Models Better") take, a document has few shingles that others have
            too.
        permutations: hash functions of a MinHash signature; the estimate of a similarity s has a
            standard deviation of √(s (1 - s) / permutations), 0.035 for 0.8 and 128.
    """

    similarity: float = 0.8
    shingle_words: int = 5
    permutations: int = 128


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is remembered of a document to find near duplicates of it.

    Attributes:
        signature: MinHash values, little-endian, 4 bytes each.
        bands: a hash of each band of the signature; documents with a band in common are compared.
    """

    signature: bytes
    bands: tuple[int, ...]


class Sketcher:
    """Makes sketches: MinHash with banding (Leskovec et al., "Mining of Massive Datasets", ch. 3).

    datasketch computes the signatures and chooses number and size of the bands (`choose_bands`).

    Raises:
        BiomedError: if datasketch is not installed.
    """

    def __init__(self, settings: NearDuplicates):
        if find_spec("datasketch") is None:
            raise BiomedError(
                "to find near duplicates needs datasketch: pip install 'spacy-biomed[train]'"
            )
        from datasketch import MinHash

        self.bands, self.rows = choose_bands(settings.similarity, settings.permutations)
        self.shingle_words = settings.shingle_words
        self._empty = MinHash(num_perm=settings.permutations, hashfunc=crc32)

    def sketch(self, text: str) -> Sketch | None:
        """text: normalised. RETURNS: None if it is shorter than a shingle."""
        words = text.encode().split()
        count = len(words) - self.shingle_words + 1
        if count < 1:
            return None
        minhash = self._empty.copy()
        for first in range(0, count, _SHINGLES_AT_A_TIME):
            starts = range(first, min(first + _SHINGLES_AT_A_TIME, count))
            minhash.update_batch(b" ".join(words[i : i + self.shingle_words]) for i in starts)
        values = minhash.hashvalues.astype("<u4")
        bands = values[: self.bands * self.rows].reshape(self.bands, self.rows)
        keys = tuple(_hash_bytes(bytes([i]) + band.tobytes()) for i, band in enumerate(bands))
        return Sketch(values.tobytes(), keys)


@cache
def choose_bands(similarity: float, permutations: int) -> tuple[int, int]:
    """Number and size of the bands.

    Documents that share a band without being similar cost no more than a comparison of signatures,
    so similar ones that share none weigh nine times as much: of those with similarity 0.8 (0.85,
    0.9), 87 (97.5, 99.9) in 100 share one of 14 bands of 9 values.
    """
    from datasketch import MinHashLSH

    index = MinHashLSH(threshold=similarity, num_perm=permutations, weights=(0.1, 0.9))
    return index.b, index.r


class DuplicateIndex:
    """What was there before, in an SQLite file; memory does not grow with it.

    Sources are given by number, in the order in which they come. Texts are known by hashes of 64
    bits: of n different texts, n²/2⁶⁵ are taken for duplicates, 0.03 of a billion.

    Attributes:
        path: file to create; it is of no use afterwards.
        similarity: from which on documents are near duplicates.
    """

    def __init__(self, path: Path, similarity: float):
        self.similarity = similarity
        self.connection = sqlite3.connect(path, isolation_level=None)
        for statement in _SCHEMA:
            self.connection.execute(statement)

    def close(self) -> None:
        self.connection.close()

    def last_source(
        self, kind: Literal["sentence", "document"], key: int, source: int
    ) -> int | None:
        """The source in which a text with this key was last, None if nowhere; now it is `source`.

        So a text that is in a source twice, and in an earlier one, is once a duplicate of the other
        source and once within its own.
        """
        row = self.connection.execute(f"SELECT source FROM {kind} WHERE key = ?", (key,)).fetchone()
        if row is None or row[0] != source:
            self.connection.execute(f"INSERT OR REPLACE INTO {kind} VALUES (?, ?)", (key, source))
        return None if row is None else row[0]

    def find_near(self, sketch: Sketch, source: int) -> int | None:
        """The source of a document that is near to this one, `source` itself if there is one in it.

        Documents are compared with those that were added, and only those that are kept should be.
        """
        candidates: set[int] = set()
        for band in sketch.bands:
            query = "SELECT id FROM band WHERE key = ? LIMIT ?"
            candidates.update(
                id for (id,) in self.connection.execute(query, (band, _MAX_CANDIDATES))
            )
        own = np.frombuffer(sketch.signature, dtype="<u4")
        found = None
        for candidate in sorted(candidates):
            query = "SELECT source, signature FROM near WHERE id = ?"
            ((other_source, signature),) = self.connection.execute(query, (candidate,))
            if np.mean(own == np.frombuffer(signature, dtype="<u4")) >= self.similarity:
                if other_source == source:
                    return source
                found = other_source
        return found

    def add_near(self, sketch: Sketch, source: int) -> None:
        """Remember a document that is kept."""
        cursor = self.connection.execute(
            "INSERT INTO near (source, signature) VALUES (?, ?)", (source, sketch.signature)
        )
        rows = [(band, cursor.lastrowid) for band in sketch.bands]
        self.connection.executemany("INSERT OR IGNORE INTO band VALUES (?, ?)", rows)


# The file is thrown away whatever happens, so nothing is done to keep it whole.
_SCHEMA = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    f"PRAGMA cache_size = -{_CACHE_KILOBYTES}",
    "CREATE TABLE sentence (key INTEGER PRIMARY KEY, source INTEGER NOT NULL)",
    "CREATE TABLE document (key INTEGER PRIMARY KEY, source INTEGER NOT NULL)",
    "CREATE TABLE near (id INTEGER PRIMARY KEY, source INTEGER NOT NULL, signature BLOB NOT NULL)",
    "CREATE TABLE band (key INTEGER, id INTEGER, PRIMARY KEY (key, id)) WITHOUT ROWID",
    "BEGIN",
)


def _hash_bytes(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)
