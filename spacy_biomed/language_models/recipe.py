"""Recipes: the config of a language model's training.

`PretrainingRecipe` and `DistillationRecipe` list the sections; `configs/language_models/` has
examples. An error in a recipe is reported in one line with its file and line number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_type_hints

import pydantic
import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from ..encoders.torch.precision import Precision
from ..errors import BiomedError, list_choices
from ..settings.sections import ConfigFile, Section, explain_validation, read_sections
from .objectives import OBJECTIVES, Objective, Shape


def _check_exists(path: Path) -> Path:
    if not path.exists():
        raise ValueError(f"{path} does not exist; correct the path")
    return path


Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Paths = Annotated[
    list[Annotated[Path, pydantic.AfterValidator(_check_exists)]],
    Field(min_length=1),
    pydantic.BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
]


def _find_kind(section: object) -> str:
    """The tag of a section, so that errors are only about one kind of it."""
    has_name = "name" in section if isinstance(section, Mapping) else hasattr(section, "name")
    return "existing" if has_name else "fresh"


class Text(Section):
    """[text]: files or folders of training text, and of validation text.

    `validation` may also be the number of random documents to set aside.
    """

    paths: Paths
    field: str = "text"
    validation: Annotated[
        Annotated[PositiveInt, pydantic.Tag("documents")] | Annotated[Paths, pydantic.Tag("files")],
        pydantic.Discriminator(lambda value: "documents" if isinstance(value, int) else "files"),
    ]


class Existing(Section):
    """[encoder], [vocabulary] or [teacher]: an existing encoder, as for `load_pretrained`."""

    name: str
    revision: str | None = None


class LearnedVocabulary(Section):
    """[vocabulary]: a vocabulary learned from text, or from the training text (`vocabulary.py`)."""

    kind: Literal["bpe", "wordpiece"]
    size: PositiveInt
    lowercase: bool = False
    paths: Paths | None = None

    @pydantic.model_validator(mode="after")
    def _has_case(self) -> LearnedVocabulary:
        if self.lowercase and self.kind == "bpe":
            raise ValueError("only kind = wordpiece folds case; leave lowercase out")
        return self


class FreshEncoder(Section):
    """[encoder]: an encoder trained from scratch; a `start` from the text is of `text_start.py`.

    `feed_forward` is the inner size of the feed-forward layers, and `positions` the longest
    sequence, special tokens included.
    """

    type: Literal["bert", "roberta"]
    layers: PositiveInt
    width: PositiveInt
    heads: PositiveInt
    feed_forward: PositiveInt
    positions: PositiveInt = 512
    dropout: Share = 0.1
    start: Literal["random", "text"] = "random"

    @pydantic.model_validator(mode="after")
    def _heads_divide_width(self) -> FreshEncoder:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        return self


VocabularySection = Annotated[
    Annotated[Existing, pydantic.Tag("existing")]
    | Annotated[LearnedVocabulary, pydantic.Tag("fresh")],
    pydantic.Discriminator(_find_kind),
]
EncoderSection = Annotated[
    Annotated[Existing, pydantic.Tag("existing")] | Annotated[FreshEncoder, pydantic.Tag("fresh")],
    pydantic.Discriminator(_find_kind),
]


class Packing(Section):
    """[packing]: how to make sequences from documents; see `packed_sequences.py`.

    `length` is that of the longest sequence in word pieces, special tokens included.
    """

    length: Annotated[int, Field(ge=8)]
    across_documents: bool = True


class Masking(Section):
    """[masking]: the choice of word pieces to predict; see `batches.Masking`."""

    probability: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15
    whole_words: bool = False


class Training(Section):
    """[training]: length, learning rate, precision and other settings of the training.

    `batch` counts the sequences of a step, over all devices, and `device_batch` those that a device
    computes at once; gradients are accumulated. The learning rate rises during `warmup` (steps, or
    a share of them if below 1) and decays linearly to 0. Biases and normalisations do not decay. A
    checkpoint is saved at each evaluation. `arguments` are passed to transformers.
    """

    batch: PositiveInt
    device_batch: PositiveInt | None = None
    steps: PositiveInt | None = None
    epochs: PositiveFloat | None = None
    learning_rate: PositiveFloat
    warmup: NonNegativeFloat = 0.0
    weight_decay: NonNegativeFloat = 0.01
    beta1: Share = 0.9
    beta2: Share = 0.999
    epsilon: PositiveFloat = 1e-8
    gradient_clipping: NonNegativeFloat = 0.0
    precision: Precision = "auto"
    evaluate_every: PositiveInt
    seed: NonNegativeInt = 0
    arguments: dict[str, object] = {}

    @pydantic.model_validator(mode="after")
    def _has_one_length(self) -> Training:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs, and leave the other out")
        return self

    def total_steps(self, sequences: int) -> int:
        """The number of steps, for a training text with this number of sequences."""
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return max(round(self.epochs * sequences / self.batch), 1)

    def warmup_steps(self, steps: int) -> int:
        return round(self.warmup * steps) if self.warmup < 1 else round(self.warmup)


class Output(Section):
    """[output]: the encoder directory to write; the run's folder is beside it."""

    directory: Path
    weights: Literal["fp32", "fp16"] = "fp32"

    @pydantic.field_validator("directory")
    @classmethod
    def _has_name(cls, directory: Path) -> Path:
        if directory.name in ("", ".."):
            raise ValueError("has no name; name a directory")
        return directory

    @property
    def work(self) -> Path:
        return self.directory.with_name(self.directory.name + ".training")


