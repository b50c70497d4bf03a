"""Encrypted originals of de-identified texts, from which the texts can be restored.

Each line is a token of Fernet (AES in CBC mode with HMAC-SHA256, of the package `cryptography`) for
a document: the number of the document, a hash of its de-identified text, and the offsets there and
the original of each replacement. So no line can be changed, or used for another document.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BiomedError, install_command
from ..outputs import replacing_file

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

    from ..annotations.deidentified import Deidentified

KEY_VARIABLE = "SPACY_BIOMED_VAULT_KEY"
_MAKE_KEY = (
    '`python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"`'
)


def read_vault_key(file: Path | None) -> bytes:
    """Read the key of a vault from a file, or from the environment variable.

    Raises:
        BiomedError: if there is none, it is no key of Fernet, or `cryptography` is not installed.
    """
    where = KEY_VARIABLE if file is None else str(file)
    try:
        given = os.environ.get(KEY_VARIABLE) if file is None else file.read_text(encoding="utf8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise BiomedError(f"{file}: the key cannot be read ({reason}); check the file") from None
    if given is None:
        raise BiomedError(
            f"a vault needs a key: set {KEY_VARIABLE}, or give --vault-key-file, to what "
            f"{_MAKE_KEY} prints, and keep it apart from the vault"
        )
    key = given.strip().encode()
    _create_cipher(key, where)
    return key


@contextmanager
def writing_vault(vault: Path, key: bytes) -> Iterator[Callable[[Deidentified], None]]:
    """Yields a function that adds a document; the file, of mode 600, appears at the end.

    Args:
        vault: file to write.
        key: see `read_vault_key`.
    """
    cipher, numbers = _create_cipher(key, "the key"), count()
    with replacing_file(vault) as partial:
        partial.chmod(0o600)
        with partial.open("wb") as file:

            def add(document: Deidentified) -> None:
                originals = [
                    (one.new_start, one.new_end, document.original[one.start : one.end])
                    for one in document.replacements
                ]
                row = [next(numbers), _hash(document.text), originals]
                file.write(cipher.encrypt(json.dumps(row).encode()) + b"\n")

            yield add


class Vault:
    """The originals of de-identified documents, in their order.

    Attributes:
        path: file of the vault.
    """

    def __init__(self, path: Path, lines: list[bytes], cipher: Fernet):
        self.path, self._lines, self._cipher = path, lines, cipher

    def __len__(self) -> int:
        return len(self._lines)

    def restore(self, number: int, place: str, text: str) -> str:
        """The original of a de-identified text.

        Args:
            number: of the document, from 0.
            place: of the document, for messages.
            text: as it was written with the vault.

        Raises:
            BiomedError: if the text is not that of the vault, or the key is another.
        """
        from cryptography.fernet import InvalidToken

        if number >= len(self):
            raise BiomedError(f"{place}: {self.path} has {len(self)} documents; give its texts")
        try:
            stored, digest, originals = json.loads(self._cipher.decrypt(self._lines[number]))
        except InvalidToken:
            raise BiomedError(
                f"{self.path}:{number + 1}: cannot be decrypted; give the key that it was written "
                "with"
            ) from None
        if (stored, digest) != (number, _hash(text)):
            raise BiomedError(
                f"{place}: not the text that {self.path} was written with; give the unchanged "
                "texts, in their order"
            )
        for start, end, original in reversed(originals):
            text = text[:start] + original + text[end:]
        return text


def open_vault(path: Path, key: bytes) -> Vault:
    """Read a vault.

    Raises:
        BiomedError: if the file cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BiomedError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    return Vault(path, lines, _create_cipher(key, "the key"))


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _create_cipher(key: bytes, where: str) -> Fernet:
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise BiomedError(f"a vault needs cryptography: {install_command('vault')}") from None
    try:
        return Fernet(key)
    except ValueError:
        raise BiomedError(f"{where}: no key of a vault; use what {_MAKE_KEY} prints") from None
