"""The parts of a corpus: found by the names of files, drawn at random, and freed of repeats."""

import random
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path

from ..annotations.document_keys import split_id
from ..errors import BiomedError, escape, quote
from ..formats.documents import Document

Paths = Mapping[str, Sequence[Path | str]]

PARTS = ("train", "dev", "test")
WHOLE = "all"  # stands for the parts of a corpus that is published in one piece
DEV_SHARE = 0.1
TEST_SHARE = 0.1

_PART_NAME = re.compile(r"(?:^|[^a-z])(train|dev|val(?![a-z])|valid|test)")


def find_parts(source: Path) -> dict[str, list[Path | str]]:
    """Find the files or folders of each part directly in a folder, by their names.

    A name with `train` belongs to train, with `dev`, `val` or `valid` (devel, validation) to dev,
    with `test` to test. The word must begin the name or follow a character that is not a letter;
    case does not matter. Others like them (folders, or of the same ending) are named on standard
    error. A file, or a folder without such names, is one piece with the key "all".

    Raises:
        BiomedError: if the source does not exist, or has other parts but no training part.
    """
    if not source.exists():
        raise BiomedError(f"{source}: no such file or folder; check the path")
    parts: dict[str, list[Path | str]] = {}
    entries = sorted(source.iterdir()) if source.is_dir() else []
    entries = [path for path in entries if not path.name.startswith(".")]
    for path in entries:
        if match := _PART_NAME.search(path.name.lower()):
            part = "dev" if match[1].startswith("val") else match[1]
            parts.setdefault(part, []).append(path)
    if not parts:
        return {WHOLE: [source]}
    if "train" not in parts:
        found = ", ".join(Path(path).name for paths in parts.values() for path in paths)
        raise BiomedError(
            f"{source}: {found} but nothing named train; name the training part with --train"
        )
    taken = {*chain.from_iterable(parts.values())}
    kinds = {(path.is_dir(), path.suffix.lower()) for path in map(Path, taken)}
    left = [path for path in entries if path not in taken]
    if names := [path.name for path in left if (path.is_dir(), path.suffix.lower()) in kinds]:
        print(
            f"⚠ {source}: {escape(', '.join(names))}: not read, as the names say no part; give "
            "--train, --dev and --test",
            file=sys.stderr,
        )
    return parts


def split_parts(
    read: dict[str, list[Document]],
    format: str,
    paths: Paths,
    seed: int,
    part_ids: Mapping[str, Collection[str]],
) -> tuple[dict[str, list[Document]], list[str]]:
    """Split a corpus into train, dev and test, as far as it is not published in these parts.

    A corpus in one piece is read as "all"; `part_ids` are the ids of its documents in each part but
    train. The result is the documents of each part, and the names of the parts that were drawn.
    """
    if set(read) == {WHOLE} and part_ids:
        part_of = {id: part for part, ids in part_ids.items() for id in ids}
        listed: dict[str, list[Document]] = {part: [] for part in PARTS}
        for document in read[WHOLE]:
            listed[part_of.get(document.id, "train")].append(document)
        return listed, []
    if set(read) == {WHOLE} and format in ("hoc", "hoc_sentences"):
        from ..formats.hoc import has_id_lists, split_hoc

        (folder,) = map(Path, paths[WHOLE])
        return split_hoc(read[WHOLE], folder), [] if has_id_lists(folder) else [*PARTS]
    if set(read) == {WHOLE}:
        shares = {"dev": DEV_SHARE, "test": TEST_SHARE}
        return split_documents(read[WHOLE], shares, seed), [*PARTS]
    if unknown := set(read) - set(PARTS):
        raise BiomedError(
            f"unknown part {quote(unknown.pop())} of the corpus; the parts are train, dev and test"
        )
    drawn = []
    if "train" in read and "dev" not in read:
        read = {**read, **split_documents(read["train"], {"dev": DEV_SHARE}, seed)}
        drawn = ["dev"]
    return {part: read[part] for part in PARTS if part in read}, drawn


def split_documents(
    documents: Sequence[Document], shares: Mapping[str, float], seed: int
) -> dict[str, list[Document]]:
    """Draw parts from documents at random; the remaining documents are train.

    Each part keeps the order of the documents. Documents of one question, questions on one context,
    and parts of one text stay together.

    Args:
        shares: the share of all documents, or of all such groups, that each part gets. A part gets
            at least one group if there are enough for train to have one too.
    """
    order = _group_questions(documents)
    total = len(order)
    random.Random(seed).shuffle(order)
    drawn: dict[str, list[list[int]]] = {}
    for part, share in shares.items():
        size = min(max(1, round(share * total)), max(0, len(order) - 1))
        drawn[part], order = order[:size], order[size:]
    return {
        part: [documents[index] for index in sorted(chain.from_iterable(groups))]
        for part, groups in {"train": order, **drawn}.items()
    }


def _group_questions(documents: Sequence[Document]) -> list[list[int]]:
    """Group questions on the same context, contexts of the same question, and parts of one text.

    Groups are numbers of documents, in the order of the groups' first documents.
    """
    earliest = list(range(len(documents)))  # a forest: each points to an earlier one in its group

    def find(index: int) -> int:
        while earliest[index] != index:
            index = earliest[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, document in enumerate(documents):
        for key in _group_keys(document):
            roots = sorted((find(index), find(first.setdefault(key, index))))
            earliest[roots[1]] = roots[0]
    groups: dict[int, list[int]] = {}
    for index in range(len(documents)):
        groups.setdefault(find(index), []).append(index)
    return list(groups.values())


def _group_keys(document: Document) -> list[tuple[str, str]]:
    """What documents of a group may share: the whole text, the question, and the context."""
    if document.part_of is not None:
        return [("text", document.part_of)]
    if document.pair is None or document.answers is None:
        return []
    question, context = (document.text[start:end] for start, end in document.pair)
    return [("question", f"{split_id(document.id)} {question}"), ("context", context)]


def drop_repeats(parts: dict[str, list[Document]]) -> dict[str, int]:
    """Take out of each part the documents whose text is in a part before it, and count them."""
    seen: set[str] = set()
    dropped = {}
    for part, documents in parts.items():
        parts[part] = [document for document in documents if document.text not in seen]
        dropped[part] = len(documents) - len(parts[part])
        seen.update(document.text for document in parts[part])
    return dropped
