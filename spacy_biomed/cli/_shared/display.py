"""Tables and bars of progress, as several commands print them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text


def create_table(texts: Sequence[str], numbers: Iterable[str], title: str | Text) -> Table:
    """A table without rows, whose last columns have numbers, which are aligned right."""
    columns = (Column(header, justify="right") for header in numbers)
    return Table(*texts, *columns, title=title, title_justify="left")


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


@contextmanager
def showing_runs(
    title: str,
    cells: Mapping[tuple[str, str], set[str]],
    left: set[str],
    console: Console,
) -> Iterator[Callable[[str, str], None]]:
    """Show how many runs of each row and corpus are finished within the context.

    A terminal shows a table, anything else a line for each run.

    Yields a function to call with the identifier and the description of each finished run.

    Args:
        cells: identifiers of runs by row and corpus.
        left: identifiers of the runs that are not finished.
    """
    left = set(left)
    total = len(left)

    def show() -> Table:
        corpora = list(dict.fromkeys(corpus for _, corpus in cells))
        table = create_table(["row"], corpora, Text(title))
        for row in dict.fromkeys(row for row, _ in cells):
            runs = [cells.get((row, corpus)) for corpus in corpora]
            table.add_row(
                Text(row), *(f"{len(one - left)}/{len(one)}" if one else "" for one in runs)
            )
        return table

    def finish(run: str, description: str) -> None:
        left.discard(run)
        if console.is_terminal:
            live.update(show())
        else:
            console.print(f"{total - len(left)}/{total}: {description}")

    with Live(show(), console=console, transient=True, auto_refresh=False) as live:
        yield finish


def explain_capitals(count: int, total: int) -> str:
    """The warning that a pipeline does not know the case of some of the texts."""
    return (
        f"⚠ {count} of {total} documents ({count / total:.0%}) are mostly in capitals, which this "
        "pipeline does not read as it reads other text: names in them may stay; train it with "
        "`normalize = true`"
    )
