"""Semantic textual similarity: tab-separated files of two sentences and a score."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, create_pair, list_files, number_lines, read_lines
from .repairs import leaving_out

LABEL = "similarity"
SUFFIXES = (".tsv", ".txt")
SCORES_SUFFIX = ".gs.sim.txt"

# Names of the columns that are read, as in the benchmarks GLUE and BLUE; there may be others.
COLUMNS = ("score", "sentence1", "sentence2")

_Row = tuple[int, str, str, str]


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
        rows = _read_named(file, encoding)
        if rows is None:
            rows = [
                (number, score, first, second)
                for number, (score, first, second) in _read_columns(file, encoding, (3,))
            ]
        yield from _create_documents(file, rows)


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
        if file.name.endswith(SCORES_SUFFIX):
            continue
        rows = _read_named(file, encoding)
        if rows is not None:
            yield from _create_documents(file, rows)
            continue
        columns = list(_read_columns(file, encoding, (2, 3)))
        if all(len(fields) == 2 for _, fields in columns):
            scores = _read_scores(file, len(columns), encoding)
            for (_, fields), score in zip(columns, scores, strict=True):
                fields.append(score)
        yield from _create_documents(file, [_reorder(file, *row) for row in columns])


def _read_named(path: Path, encoding: str) -> list[_Row] | None:
    """Read a file whose first line names its columns; None if it does not."""
    header, *lines = read_lines(path, encoding)
    names = [name.strip().lower() for name in header.split("\t")]
    if not set(COLUMNS) <= set(names):
        return None
    places = [names.index(name) for name in COLUMNS]
    rows = []
    for number, fields in _split_lines(lines, len(names)):
        with leaving_out():
            if len(fields) != len(names):
                raise BiomedError(
                    f"{path}:{number}: {len(fields)} columns; write the {len(names)} that the "
                    f"first line names"
                )
            score, first, second = (fields[place] for place in places)
            rows.append((number, score, first, second))
    return rows


def _split_lines(lines: list[str], count: int) -> list[tuple[int, list[str]]]:
    """Split the lines after the first at tabs, or as CSV if some have tabs in quotes."""
    numbered = [(number, line) for number, line in enumerate(lines, start=2) if line.strip()]
    plain = [(number, line.split("\t")) for number, line in numbered]
    if all(len(fields) == count for _, fields in plain):
        return plain
    try:
        quoted = [(number, next(csv.reader([line], "excel-tab"))) for number, line in numbered]
    except csv.Error:  # a field of more than 131,072 characters
        return plain
    return quoted if all(len(fields) == count for _, fields in quoted) else plain


def _read_columns(
    path: Path, encoding: str, counts: tuple[int, ...]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line."""
    for number, line in number_lines(path, encoding):
        fields = line.split("\t")
        with leaving_out():
            if len(fields) not in counts:
                raise BiomedError(
                    f"{path}:{number}: {len(fields)} columns; write two sentences and their score "
                    f"with tabs between, and none inside them"
                )
            yield number, fields


def _reorder(path: Path, number: int, fields: list[str]) -> _Row:
    if len(fields) != 3:
        raise BiomedError(f"{path}:{number}: no score, as other lines have; add the third column")
    first, second, score = fields
    return number, score, first, second


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


def _create_documents(path: Path, rows: list[_Row]) -> Iterator[Document]:
    scored = [row for row in rows if row[1].strip()]
    if not scored:
        raise BiomedError(f"{path}: no pair in it has a score; add them")
    for number, score, first, second in scored:
        where = f"{path}:{number}"
        with leaving_out():
            cats = {LABEL: _parse_score(score, where)}
            yield create_pair(f"{path.stem}-{number}", first, second, cats, where)


def _parse_score(score: str, where: str) -> float:
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BiomedError(f"{where}: {quote(score)} is not a score; write a number")
    return value
