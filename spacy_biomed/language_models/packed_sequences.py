"""Documents as sequences of word pieces, in memory-mapped files.

Documents are packed in one of two ways of Liu et al. 2019, "RoBERTa: A Robustly Optimized BERT
Pretraining Approach", section 4.2, except that long text is cut between any word pieces:

- across documents ("full sentences"): all documents form one stream, with the token that ends a
  sequence ([SEP] or </s>) after each. It is cut into sequences of full length, except the last.
- within documents ("doc sentences"): a sequence has word pieces of one document. A document that is
  too long is cut into as few sequences as possible, whose lengths differ by at most one piece.
"""

import hashlib
import heapq
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Encoding

from ..arrays import Ints1d
from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..files.digests import hash_file
from ..files.outputs import replacing_directory
from .recipe import TrainingRecipe
from .text_sources import find_files, read_documents

# Most documents, and about the most characters, to tokenize at a time.
_DOCUMENTS, _CHARACTERS = 1000, 2_000_000

_IDS, _WORD_STARTS, _CUTS, _SUMMARY = "ids.bin", "word_starts.bin", "cuts.bin", "summary.json"

# Called with the number of documents that were tokenized since the last call.
Progress = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence without the special tokens around it."""

    ids: Ints1d  # (pieces,) vocabulary ids, including separators between documents
    # (pieces,) whether each begins a word; False first if a word was cut there.
    word_starts: np.ndarray


class PackedText:
    """Sequences in a directory; `text[i]` reads a sequence.

    It counts the documents that have a word piece, and word pieces without separators.
    """

    def __init__(self, directory: Path):
        summary = json.loads((directory / _SUMMARY).read_text(encoding="utf8"))
        self.documents: int = summary["documents"]
        self.pieces: int = summary["pieces"]
        self._ids = _map(directory / _IDS, summary["dtype"])
        self._word_starts = _map(directory / _WORD_STARTS, "bool")
        self._cuts = _map(directory / _CUTS, "int64")

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self._cuts) - 1

    def __getitem__(self, index: int) -> Sequence:
        part = slice(int(self._cuts[index]), int(self._cuts[index + 1]))
        return Sequence(self._ids[part].astype("int64"), np.array(self._word_starts[part]))

    def lengths(self, indices: Ints1d) -> Ints1d:
        """(indices,) number of pieces with separators, without special tokens around sequences."""
        return self._cuts[indices + 1] - self._cuts[indices]


def prepare_text(
    recipe: TrainingRecipe,
    tokenizer: WordPieceTokenizer,
    cache: Path,
    progress: Progress = lambda count: None,
) -> tuple[PackedText, PackedText]:
    """Pack a recipe's training and validation text, or reuse the result of an earlier run.

    The cache has a directory for each combination of text, tokenizer and packing.
    """
    place = cache / fingerprint(recipe, tokenizer)
    training, validation = place / "training", place / "validation"
    if not place.is_dir():
        text, settings = recipe.text, recipe.packing.model_dump()
        documents: Iterable[str] = read_documents(text.paths, text_field=text.field)
        held_out: Iterable[str]
        if isinstance(text.validation, int):
            documents, held_out = set_aside(documents, text.validation, recipe.training.seed)
        else:
            held_out = read_documents(text.validation, text_field=text.field)
        with replacing_directory(place, recipe.made_by) as partial:
            for setting, part, name in (
                ("text.paths", documents, training.name),
                ("text.validation", held_out, validation.name),
            ):
                folder = partial / name
                folder.mkdir()
                if not pack_documents(part, tokenizer, folder, progress=progress, **settings):
                    raise recipe.error(setting, f"leaves no document for {name}; give more text")
    return PackedText(training), PackedText(validation)


def fingerprint(recipe: TrainingRecipe, tokenizer: WordPieceTokenizer) -> str:
    """A hash of the files' content, the tokenizer and the settings, to name packed text."""
    held_out = recipe.text.validation
    settings = {
        **recipe.packing.model_dump(),
        "field": recipe.text.field,
        "set_aside": (held_out, recipe.training.seed) if isinstance(held_out, int) else None,
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(tokenizer.to_str().encode())
    digest.update(hash_text(recipe.text.paths))
    digest.update(b"" if isinstance(held_out, int) else hash_text(held_out))
    return digest.hexdigest()[:16]


def hash_text(paths: list[Path]) -> bytes:
    """A hash of the content and the endings of files, or of the files in folders, in order."""
    digest = hashlib.sha256()
    for path in find_files(paths):
        digest.update("".join(path.suffixes[-2:]).encode())
        digest.update(bytes.fromhex(hash_file(path)))
    return digest.digest()


def set_aside(documents: Iterable[str], count: int, seed: int) -> tuple[Iterator[str], list[str]]:
    """Set `count` random documents aside, each with the same probability.

    The first result gives the others, in nearly the same order; when they have been read to the
    end, the list has the chosen documents. At most `count` documents are in memory.
    """
    held: list[tuple[float, str]] = []
    chosen: list[str] = []

    def others() -> Iterator[str]:
        draw = random.Random(seed).random
        for document in documents:
            if len(held) < count:
                heapq.heappush(held, (draw(), document))
            else:
                yield heapq.heappushpop(held, (draw(), document))[1]
        chosen.extend(document for _, document in held)

    return others(), chosen


def pack_documents(
    documents: Iterable[str],
    tokenizer: WordPieceTokenizer,
    directory: Path,
    *,
    length: int,
    across_documents: bool,
    progress: Progress = lambda count: None,
) -> PackedText:
    """Tokenize documents and write them as sequences; see the docstring of this module.

    `length` is that of the longest sequence in word pieces, special tokens included.
    """
    capacity = length - len(tokenizer.prefix) - len(tokenizer.suffix)
    dtype = np.dtype("uint16" if tokenizer.tokenizer.get_vocab_size() <= 2**16 else "uint32")
    separator = tokenizer.suffix[-1:] if across_documents else []
    count = pieces = end = 0
    with (
        (directory / _IDS).open("wb") as ids,
        (directory / _WORD_STARTS).open("wb") as word_starts,
        (directory / _CUTS).open("wb") as cuts,
    ):
        cuts.write(np.int64(0).tobytes())
        for encoding in _encode(documents, tokenizer, progress):
            size = len(encoding)
            ids.write(np.array(encoding.ids + separator, dtype=dtype).tobytes())
            starts = _word_starts(encoding.word_ids + [None] * len(separator))
            word_starts.write(starts.tobytes())
            if not across_documents:
                parts = -(-size // capacity)
                ends = end + np.arange(1, parts + 1, dtype="int64") * size // parts
                cuts.write(ends.tobytes())
            count += 1
            pieces += size
            end += len(starts)
        if across_documents and end:
            cuts.write(np.append(np.arange(capacity, end, capacity, dtype="int64"), end).tobytes())
    summary = {"documents": count, "pieces": pieces, "dtype": dtype.name}
    (directory / _SUMMARY).write_text(json.dumps(summary, indent=2), encoding="utf8")
    return PackedText(directory)


def _encode(
    documents: Iterable[str], tokenizer: WordPieceTokenizer, progress: Progress
) -> Iterator[Encoding]:
    """The encodings of the documents that have word pieces."""
    for batch in _batches(documents):
        encodings = tokenizer.tokenizer.encode_batch(batch, add_special_tokens=False)
        yield from filter(len, encodings)
        progress(len(batch))


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document)
        if len(batch) == _DOCUMENTS or characters > _CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _word_starts(words: list[int | None]) -> np.ndarray:
    """Whether each piece of a document is the first of a word: (pieces,), by the words' numbers."""
    numbers = np.array([-1 if word is None else word for word in words])
    return np.append(True, (numbers[1:] != numbers[:-1]) | (numbers[1:] < 0))


def _map(path: Path, dtype: str) -> np.ndarray:
    """Map the numbers in a file; an empty file cannot be mapped."""
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r")
