"""Encrypted originals of de-identified texts, from which the texts can be restored.

Each line is a token of Fernet (AES in CBC mode with HMAC-SHA256, of the package `cryptography`) for
one document. It holds a random identifier, which the output has too, the name of the document
there, a hash of its de-identified text and its other fields, and each replacement with its offsets
and its original. So no line can be changed, or used for another document or output.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BiomedError, install_command
from ..files.outputs import replacing_file

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

    from ..annotations.deidentified import Deidentified

KEY_VARIABLE = "SPACY_BIOMED_VAULT_KEY"
IDENTIFIER = ".vault-id"
_MAKE_KEY = (
    '`python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"`'
)


def read_vault_key(file: Path | None) -> bytes:
    """Read the key of a vault from a file, or from the environment variable, and check it."""
    where = KEY_VARIABLE if file is None else str(file)
    given = os.environ.get(KEY_VARIABLE) if file is None else read_secret(file, "key")
    if given is None:
        raise BiomedError(
            f"a vault needs a key: set {KEY_VARIABLE}, or give --vault-key-file, to what "
            f"{_MAKE_KEY} prints, and keep it apart from the vault"
        )
    key = given.strip().encode()
    _create_cipher(key, where)
    return key


def read_secret(path: Path, what: str = "secret") -> str:
    """Read a secret, or a key, from a file; no message has anything of its content."""
    try:
        return path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise BiomedError(f"{path}: the {what} cannot be read ({reason}); check the file") from None


def check_new(vault: Path) -> None:
    """Raise BiomedError if something is at the place of a vault that is to be written."""
    if os.path.lexists(vault):
        raise BiomedError(
            f"{vault}: is there, and a vault is never replaced, since nothing else has its "
            "originals; name another file, or move it away with its texts"
        )


@contextmanager
def writing_vault(
    vault: Path, key: bytes, identifier: str
) -> Iterator[Callable[[str, Deidentified, Mapping[str, object]], None]]:
    """Yields a function that adds a document; the file, of mode 600, appears at the end.

    The function gets the name of the document (that of its file, or "" for the next row), the
    document, and the fields that are written with it. `identifier` is random, and also written with
    the output (`identifier_place`).
    """
    cipher, numbers = _create_cipher(key, "the key"), count()
    with replacing_file(vault) as partial:
        check_new(vault)
        partial.chmod(0o600)
        with partial.open("wb") as file:

            def add(name: str, document: Deidentified, fields: Mapping[str, object]) -> None:
                originals = [
                    (one.new_start, one.new_end, document.original[one.start : one.end])
                    for one in document.replacements
                ]
                name = name or str(next(numbers))
                digest = _hash(document.text, fields)
                row = [identifier, name, list(fields), digest, originals]
                file.write(cipher.encrypt(json.dumps(row).encode()) + b"\n")

            yield add


class Vault:
    """The originals of the documents of `output`, the file or folder that was written with it."""

    def __init__(self, path: Path, key: bytes, output: Path):
        self.path, self._cipher = path, _create_cipher(key, "the key")
        self._tokens: dict[str, bytes] = {}
        place = identifier_place(output)
        identifier = _read_identifier(place)
        if identifier is None:
            raise BiomedError(
                f"{place}: cannot be read; it has the identifier of the vault of {output}, and "
                "belongs where that is"
            )
        try:
            tokens = path.read_bytes().splitlines()
        except OSError as error:
            raise BiomedError(
                f"{path}: cannot be read ({error.strerror}); check the path"
            ) from error
        for number, token in enumerate(tokens, start=1):
            written, name, *_ = self._decrypt(token, f"{path}:{number}")
            if written != identifier:
                raise BiomedError(
                    f"{path}: the vault of another output than {output}; give the one that was "
                    "written with it"
                )
            self._tokens[name] = token

    def __len__(self) -> int:
        return len(self._tokens)

    def restore(self, name: str, place: str, text: str, fields: Mapping[str, object]) -> str:
        """The original of a de-identified text, which is refused if it is not as it was written.

        `name` is that of its file, or the number of its row, from 0; messages have its `place`.
        `fields` are those that were written with it, and perhaps others.
        """
        if name not in self._tokens:
            raise BiomedError(f"{place}: not one of the {len(self)} documents of {self.path}")
        _, _, names, digest, originals = self._decrypt(self._tokens[name], str(self.path))
        if digest != _hash(text, {one: fields.get(one) for one in names}):
            raise BiomedError(
                f"{place}: not the text that {self.path} was written with, or not its other "
                "fields; give the unchanged texts, in their order"
            )
        for start, end, original in reversed(originals):
            text = text[:start] + original + text[end:]
        return text

    def _decrypt(self, token: bytes, where: str) -> tuple[str, str, list[str], str, list]:
        from cryptography.fernet import InvalidToken

        try:
            identifier, name, names, digest, originals = json.loads(self._cipher.decrypt(token))
        except (InvalidToken, ValueError):
            raise BiomedError(
                f"{where}: cannot be decrypted; give the key that it was written with"
            ) from None
        return identifier, name, names, digest, originals


def identifier_place(output: Path) -> Path:
    """The file with the identifier of an output's vault: in a folder, or beside a file."""
    return output / IDENTIFIER if output.is_dir() else output.with_name(output.name + IDENTIFIER)


def _read_identifier(place: Path) -> str | None:
    """The identifier at a place; None if something else is there."""
    try:
        found = re.fullmatch(r"([0-9a-f]{32})\s*", place.read_text(encoding="utf8"))
    except (OSError, UnicodeDecodeError):
        return None
    return found and found[1]


def check_identifier(place: Path) -> None:
    """Raise BiomedError if something else than an identifier is at its place."""
    if os.path.lexists(place) and _read_identifier(place) is None:
        raise BiomedError(
            f"{place}: the identifier of a vault would be here, and this is something else: "
            "move it away, or name another output"
        )


def _hash(text: str, fields: Mapping[str, object]) -> str:
    return sha256(json.dumps([text, dict(fields)], default=str).encode()).hexdigest()


def _create_cipher(key: bytes, where: str) -> Fernet:
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        raise BiomedError(f"a vault needs cryptography: {install_command('vault')}") from None
    try:
        return Fernet(key)
    except ValueError:
        raise BiomedError(f"{where}: not the key of a vault; use what {_MAKE_KEY} prints") from None
