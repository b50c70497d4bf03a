"""The recipe of pipelines: the corpora, teachers, texts and settings that they are made of.

`configs/pipelines/` has the recipes of the included pipelines, and `docs/public_pipelines.md`
describes the sections.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import Field, model_validator

from ..errors import quote
from ..settings.sections import ConfigFile, Section, check_name, read_sections

Name = Annotated[str, Field(pattern=r"^\w[\w-]*$")]
PackageName = Annotated[str, Field(pattern=r"^[a-z]{2,3}_[A-Za-z0-9]\w*$")]


class SourceCorpus(Section):
    """[corpora.NAME]: a corpus that is trained on, and how `spacy biomed convert` reads it."""

    name: str | None = None
    folder: Path | None = None
    format: str | None = None
    language: str | None = None
    encoding: str | None = None
    n_sents: pydantic.PositiveInt = 1
    tag_label: str | None = None
    labels: list[str] = []
    map: dict[str, str] = {}
    train: list[Path] = []
    dev: list[Path] = []
    test: list[Path] = []
    replace_mentions: Path | None = None
    copies: pydantic.PositiveInt | None = None
    on_error: Literal["stop", "skip"] = "stop"
    seed: pydantic.NonNegativeInt = 0


class Combination(Section):
    """[corpus]: the corpora as one. Its name is that of its folder, and in the card."""

    name: Name
    # Whether texts of both a training and a development part are trained on.
    train_first: bool = True


class Training(Section):
    """The settings of a training; None for those of the template, others by their dotted names."""

    epochs: pydantic.PositiveInt | None = None
    batch_words: pydantic.PositiveInt | None = None
    learn_rate: pydantic.PositiveFloat | None = None
    template: str | None = None
    config: dict[str, object] = {}


class TeacherSection(Training):
    """[teachers.NAME]: a larger pipeline, from whose probabilities students learn."""

    encoder: str | None = None
    pipeline: str | None = None
    seeds: Annotated[list[pydantic.NonNegativeInt], Field(min_length=1)] = [0]

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "TeacherSection":
        if self.encoder and self.pipeline:
            raise ValueError("give a teacher either an encoder or a pipeline")
        return self


class Texts(Section):
    """[texts]: unlabelled text, a document a line, that teachers annotate for their students."""

    paths: Annotated[list[Path], Field(min_length=1)]
    words: pydantic.NonNegativeInt = 0  # that are drawn; 0 for all
    seed: pydantic.NonNegativeInt = 0


class Student(Training):
    """[students.NAME]: a pipeline that is built; NAME is its package's, with the language."""

    encoder: str | None = None
    source: str | None = None
    source_share: Annotated[float, Field(ge=0, lt=1)] = 0
    teachers: list[str] | None = None
    seed: pydantic.NonNegativeInt = 0
    precision: Literal["int8", "fp32"] = "int8"
    max_loss: pydantic.NonNegativeFloat = 1.0
    unseen_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    target_recall: list[str] = []
    place: Path | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "Student":
        if (self.encoder is None) == (self.source is None):
            raise ValueError("give a student either an encoder or a source to go on from")
        if self.source_share and self.source is None:
            raise ValueError("source_share is for a student that goes on from a source")
        return self


class Card(Section):
    """[card]: what the wheels and their cards say."""

    version: str = "0.1.0"
    tests: list[str] | None = None
    robustness: list[str] = []


class PipelineRecipe(ConfigFile):
    """The sections of a recipe; [vars] may have any variables, used as ${vars.name}."""

    vars: dict[str, object] = {}
    corpus: Combination
    corpora: Annotated[dict[Name, SourceCorpus], Field(min_length=1)]
    texts: Texts | None = None
    teachers: dict[Name, TeacherSection] = {}
    students: Annotated[dict[PackageName, Student], Field(min_length=1)]
    card: Card = Card()

    @model_validator(mode="after")
    def _names_fit(self) -> "PipelineRecipe":
        if self.corpus.name in self.corpora:
            raise ValueError(f"corpus.name = {quote(self.corpus.name)}: is one of the corpora")
        for setting, names in (("tests", self.card.tests), ("robustness", self.card.robustness)):
            for name in names or ():
                check_name(f"card.{setting}", name, self.corpora)
        for name, student in self.students.items():
            for teacher in student.teachers or ():
                check_name(f"students.{name}.teachers", teacher, self.teachers)
        return self

    def teachers_of(self, student: str) -> dict[str, TeacherSection]:
        """The teachers of a student, without those that the command line does not name."""
        names = self.students[student].teachers
        return {
            name: teacher
            for name, teacher in self.teachers.items()
            if (teacher.encoder or teacher.pipeline) and (names is None or name in names)
        }


def read_pipeline_recipe(
    path: Path, overrides: Mapping[str, object] | None = None
) -> PipelineRecipe:
    """Read and check a recipe.

    Args:
        overrides: settings by their dotted names, as on the command line.

    Raises:
        BiomedError: if it cannot be read, or something in it is wrong or missing.
    """
    return read_sections(path, PipelineRecipe, overrides, kind="recipe")
