"""Find duplicate sentences and documents, with an index on disk."""

import re
import sqlite3
from dataclasses import dataclass
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from zlib import crc32

import numpy as np

from ..errors import BiomedError, install_command
from ..normalization import strip_accents

# Shingles that are hashed at a time, to limit the memory for a long document.
_SHINGLES_AT_A_TIME = 4096

# Maximum number of documents to compare for each shared band. Many documents from a template, just
# below the threshold, would take quadratic time.
_MAX_CANDIDATES = 20

# Words and numbers, and the signs that change the meaning of a result.
_TOKEN = re.compile(r"\w+|[+<>=±≤≥%]")


def normalize(text: str) -> str:
    """Normalise a text to words in lower case and signs, so that duplicates become equal.

    Case, accents, white space, compatibility characters such as ligatures (NFKD) and punctuation
    are ignored. Digits and the signs + < > = ± ≤ ≥ % are kept, since they make other results.
    """
    return " ".join(_TOKEN.findall(strip_accents(text.casefold(), "NFKD")))


def hash_text(text: str | bytes) -> int:
    """A hash of 64 bits, signed like SQLite's integers."""
    data = text.encode() if isinstance(text, str) else text
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """The definition of near duplicates.

    Attributes:
        similarity: minimum Jaccard similarity of the sets of shingles of two documents.
        shingle_words: words in a shingle; five as in Lee et al. (2022, "Deduplicating Training
            Data Makes Language Models Better").
        permutations: hash functions of a MinHash signature. The estimate of a similarity s has a
            standard deviation of √(s (1 - s) / permutations), 0.035 for 0.8 and 128.
    """

    similarity: float = 0.8
    shingle_words: int = 5
    permutations: int = 128


@dataclass(frozen=True, slots=True)
class Sketch:
    """What is stored of a document to find its near duplicates, which share the hash of a band.

    The signature has MinHash values, little-endian, of 4 bytes.
    """

    signature: bytes
    bands: tuple[int, ...]


class Sketcher:
    """Makes sketches: MinHash with banding (Leskovec et al., "Mining of Massive Datasets", ch. 3).

    datasketch computes the signatures and chooses the bands. A false positive only costs a
    comparison of signatures, so a false negative has nine times its weight. For a similarity of 0.8
    and 128 permutations, of the pairs with similarity 0.8 (0.85, 0.9), 87 % (97.5 %, 99.9 %) share
    one of 14 bands of 9 values.
    """

    def __init__(self, settings: NearDuplicates):
        if find_spec("datasketch") is None:
            raise BiomedError(f"near duplicates need datasketch: {install_command('train')}")
        from datasketch import MinHash, MinHashLSH

        count = settings.permutations
        bands = MinHashLSH(threshold=settings.similarity, num_perm=count, weights=(0.1, 0.9))
        self.bands, self.rows = bands.b, bands.r
        self.shingle_words = settings.shingle_words
        self._empty = MinHash(num_perm=count, hashfunc=crc32)

    def sketch(self, text: str) -> Sketch | None:
        """Make the sketch of a normalised text; None if it is shorter than a shingle."""
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
        keys = tuple(hash_text(bytes([i]) + band.tobytes()) for i, band in enumerate(bands))
        return Sketch(values.tobytes(), keys)


class DuplicateIndex:
    """The index of earlier texts, in a temporary SQLite file, so that memory does not grow.

    Sources are numbered in their order. Texts are identified by hashes of 64 bits: of n different
    texts, about n²/2⁶⁵ are wrongly found to be duplicates, 0.03 of a billion.
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
        """The source of the last text with this key, if any; `source` is stored as the new one.

        So a text that occurs twice in a source, and once in an earlier source, counts once as a
        duplicate of the earlier source and once as a duplicate in the same source.
        """
        row = self.connection.execute(f"SELECT source FROM {kind} WHERE key = ?", (key,)).fetchone()
        if row is None or row[0] != source:
            self.connection.execute(f"INSERT OR REPLACE INTO {kind} VALUES (?, ?)", (key, source))
        return None if row is None else row[0]

    def find_near(self, sketch: Sketch, source: int) -> int | None:
        """The source of a near duplicate that was added, `source` if it has one; else None."""
        candidates: set[int] = set()
        for band in sketch.bands:
            query = "SELECT id FROM band WHERE key = ? LIMIT ?"
            rows = self.connection.execute(query, (band, _MAX_CANDIDATES))
            candidates.update(id for (id,) in rows)
        searched = np.frombuffer(sketch.signature, dtype="<u4")
        found = None
        for candidate in sorted(candidates):
            query = "SELECT source, signature FROM near WHERE id = ?"
            ((other_source, signature),) = self.connection.execute(query, (candidate,))
            if np.mean(searched == np.frombuffer(signature, dtype="<u4")) >= self.similarity:
                if other_source == source:
                    return source
                found = other_source
        return found

    def add_near(self, sketch: Sketch, source: int) -> None:
        """Add a document that is kept."""
        cursor = self.connection.execute(
            "INSERT INTO near (source, signature) VALUES (?, ?)", (source, sketch.signature)
        )
        rows = [(band, cursor.lastrowid) for band in sketch.bands]
        self.connection.executemany("INSERT OR IGNORE INTO band VALUES (?, ?)", rows)


# The file is deleted in any case, so it needs no protection against crashes.
_SCHEMA = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA cache_size = -16384",  # in kilobytes
    "CREATE TABLE sentence (key INTEGER PRIMARY KEY, source INTEGER NOT NULL)",
    "CREATE TABLE document (key INTEGER PRIMARY KEY, source INTEGER NOT NULL)",
    "CREATE TABLE near (id INTEGER PRIMARY KEY, source INTEGER NOT NULL, signature BLOB NOT NULL)",
    "CREATE TABLE band (key INTEGER, id INTEGER, PRIMARY KEY (key, id)) WITHOUT ROWID",
    "BEGIN",
)
