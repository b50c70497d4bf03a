"""Hallmarks of Cancer (Baker et al. 2016): a folder `text` and a folder `labels`.

A text file has one sentence per line. The labels file of the same name has one cell per sentence,
each after a `<`. A cell is empty, `NULL`, or one or more paths through the hierarchy of hallmarks
joined by `AND`, as in `Genomic instability and mutation--DNA damage--Adducts`.
"""

import random
import re
from collections.abc import Container, Iterator, Sequence
from functools import partial
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, number_lines, read_text
from .registry import Format
from .repairs import leaving_out

HALLMARKS = (
    "Activating invasion and metastasis",
    "Avoiding immune destruction",
    "Cellular energetics",
    "Enabling replicative immortality",
    "Evading growth suppressors",
    "Genomic instability and mutation",
    "Inducing angiogenesis",
    "Resisting cell death",
    "Sustaining proliferative signaling",
    "Tumor promoting inflammation",
)

_PARTS = ("text", "labels")
_SPLIT = ("train", "dev", "test")
# The published files often leave out the space after AND, never the one before it.
_BETWEEN_PATHS = re.compile(r"(?<=\s)AND\s*(?=[A-Z])")


def read_hoc(
    path: Path | str, encoding: str = "utf-8", by_sentence: bool = False
) -> Iterator[Document]:
    """Read the abstracts, each with the hallmarks of all its sentences, or the sentences.

    `cats` has all ten top-level hallmarks for every document, 0.0 or 1.0. The text of an abstract
    is its sentences joined with spaces, with their offsets in `sentences`.

    Args:
        path: the folder that contains `text` and `labels`.
        by_sentence: whether each sentence is a document, `part_of` its abstract, as in the BLUE
            benchmark. Its id is the abstract's, "_s" and its number, from 0.

    Raises:
        BiomedError: if a hallmark is unknown, the number of cells is not the number of sentences,
            or a file lacks its counterpart.
    """
    folder = Path(path)
    texts, labels = ({file.name for file in (folder / part).glob("*.txt")} for part in _PARTS)
    if not texts or not labels:
        raise BiomedError(
            f"{folder}: expected text/*.txt and labels/*.txt; give the folder that holds both"
        )
    for name in sorted(texts ^ labels):
        there, absent = _PARTS if name in texts else reversed(_PARTS)
        raise BiomedError(
            f"{folder / there / name}: there is no {absent}/{name}; unpack the corpus again"
        )
    for name in sorted(texts):
        with leaving_out():
            yield from _read_abstract(
                folder / "text" / name, folder / "labels" / name, encoding, by_sentence
            )


def _read_abstract(
    text_path: Path, labels_path: Path, encoding: str, by_sentence: bool
) -> list[Document]:
    sentences = [line.strip() for _, line in number_lines(text_path, encoding)]
    before, *cells = read_text(labels_path, encoding).strip("\r\n").split("<")
    where = f"{labels_path}:1"
    if before.strip() or len(cells) != len(sentences):
        raise BiomedError(
            f"{where}: {len(cells)} cells for the {len(sentences)} sentences of "
            f"{text_path.parent.name}/{text_path.name}; write one cell, after a '<', a sentence"
        )
    found = [_find_hallmarks(cell, where, number) for number, cell in enumerate(cells, start=1)]
    id, source = text_path.stem, f"{text_path}:1"
    if not by_sentence:
        document = Document(id, "", cats=_create_cats(set().union(*found)), source=source)
        document.sentences = [document.append(sentence) for sentence in sentences]
        return [document]
    pairs = enumerate(zip(sentences, map(_create_cats, found), strict=True))
    return [
        Document(f"{id}_s{n}", one, cats=cats, sentences=[(0, len(one))], part_of=id, source=source)
        for n, (one, cats) in pairs
    ]


def _create_cats(hallmarks: set[str]) -> dict[str, float]:
    return {hallmark: float(hallmark in hallmarks) for hallmark in HALLMARKS}


def _find_hallmarks(cell: str, where: str, number: int) -> set[str]:
    """The top-level hallmarks of the paths in a cell; raise BiomedError if one is unknown."""
    hallmarks = {path.split("--")[0].strip() for path in _BETWEEN_PATHS.split(cell)}
    hallmarks -= {"", "NULL"}
    for hallmark in hallmarks.difference(HALLMARKS):
        raise BiomedError(
            f"{where}: {quote(hallmark)} in cell {number} is not one of the hallmarks; correct it"
        )
    return hallmarks


def split_hoc(documents: Sequence[Document], folder: Path | str) -> dict[str, list[Document]]:
    """Split the abstracts, or their sentences, into train, dev and test.

    The corpus is published without a split. If its folder has the lists of PubMed ids that papers
    share (of the BLUE benchmark), `train_docid.txt`, `dev_docid.txt` and `test_docid.txt` with an
    id on each line, they determine the split. Otherwise the parts are 70, 10 and 20 percent of the
    abstracts, sorted by id and then shuffled with seed 0. It is a `BiomedError` if a list has an id
    that the corpus does not.
    """
    abstracts: dict[str, list[Document]] = {}
    for document in documents:
        abstracts.setdefault(document.part_of or document.id, []).append(document)
    if has_id_lists(folder):
        listed = [_read_ids(file, abstracts) for file in _id_lists(folder)]
    else:
        shuffled = sorted(abstracts)
        random.Random(0).shuffle(shuffled)
        first, second = round(0.7 * len(shuffled)), round(0.8 * len(shuffled))
        listed = [*map(sorted, (shuffled[:first], shuffled[first:second], shuffled[second:]))]
    return {
        part: [document for id in ids for document in abstracts[id]]
        for part, ids in zip(_SPLIT, listed, strict=True)
    }


def has_id_lists(folder: Path | str) -> bool:
    """Whether a folder has the lists of PubMed ids of train, dev and test."""
    return all(file.is_file() for file in _id_lists(folder))


def _id_lists(folder: Path | str) -> list[Path]:
    return [Path(folder) / f"{part}_docid.txt" for part in _SPLIT]


def _read_ids(file: Path, known: Container[str]) -> list[str]:
    """Read the ids that a file lists; raise BiomedError if there is no abstract with one."""
    numbered = {number: line.strip() for number, line in number_lines(file)}
    for number, id in numbered.items():
        if id not in known:
            raise BiomedError(
                f"{file}:{number}: the corpus has no abstract {quote(id)}; remove the line"
            )
    return list(numbered.values())


HOC_SENTENCES = Format(partial(read_hoc, by_sentence=True))
