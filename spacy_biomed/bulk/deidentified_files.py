"""Copies of files with de-identified texts: what `spacy biomed deidentify` reads and writes."""

import json
import os
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..annotations.deidentified import Deidentified
from ..deidentification.document_key import DocumentKey
from ..deidentification.encoded_text import find_encodings
from ..deidentification.vault import check_new, identifier_place, read_vault_key, writing_vault
from ..errors import BiomedError
from ..files.compression import strip_compression
from ..files.outputs import MARKER, remove_directory, replace_text, replacing_file
from ..files.sources import Item, Part, has_changed, is_text, printable
from ..normalization import is_in_capitals
from .annotating import BulkSettings, Progress, annotate_collection, check_failed
from .deidentification import DEIDENTIFIED_BY, Deidentification, hash_text
from .manifest import FINISHED
from .text_documents import check_same_format, find_texts, writing_texts


@dataclass(frozen=True)
class DeidentifiedFiles:
    """What a run reads and writes.

    `output` is the copy of `texts`, a file or folder. If not None, `annotations` gets JSON lines
    with what replaces the mentions, and `vault` the originals.
    """

    texts: Path
    output: Path
    annotations: Path | None = None
    vault: Path | None = None

    @property
    def written(self) -> list[Path]:
        """The files that are written, without those beside the output."""
        return [path for path in (self.output, self.annotations, self.vault) if path is not None]

    @property
    def listed(self) -> Path:
        """The list of the documents that failed."""
        return Path(f"{self.output}.errors.jsonl")

    @property
    def work(self) -> Path:
        """The folder of a run that is not finished."""
        return Path(f"{self.output}.shards")

    def check_places(self, sources: Iterable[Path]) -> None:
        """Refuse to write to what is read, twice to one place, or to what is beside the output."""
        beside = [self.listed, self.work, identifier_place(self.output)]
        taken = [self.texts, *sources]
        for path in self.written:
            if any(_overlap(path, one) for one in taken):
                raise BiomedError(
                    f"{path}: this is what is read or written besides, or in it, or around it; "
                    "give it a place of its own"
                )
            if path.is_dir() and path != self.output:
                raise BiomedError(f"{path}: this is a directory; give a file")
            taken += [path, *beside]
        if os.path.lexists(self.listed) and not _is_list_of_failed(self.listed):
            raise BiomedError(
                f"{self.listed}: documents that fail would be listed here, and this is not such a "
                "list: move it away, or name another output"
            )

    def read_key(self, key_file: Path | None) -> bytes | None:
        """The key of the vault, from a file or the environment; None without a vault."""
        if self.vault is None:
            if key_file is not None:
                raise BiomedError(f"{key_file}: the key of a vault, but there is no --vault")
            return None
        check_new(self.vault)
        return read_vault_key(key_file)

    def read(self, settings: BulkSettings, asked: Deidentification) -> Part:
        """The documents, with texts that are decoded if that is asked for."""
        check_same_format(self.texts, self.output)
        return asked.read(find_texts(self.texts, settings.columns, settings.layout))


def _is_list_of_failed(path: Path) -> bool:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]
        return bool(rows) and all(set(row) == {"id", "reason"} for row in rows)
    except (OSError, ValueError, TypeError):
        return False


def _overlap(path: Path, other: Path) -> bool:
    """Whether one path is or contains the other, also by links, other case or other accents."""
    first, second = (
        Path(unicodedata.normalize("NFC", os.path.realpath(one)).casefold())
        for one in (path, other)
    )
    return first.is_relative_to(second) or second.is_relative_to(first)


def check_texts(part: Part, is_any_allowed: bool) -> tuple[int, int]:
    """Refuse texts in which names are encoded, unless any are allowed, before the work.

    Returns the number of texts that are mostly in capitals, and of all.
    """
    total, capitals = 0, 0
    found: list[tuple[str, str]] = []
    for row, item in enumerate(part.read_changed()):
        total += 1
        capitals += is_in_capitals(item.text)
        if not is_any_allowed:
            found += [(part.place(row), name) for name in find_encodings(item.text)[:1]]
    if found:
        place, name = found[0]
        raise BiomedError(
            f"{place}: this text looks encoded ({name}), as {len(found)} of {total} do, and its "
            "names would stay: decode it with --repair, or take it as it is with --no-repair"
        )
    return capitals, total


