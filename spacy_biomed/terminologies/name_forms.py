"""Forms of names under which they are found: without case, accents, punctuation, plural, order."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np
from thinc.types import Ints1d

_MOST_LEFT_OUT = 6
# Buckets of character n-grams.
GRAM_BITS = 17
_GRAM_FACTORS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)

_GREEK = {
    code: f" {unicodedata.name(chr(code)).split()[-1].lower()} " for code in range(0x3B1, 0x3CA)
}
_NO_WORD = re.compile(r"[\W_]+")
_NO_WORD_ASCII = re.compile(r"[^a-z0-9]+")
# Endings of the plural in English, Spanish and Latin; the singular loses its "e" or "is" too, and
# "cicatriz" and "thorax" end like "cicatrices" and "thoraces".
_ENDING = re.compile(r"(?<=\w\w)(?:(ies)|([xz])|es|is|(?<![us])s|e)$")
# Between letters and digits.
_NUMBERED = re.compile(r"(?<=[^\W\d])(?=\d)|(?<=\d)(?=[^\W\d])")
_IRREGULAR = {
    **{"mice": "mouse", "lice": "louse", "geese": "goose", "feet": "foot", "teeth": "tooth"},
    **{"bacteria": "bacterium", "fungi": "fungus", "children": "child", "women": "woman"},
}
# Words that names have or lack without another meaning.
_FILLERS = frozenset(
    (
        *("of", "the", "an", "de", "del", "la", "el", "los", "las", "type", "tipo"),
        *("strain", "strains", "str", "isolate", "sp", "spp", "nov", "gen"),
    )
)
_BINOMIAL = re.compile(r"([a-z])[a-z]* ([a-z]{3,}(?: .+)?)")


def normalize(name: str) -> str:
    """A name in small letters, without accents and punctuation, Greek letters by their names.

    Examples:
        >>> normalize("Interferón-β, (IFN)")
        'interferon beta ifn'
    """
    name = name.lower()
    if name.isascii():
        return _NO_WORD_ASCII.sub(" ", name).strip()
    decomposed = unicodedata.normalize("NFKD", name)
    plain = "".join(one for one in decomposed if not unicodedata.combining(one))
    return _NO_WORD.sub(" ", plain.translate(_GREEK)).strip()


def loosen(key: str) -> str:
    """The words of a normalised name in the singular, without articles and such, sorted.

    Numbers are words: "pcc6803" is "pcc 6803".

    Examples:
        >>> loosen("tumours of the lungs") == loosen("lung tumour")
        True
    """
    words = _NUMBERED.sub(" ", key).split()
    return " ".join(sorted(_singular(word) for word in words if word not in _FILLERS)) or key


def _singular(word: str) -> str:
    word = _IRREGULAR.get(word, word)
    return _ENDING.sub(lambda found: "y" if found[1] else "c" if found[2] else "", word)


def abbreviate(key: str) -> str | None:
    """A normalised binomial with the first letter of its first word, "e coli"; None for others."""
    found = _BINOMIAL.fullmatch(key)
    return f"{found[1]} {found[2]}" if found else None


def hash_key(key: str) -> int:
    """A stable hash of a key, 32 bits (CRC-32)."""
    return crc32(key.encode("utf8", "surrogatepass"))


def find_grams(keys: Sequence[str]) -> tuple[Ints1d, Ints1d]:
    """The distinct character trigrams of keys, which are padded with a space on both sides.

    (grams,) place of the key, and (grams,) bucket of the trigram; sorted by both.
    """
    text = "".join(f" {key} " for key in keys)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype("uint64")
    lengths = np.fromiter((len(key) + 2 for key in keys), "int64", len(keys))
    row = np.repeat(np.arange(len(keys)), lengths)
    mixed = sum(
        codes[place : len(codes) - 2 + place] * np.uint64(factor)
        for place, factor in enumerate(_GRAM_FACTORS)
    )
    bucket = (mixed & np.uint64(0xFFFFFFFF)) >> np.uint64(32 - GRAM_BITS)
    inside = row[:-2] == row[2:]
    pairs = np.unique(row[:-2][inside] << GRAM_BITS | bucket[inside].astype("int64"))
    return pairs >> GRAM_BITS, pairs & (1 << GRAM_BITS) - 1


def list_parts(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The beginnings and ends of a name of several words, longest first; at most six words go."""
    count = len(words)
    for left_out in range(1, min(count, _MOST_LEFT_OUT + 1)):
        for start in range(left_out + 1):
            yield start, start + count - left_out
