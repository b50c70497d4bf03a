"""Studies as configs: what is trained on what, how it is scored, and what is printed beside it.

`configs/` beside this module has the studies that ship, and `published.json` the papers' figures.
`docs/studies/index.md` describes the sections.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from confection import Config
from pydantic import Field, model_validator

from ..errors import BiomedError, add_hint, list_choices, quote, suggest
from ..settings.sections import ConfigFile, Section, check_name, read_config_text, read_sections

CONFIGS = Path(__file__).with_name("configs")
RANDOM = "random:"
GIVEN_FOLDS, EACH = "given", "each"
# The corpus of a mean over corpora, and the beginning of its name for those of a group.
MEAN, MEAN_OF = "mean", "mean of "

Name = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]
Statistic = Literal["best", "median", "mean"]
Training = Literal["alone", "together", "apart"]


def _check_folds(folds: int | str) -> int | str:
    if folds != GIVEN_FOLDS and not (isinstance(folds, int) and folds >= 3):
        raise ValueError(f'{quote(str(folds))}: give a number from 3, or "{GIVEN_FOLDS}"')
    return folds


class About(Section):
    """[study]: what the study is about, and how its runs become a number."""

    title: str
    paper: str | None = None
    table: str | None = None
    statistic: Statistic = "mean"
    select: Literal["dev", "test"] = "dev"
    extends: str | None = None
    note: str = ""


class Grid(Section):
    """[grid]: the settings of the trainings; each is run with each, and with each seed.

    Batch sizes are in the measure of the template's batcher. Only the first `documents` of each
    part are read; 0 for all.
    """

    learn_rates: list[pydantic.PositiveFloat] = []
    batch_sizes: list[pydantic.PositiveInt] = []
    seeds: Annotated[list[pydantic.NonNegativeInt], Field(min_length=1)] = [0]
    epochs: pydantic.PositiveInt | None = None
    documents: pydantic.NonNegativeInt = 0


class Row(Section):
    """[rows.NAME]: an encoder and a way to train it, a column of the papers' tables.

    `template`, `schedule` and `learn_rate` are of the training together, and `epochs` too unless
    the row trains alone. By default the rate is the grid's, or for "apart" the template's.
    """

    encoder: str
    title: str = ""
    training: Training = "alone"
    seeds: list[pydantic.NonNegativeInt] = []
    learn_rates: list[pydantic.PositiveFloat] = []
    companions: list[str] | None = None
    template: str = "multitask"
    schedule: Literal["round_robin", "proportional"] | None = None
    epochs: pydantic.PositiveInt | dict[str, pydantic.PositiveInt] | None = None
    learn_rate: pydantic.PositiveFloat | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> "Row":
        if self.training == "alone" and self.companions is not None:
            raise ValueError('companions are for training = "together" or "apart"')
        if self.training != "alone" and isinstance(self.epochs, dict):
            raise ValueError('epochs by corpus are for training = "alone"')
        return self


class CorpusSection(Section):
    """[corpora.NAME]: a converted corpus, and its training alone or apart."""

    folder: Path | None = None
    source: str | None = None
    groups: list[str] = []
    template: str | None = None
    metric: str | None = None
    epochs: pydantic.PositiveInt | None = None
    learn_rates: list[pydantic.PositiveFloat] = []
    folds: Annotated[int | str, pydantic.AfterValidator(_check_folds)] | None = None


class Comparisons(Section):
    """[comparisons]: paired tests of rows over the documents of the test parts."""

    pairs: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = []
    resamples: pydantic.PositiveInt = 2000
    level: Annotated[float, Field(gt=0.5, lt=1.0)] = 0.95


class Speed(Section):
    """[speed]: time and memory of the pipelines of the first corpus and seed, exported to ONNX."""

    precision: Literal["int8", "fp32"] = "int8"
    texts: Path | None = None
    repeats: pydantic.PositiveInt = 5
    threads: pydantic.PositiveInt | None = None


class Tracking(Section):
    """[tracking]: also log each training with a logger of spacy-loggers."""

    to: Literal["mlflow", "wandb"]
    project: str = "spacy-biomed"


class Study(ConfigFile):
    """The sections of a study.

    [vars] may have any variables, which other sections use as ${vars.name}.

    Attributes:
        config: settings of all training configs, as in spacy train, such as training.dropout.
    """

    vars: dict[str, object] = {}
    study: About
    grid: Grid = Grid()
    rows: Annotated[dict[Name, Row], Field(min_length=1)]
    corpora: Annotated[dict[Name, CorpusSection], Field(min_length=1)]
    comparisons: Comparisons = Comparisons()
    speed: Speed | None = None
    tracking: Tracking | None = None
    config: dict[str, object] = {}

    @model_validator(mode="after")
    def _names_fit(self) -> "Study":
        for name, row in self.rows.items():
            for companion in row.companions or ():
                check_name(f"rows.{name}.companions", companion, self.corpora)
            for corpus in row.epochs if isinstance(row.epochs, dict) else ():
                check_name(f"rows.{name}.epochs", corpus, self.corpora)
        for name in (name for pair in self.comparisons.pairs for name in pair):
            check_name("comparisons.pairs", name, self.rows)
        return self

    def title(self, row: str) -> str:
        return self.rows[row].title or row

    @property
    def groups(self) -> dict[str, list[str]]:
        """The names of the corpora of each group, in order."""
        groups: dict[str, list[str]] = {}
        for name, corpus in self.corpora.items():
            for group in corpus.groups:
                groups.setdefault(group, []).append(name)
        return groups


def find_study(study: Path | str) -> Path:
    """The file of a study: `study` itself, or of the name of one that ships."""
    name, shipped = str(study), list_studies()
    path = shipped.get(name, Path(name))
    if not os.path.isfile(path):
        problem = f"{quote(name)}: no such study; `python -m spacy biomed study list` shows some"
        raise BiomedError(add_hint(problem, suggest(name, shipped, 2)))
    return path


def list_studies() -> dict[str, Path]:
    """The studies that ship, by name."""
    return {path.stem: path for path in sorted(CONFIGS.glob("*.cfg"))}


def read_study(study: Path | str, overrides: Mapping[str, object] | None = None) -> Study:
    """Read and check a study.

    Args:
        study: a file, or the name of a study that ships, such as "lewis_table_2".
        overrides: settings by their dotted names, as on the command line.

    Raises:
        BiomedError: if it cannot be read, or something in it is wrong or missing.
    """
    return read_sections(find_study(study), Study, overrides, kind="study", prepare=_complete)


def _complete(config: Config) -> Config:
    """Add the sections of the study that a study extends, and those that may be left out."""
    about = config.get("study", {})
    if isinstance(about, dict) and (other := about.get("extends")):
        base = Config().from_str(read_config_text(find_study(other), "study"), interpolate=False)
        if "extends" in base.get("study", {}):
            raise ValueError(f"study.extends: {quote(other)} extends another study; extend that")
        config = Config({**base, **config, "study": {**base.get("study", {}), **about}})
    if isinstance(config.get("rows"), dict) and isinstance(config.get("corpora"), dict):
        config["rows"] = _expand_rows(config["rows"], list(config["corpora"]))
    empty: dict[str, dict] = {"vars": {}, "grid": {}, "comparisons": {}, "config": {}}
    return Config({**empty, **config})


def _expand_rows(rows: Mapping[str, object], corpora: list[str]) -> dict[str, object]:
    """Replace a row with each companion by a row for each corpus."""
    expanded: dict[str, object] = {}
    for name, row in rows.items():
        if not (isinstance(row, Mapping) and row.get("companions") == EACH):
            expanded[name] = row
            continue
        title = row.get("title", name)
        for corpus in corpora:
            own = {**row, "companions": [corpus], "title": f"{title} {corpus}"}
            expanded[f"{name}_{corpus}"] = own
    return expanded


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The figures of a table, as printed, by row, corpus and metric.

    Attributes:
        source: the paper and the number of the table, in words.
        unit: what a perfect score is in it, 1 or 100.
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
