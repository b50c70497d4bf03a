"""Pseudorandom choices that depend only on a secret, a seed and a scope."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

# Secrets that cannot be guessed: at least 32 bytes, as `secrets.token_hex()` prints them.
_RANDOM_SECRET = re.compile(r"[0-9a-fA-F]{64,}")

# Parameters of scrypt (Percival and Josefsson 2016, RFC 7914): 32 MiB of memory, three times. The
# salt is constant, so that a secret gives the same surrogates on every machine.
_SCRYPT = {"n": 2**15, "r": 8, "p": 3, "maxmem": 2**26, "dklen": 64}
_SALT = b"spacy-biomed surrogates"


@lru_cache(maxsize=16)
def derive_key(secret: str) -> bytes:
    """Derive a key from a secret.

    64 hexadecimal digits or more are used directly. Any other secret may be a passphrase that can
    be guessed, so it is hashed with scrypt: each guess then costs as much as this call, which a
    process makes once.
    """
    given = secret.encode("utf8", "surrogateescape")
    if _RANDOM_SECRET.fullmatch(secret):
        return given
    return hashlib.scrypt(given, salt=_SALT, **_SCRYPT)


class DocumentKey:
    """Pseudorandom choices that cannot be computed or inverted without the secret.

    They come from a keyed hash, BLAKE2b (Aumasson et al. 2013, "BLAKE2: simpler, smaller, fast as
    MD5"). So they do not depend on the order of documents, on the process or on other choices.

    Attributes:
        secret: the key; if it is empty, anybody who knows seed and scope can compute the choices.
        seed: changes all choices.
        scope: the same value has the same choice within a scope: the text of a document, or a
            string that several documents share, such as the identifier of a patient.
    """

    def __init__(self, secret: bytes, seed: int, scope: str):
        # A BLAKE2b key has at most 64 bytes, and a secret may be longer.
        key = blake2b(secret).digest()
        self._key = blake2b(_encode(str(seed), scope), key=key).digest()

    def digest(self, size: int, *what: str) -> bytes:
        """Pseudorandom bytes, 1 to 64, for a purpose: the same strings give the same bytes."""
        return blake2b(_encode(*what), key=self._key, digest_size=size).digest()

    def number(self, below: int, *what: str) -> int:
        """A uniformly distributed number from 0 to below - 1, for a purpose as in `digest`."""
        # From 128 bits, so that the bias of the division is negligible.
        return int.from_bytes(self.digest(16, *what), "big") % below

    def choose(self, options: Sequence[str], *what: str) -> str:
        """One of the options, uniformly distributed, for a purpose as in `digest`."""
        return options[self.number(len(options), *what)]


def _encode(*parts: str) -> bytes:
    """Encode strings with their lengths, so that different lists never give the same bytes."""
    encoded = [part.encode("utf8", "surrogatepass") for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
