"""Choices that follow from a secret and a scope, and from nothing else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

# What nobody has to be kept from guessing: 32 bytes, as `secrets.token_hex()` prints them.
_RANDOM_SECRET = re.compile(r"[0-9a-fA-F]{64,}")

# Parameters of scrypt (Percival and Josefsson 2016, RFC 7914): 32 MiB of memory, three times. The
# salt is the same for all, so that a secret gives the same surrogates on every machine.
_SCRYPT = {"n": 2**15, "r": 8, "p": 3, "maxmem": 2**26, "dklen": 64}
_SALT = b"spacy-biomed surrogates"


@lru_cache(maxsize=16)
def derive_key(secret: str) -> bytes:
    """The key that a secret stands for.

    64 hexadecimal digits or more are taken as they are. What else there is may be a passphrase that
    somebody made up, so it goes through scrypt: each guess then costs as much as this call, which a
    process makes once.
    """
    given = secret.encode("utf8", "surrogateescape")
    if _RANDOM_SECRET.fullmatch(secret):
        return given
    return hashlib.scrypt(given, salt=_SALT, **_SCRYPT)


class DocumentKey:
    """Choices that nobody can compute, or compute back, without the secret.

    They come from a keyed hash, BLAKE2b (Aumasson et al. 2013, "BLAKE2: simpler, smaller, fast as
    MD5"), so they hang neither on the order of documents nor on the process, nor on any other
    choice.

    Attributes:
        secret: the key; without one, whoever knows seed and scope can compute the choices.
        seed: other seeds give other choices.
        scope: within which the same value has the same choice: the text of a document, or what
            several documents share, such as the identifier of a patient.
    """

    def __init__(self, secret: bytes, seed: int, scope: str):
        # A key of BLAKE2b has at most 64 bytes, and a secret may be longer.
        key = blake2b(secret).digest()
        self._key = blake2b(_encode(str(seed), scope), key=key).digest()

    def digest(self, size: int, *what: str) -> bytes:
        """1 to 64 bytes.

        Args:
            what: what they are for; the same gives the same bytes.
        """
        return blake2b(_encode(*what), key=self._key, digest_size=size).digest()

    def number(self, below: int, *what: str) -> int:
        """A number from 0 to below - 1, each as likely, for purposes as in `digest`."""
        # Of 128 bits, so that what is left over in the division is too little to be seen.
        return int.from_bytes(self.digest(16, *what), "big") % below

    def choose(self, options: Sequence[str], *what: str) -> str:
        """One of the options, each as likely."""
        return options[self.number(len(options), *what)]


def _encode(*parts: str) -> bytes:
    """Strings as bytes, with their lengths, so that no two lists of strings are the same bytes."""
    encoded = [part.encode("utf8", "surrogatepass") for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
