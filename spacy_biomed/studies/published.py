"""The figures that the papers published, from `published.json`, to print beside ours."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ..errors import BiomedError, list_choices

# The corpus of a mean over corpora, and the beginning of its name for those of a group.
MEAN, MEAN_OF = "mean", "mean of "


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The figures of a table.

    Attributes:
        source: the paper and the number of the table, in words.
        unit: what a perfect score is in it, 1 or 100.
        values: by row, corpus and metric, as printed.
    """

    source: str
    unit: float
    values: dict[tuple[str, str, str], float]

    def find(self, row: str, corpus: str, metric: str) -> float | None:
        """A score of the table, of 100 points; None if it is not there."""
        value = self.values.get((row, corpus, metric))
        return None if value is None else value * 100 / self.unit


@cache
def read_published() -> dict[str, Any]:
    """All facts, and the papers that they are from."""
    return json.loads(files(__package__).joinpath("published.json").read_text(encoding="utf8"))


def find_table(paper: str, table: str) -> PublishedTable:
    """Find a table; one without figures is empty.

    Raises:
        BiomedError: if there is no such paper.
    """
    content = read_published()
    if paper not in content["papers"]:
        raise BiomedError(f"no paper '{paper}': {list_choices(paper, content['papers'])}")
    about = content["papers"][paper]
    values = {
        (fact["row"], fact["corpus"], fact["metric"]): fact["value"]
        for fact in content["facts"]
        if (fact["paper"], fact["table"]) == (paper, table)
    }
    name = f"table {table}" if table.isdecimal() else table
    source = f"{about['authors']} {about['year']}, {about['title']}, {name}"
    return PublishedTable(source, about["unit"], values)
