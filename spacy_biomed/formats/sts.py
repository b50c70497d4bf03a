"""Semantic textual similarity: tab-separated files of two sentences and a score."""

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, create_pair, list_files, number_lines, read_lines
from .repairs import leaving_out

LABEL = "similarity"
SUFFIXES = (".tsv", ".txt")
SCORES_SUFFIX = ".gs.sim.txt"

# Names of the columns that are read, as in the benchmarks GLUE and BLUE; there may be others.
COLUMNS = ("score", "sentence1", "sentence2")


def read_sts(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read tab-separated files of score, sentence and sentence: one, or those below a folder.

    If the first line names columns, among them `sentence1`, `sentence2` and `score`, these are
    read, as GLUE and BLUE publish STS-B, BIOSSES and MedSTS. The score is `cats["similarity"]`. A
    pair without a score was not evaluated by its shared task, and is left out.

    Raises:
        BiomedError: if a line does not have three columns, a score is not a number, a sentence is
            empty, or a file has no score.
    """
    for file in list_files(Path(path), SUFFIXES):
        yield from _read_file(file, encoding, COLUMNS, (3,))


def read_clinical_sts(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read ClinicalSTS: tab-separated files of sentence, sentence and score.

    Files with names of columns are read as in `read_sts`.

    Args:
        path: a file, or a folder whose files are read. The scores of a file with two columns are in
            the file with `.gs.sim.txt` in place of `.txt`, one score per line, as the owners
            publish their test part.

    Raises:
        BiomedError: as `read_sts` does, and if the scores are missing or their number is not that
            of the pairs.
    """
    for file in list_files(Path(path), SUFFIXES):
        if not file.name.endswith(SCORES_SUFFIX):
            yield from _read_file(file, encoding, ("sentence1", "sentence2", "score"), (2, 3))


def _read_file(
    path: Path, encoding: str, columns: Sequence[str], counts: tuple[int, ...]
) -> Iterator[Document]:
    """Read a file; `columns` and the `counts` of them are of one that does not name its own."""
    header, *lines = read_lines(path, encoding)
    names = [name.strip().lower() for name in header.split("\t")]
    if set(COLUMNS) <= set(names):
        columns, counts = names, (len(names),)
        rows = _split_lines(lines, len(names))
        advice = f"write the {len(names)} that the first line names"
    else:
        rows = [(number, line.split("\t")) for number, line in number_lines(path, encoding)]
        advice = "write two sentences and their score with tabs between, and none inside them"
    sound = []
    for number, fields in rows:
        with leaving_out():
            if len(fields) not in counts:
                raise BiomedError(f"{path}:{number}: {len(fields)} columns; {advice}")
            sound.append((number, fields))
    if 2 in counts and all(len(fields) == 2 for _, fields in sound):
        scores = _read_scores(path, len(sound), encoding)
        sound = [(row[0], [*row[1], score]) for row, score in zip(sound, scores, strict=True)]
    places = [columns.index(name) for name in COLUMNS]
    has_score = False
    for number, fields in sound:
        where = f"{path}:{number}"
        with leaving_out():
            if len(fields) < len(columns):
                raise BiomedError(f"{where}: no score, as other lines have; add the third column")
            score, first, second = (fields[place] for place in places)
            if score.strip():
                has_score = True
                cats = {LABEL: _parse_score(score, where)}
                yield create_pair(f"{path.stem}-{number}", first, second, cats, where)
    if not has_score:
        raise BiomedError(f"{path}: no pair in it has a score; add them")


def _split_lines(lines: list[str], count: int) -> list[tuple[int, list[str]]]:
    """Split the lines after the first at tabs, or as CSV if some have tabs in quotes."""
    numbered = [(number, line) for number, line in enumerate(lines, start=2) if line.strip()]
    plain = [(number, line.split("\t")) for number, line in numbered]
    try:
        quoted = [(number, next(csv.reader([line], "excel-tab"))) for number, line in numbered]
    except csv.Error:  # a field of more than 131,072 characters
        quoted = plain
    fitting = (one for one in (plain, quoted) if all(len(fields) == count for _, fields in one))
    return next(fitting, plain)


def _read_scores(path: Path, count: int, encoding: str) -> list[str]:
    file = path.with_name(path.name.removesuffix(path.suffix) + SCORES_SUFFIX)
    if not file.is_file():
        raise BiomedError(f"{path}: there are no scores in it, and no {file.name}; add one of them")
    scores = [line for _, line in number_lines(file, encoding)]
    if len(scores) != count:
        raise BiomedError(
            f"{file}:{len(scores)}: {len(scores)} scores for the {count} pairs of {path.name}; "
            f"write one a line"
        )
    return scores


def _parse_score(score: str, where: str) -> float:
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BiomedError(f"{where}: {quote(score)} is not a score; write a number")
    return value
