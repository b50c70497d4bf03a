"""Tables and bars of progress, as several commands print them."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text


def create_table(texts: Sequence[str], numbers: Iterable[str], title: str | Text) -> Table:
    """A table without rows, whose last columns have numbers, which are aligned right."""
    columns = [Column(header, overflow="fold") for header in texts]
    columns += [Column(header, justify="right") for header in numbers]
    return Table(*columns, title=title, title_justify="left")


def create_bar(console: Console) -> Progress:
    """A bar of a task's progress with numbers, for a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
