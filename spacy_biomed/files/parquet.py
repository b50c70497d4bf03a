"""Read Parquet files row by row, with constant memory; and tables as files of Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BiomedError
from .compression import check_ratio, require_pyarrow
from .records import check_names

if TYPE_CHECKING:
    from pyarrow import Scalar, Table
    from pyarrow.parquet import ParquetFile

# Rows to read at a time.
_BATCH_ROWS = 256
# Stands for a string that is not UTF-8. Half of a surrogate pair is refused as a text.
_NO_TEXT = "\ud800"


def read_shape(path: Path) -> tuple[list[str], int]:
    """The names of the columns of a file, and its number of rows."""
    with _open(path) as file:
        names: list[str] = file.schema_arrow.names
        check_names(names, path)
        return names, file.metadata.num_rows


def read_rows(path: Path, names: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield rows as values by column, with "\\ud800" in place of a string that is not UTF-8."""
    names = list(dict.fromkeys(names))
    with _open(path) as file:
        _check_sizes(file, names, path)
        number = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=names):
            columns = [batch.column(name) for name in names]
            for index in range(batch.num_rows):
                yield {n: _value(c[index]) for n, c in zip(names, columns, strict=True)}
            number += batch.num_rows
        if number < file.metadata.num_rows:
            raise BiomedError(f"{path}: {number} rows and not {file.metadata.num_rows}; damaged")


def pack_table(table: Table) -> bytes:
    """The content of a file with a table, compressed with zstd."""
    import pyarrow
    from pyarrow.parquet import write_table

    buffer = pyarrow.BufferOutputStream()
    write_table(table, buffer, compression="zstd")
    return buffer.getvalue().to_pybytes()


@contextmanager
def _open(path: Path) -> Iterator[ParquetFile]:
    require_pyarrow(str(path))
    from pyarrow.parquet import ParquetFile

    # Page by page: with its defaults, the reader loads a whole row group.
    with ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        yield file


def _check_sizes(file: ParquetFile, names: list[str], path: Path) -> None:
    for group in map(file.metadata.row_group, range(file.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema in names:
                check_ratio(column.total_compressed_size, column.total_uncompressed_size, path)


def _value(scalar: Scalar) -> object:
    """A value; bytes that are UTF-8 are a text, which Impala and others do not mark as one."""
    try:
        value = scalar.as_py()
    except UnicodeDecodeError:
        return _NO_TEXT
    with suppress(UnicodeDecodeError):
        return value.decode() if isinstance(value, bytes) else value
    return value