class TrainingRecipe(ConfigFile):
    """The sections of all recipes.

    [paths] may have any variables, which other sections use as ${paths.text}.

    Attributes:
        made_by: the command for the recipe.
    """

    made_by: ClassVar[str]

    paths: dict[str, object] = {}
    text: Text
    packing: Packing
    masking: Masking = Masking()
    training: Training
    output: Output

    def identity(self) -> dict[str, object]:
        """The settings that must not change when a run is resumed.

        Paths and settings of the computation may. Text is identified by `fingerprint`.
        """
        text = {"paths"} if isinstance(self.text.validation, int) else {"paths", "validation"}
        training = {"device_batch", "precision", "evaluate_every", "arguments"}
        exclude: dict[str, bool | set[str]] = {"text": text, "training": training}
        exclude.update(paths=True, output=True, vocabulary={"paths"})
        return self.model_dump(mode="json", exclude=exclude)


class PretrainingRecipe(TrainingRecipe):
    """A recipe for masked language modelling, from scratch or from an existing encoder.

    Attributes:
        vocabulary: None for the vocabulary of the existing encoder.
    """

    made_by = "spacy biomed pretrain"

    vocabulary: VocabularySection | None = None
    encoder: EncoderSection

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> PretrainingRecipe:
        is_new = isinstance(self.encoder, FreshEncoder)
        if is_new == (self.vocabulary is None):
            raise ValueError(
                "the section [vocabulary] is for a new encoder: add it to one with a type and a "
                "shape, and remove it from one with a name"
            )
        if isinstance(self.encoder, FreshEncoder) and self.packing.length > self.encoder.positions:
            raise ValueError(
                f"packing.length = {self.packing.length} is more than encoder.positions = "
                f"{self.encoder.positions}; change one of them"
            )
        return self


class Student(Section):
    """[student]: layers of the teacher, a new encoder of another shape, or an existing encoder.

    Without a width, `layers` are every k-th layer of the teacher, with its embeddings and head;
    `teacher_layers` are others in their place, from 1. With a width, weights are random, and the
    inner size of the feed-forward layers is by default four times the width.
    """

    name: str | None = None
    revision: str | None = None
    layers: PositiveInt | None = None
    teacher_layers: list[PositiveInt] | None = None
    width: PositiveInt | None = None
    heads: PositiveInt | None = None
    feed_forward: PositiveInt | None = None

    @pydantic.model_validator(mode="after")
    def _is_of_one_kind(self) -> Student:
        given = self.model_fields_set - {"name", "layers", "teacher_layers"}
        allowed = {"revision"} if self.name else set()
        if self.layers and self.width and self.heads:
            allowed = {"width", "heads", "feed_forward"}
        if sum([self.name is not None, self.layers is not None, bool(self.teacher_layers)]) != 1:
            raise ValueError(
                "give one of name (an existing encoder), layers (how many) and teacher_layers "
                "(which of the teacher's)"
            )
        if given - allowed:
            raise ValueError(
                f"{min(given - allowed)} does not belong to this student: one with a name may have "
                "a revision, and one with random weights has layers, width and heads"
            )
        if self.width and self.heads and self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        return self


class ObjectiveSection(Section):
    """[objective]: a name in `OBJECTIVES`, and the settings of its class."""

    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    name: str

    @pydantic.model_validator(mode="after")
    def _has_settings_of_the_objective(self) -> ObjectiveSection:
        if self.name not in OBJECTIVES:
            raise ValueError(
                f"there is no objective '{self.name}'; {list_choices(self.name, OBJECTIVES)}"
            )
        schema = _settings(OBJECTIVES[self.name])
        try:
            schema.model_validate(self.model_extra or {})
        except pydantic.ValidationError as error:
            _, problem = explain_validation(schema, error, "objective")
            raise ValueError(f"{problem} (of '{self.name}')") from error
        return self


class DistillationRecipe(TrainingRecipe):
    """A recipe for distillation."""

    made_by = "spacy biomed distill"

    teacher: Existing
    student: Student
    objective: ObjectiveSection

    def create_objective(self, student: Shape, teacher: Shape) -> Objective:
        """Create the objective, with random projections from the recipe's seed.

        Raises:
            BiomedError: with the line of the recipe, if it does not fit the two encoders.
        """
        section = self.objective
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.training.seed)
            try:
                return OBJECTIVES[section.name](student, teacher, **(section.model_extra or {}))
            except BiomedError as error:
                raise self.error("objective", str(error)) from error


def _settings(objective: type[Objective]) -> type[Section]:
    """A schema of the keyword arguments of an objective."""
    hints = get_type_hints(objective, include_extras=True)
    settings: dict[str, Any] = {
        field.name: (hints[field.name], field.default)
        for field in fields(objective)
        if field.kw_only
    }
    return pydantic.create_model(objective.__name__, __base__=Section, **settings)


AnyRecipe = TypeVar("AnyRecipe", bound=TrainingRecipe)


def read_recipe(
    path: Path, schema: type[AnyRecipe], overrides: Mapping[str, object] | None = None
) -> AnyRecipe:
    """Read and check a recipe.

    Args:
        schema: `PretrainingRecipe`, or another subclass of `TrainingRecipe`.
        overrides: settings by their dotted names, as on the command line.

    Raises:
        BiomedError: if the file cannot be read, or something in it is wrong or missing.
    """
    return read_sections(path, schema, overrides, kind="recipe")