def deidentify_files(
    pipeline: str,
    files: DeidentifiedFiles,
    part: Part,
    settings: BulkSettings,
    asked: Deidentification,
    *,
    key: bytes | None = None,
    names: DocumentKey | None = None,
    on_progress: Progress | None = None,
) -> tuple[int, list[dict[str, str]]]:
    """Write the documents with de-identified texts, or go on with a run that was interrupted.

    `part` has the documents (`DeidentifiedFiles.read`), and `names` is the key from which files get
    new names. Returns how many documents were written, and `id` and `reason` of the others.
    """
    # Begun before the work, so that a place that cannot be written is reported at once.
    with _writing(files, settings, key) as write:
        failed = _find(pipeline, files, settings, asked, on_progress)
        total = 0
        for item, deidentified in _combine(part, _read_found(files.work)):
            named = item if names is None else _rename(item, names)
            if is_text(named.id):
                write(named, deidentified)
                total += 1
            else:
                reason = "a name that is not UTF-8; rename the file, or use --rename"
                failed.append({"id": printable(named.id), "reason": reason})
        if not total:
            remove_directory(files.work, DEIDENTIFIED_BY)
            check_failed(files.output, total, failed, files.listed, settings.max_errors)
    if failed:
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in failed)
        replace_text(files.listed, "".join(lines))
    else:
        files.listed.unlink(missing_ok=True)  # of an earlier run
    remove_directory(files.work, DEIDENTIFIED_BY)
    return total, failed


def _find(
    pipeline: str,
    files: DeidentifiedFiles,
    settings: BulkSettings,
    asked: Deidentification,
    on_progress: Progress | None,
) -> list[dict[str, str]]:
    """Find the mentions of all documents, or go on with it; return the documents that failed.

    The folder of the work can only be read by this user, and goes where no shard is finished.
    """
    old = os.umask(0o077)
    try:
        return annotate_collection(
            pipeline,
            files.texts,
            files.work,
            settings,
            on_progress=on_progress,
            deidentification=asked,
        ).failed
    except BaseException:
        if (files.work / MARKER).exists() and not (files.work / FINISHED).exists():
            remove_directory(files.work, DEIDENTIFIED_BY)
        raise
    finally:
        os.umask(old)


def _read_found(work: Path) -> Iterator[tuple[int, str, list]]:
    """The number of each document, the hash of its text, and what replaces its mentions."""
    for part in sorted(work.glob("part-*.jsonl"), key=lambda path: (len(path.name), path.name)):
        with part.open(encoding="utf8") as lines:
            yield from map(json.loads, lines)


def _combine(
    part: Part, found: Iterable[tuple[int, str, list]]
) -> Iterator[tuple[Item, Deidentified]]:
    """The documents that did not fail, in order."""
    items = enumerate(part.read_changed())
    for number, text_hash, replaced in found:
        item = next((item for row, item in items if row == number), None)
        # Offsets in another text would leave names in it.
        if item is None or item.error or hash_text(item.text) != text_hash:
            raise has_changed(part.path)
        yield item, Deidentified(item.text, map(tuple, replaced))
    part.check_same()


def _rename(item: Item, key: DocumentKey) -> Item:
    """A document with a name of 128 bits, which cannot be traced back without the secret.

    All documents go to one folder, since names of folders may be names of people too.
    """
    ending = item.id[len(strip_compression(item.id)) :].lower()
    name = key.digest(16, "file name", item.id).hex()
    return item._replace(id=f"{name}.txt{ending}")


@contextmanager
def _writing(
    files: DeidentifiedFiles, settings: BulkSettings, key: bytes | None
) -> Iterator[Callable[[Item, Deidentified], None]]:
    """Yield a function that writes a document wherever it is asked for."""
    is_folder = files.texts.is_dir()
    with ExitStack() as stack:
        identifier = "" if files.vault is None else secrets.token_hex(16)
        columns, layout = settings.columns, settings.layout
        documents = writing_texts(files.texts, files.output, columns, layout, identifier)
        write_text = stack.enter_context(documents)
        notes = lock = None
        if files.annotations is not None:
            partial = stack.enter_context(replacing_file(files.annotations))
            notes = stack.enter_context(partial.open("w", encoding="utf8"))
        if files.vault is not None and key is not None:
            lock = stack.enter_context(writing_vault(files.vault, key, identifier))

        def write(item: Item, deidentified: Deidentified) -> None:
            write_text(item, deidentified.text)
            if notes is not None:
                name = {"file": item.id} if is_folder else {}
                replacements = [one._asdict() for one in deidentified.replacements]
                row = {**name, **item.fields, "replacements": replacements}
                notes.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
            if lock is not None:
                lock(item.id if is_folder else "", deidentified, item.fields)

        yield write
