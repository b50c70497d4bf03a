"""Recipes: the config of a language model's training.

`PretrainingRecipe` lists the sections; `configs/language_models/` has examples. An error in a
recipe is reported in one line with its file and line number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from confection import Config, ConfigValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from ..config_lines import (
    find_line_number,
    find_missing_variable,
    locate_setting_or_section,
    suggest_setting,
)
from ..encoders.torch.precision import Precision
from ..errors import BiomedError, escape, quote, suggest

# A section or setting in a message about sections that do not fit together.
_MENTIONED = re.compile(r"\[?\b(\w+\.\w+|(?<=\[)\w+(?=\]))")

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Paths = Annotated[
    list[Path],
    Field(min_length=1),
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
]


def _choose(tag: str, other: str, is_first: Callable[[Any], bool]) -> Discriminator:
    """A discriminator of two kinds of values, so that errors are only about one kind."""
    return Discriminator(lambda value: tag if is_first(value) else other)


def _has_name(section: Any) -> bool:
    return "name" in section if isinstance(section, Mapping) else hasattr(section, "name")


# Sections whose settings have no schema.
_VARIABLES = ("paths", "vars")

# Parts of pydantic's error locations that are no settings.
_TAGS = ("documents", "files", "existing", "learned", "fresh")


class Section(BaseModel):
    """A section of a recipe; it is immutable, and unknown settings are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Text(Section):
    """[text]: the training and validation text.

    Attributes:
        paths: files or folders, as `text_sources.read_documents` reads them.
        field: field or column with the text, for files with several fields.
        validation: files or folders for the validation loss, or the number of random documents of
            the training text to set aside for it.
    """

    paths: Paths
    field: str = "text"
    validation: Annotated[
        Annotated[PositiveInt, Tag("documents")] | Annotated[Paths, Tag("files")],
        _choose("documents", "files", lambda value: isinstance(value, int)),
    ]


class Existing(Section):
    """[encoder], [vocabulary] or [teacher]: an existing encoder, or its vocabulary.

    Attributes:
        name: directory, catalogue name or hub id.
        revision: commit, branch or tag on the hub; by default the one the catalogue pins.
    """

    name: str
    revision: str | None = None


class LearnedVocabulary(Section):
    """[vocabulary]: a vocabulary learned from text; see `vocabulary.py`.

    Attributes:
        paths: files or folders to learn it from; None for the training text.
    """

    kind: Literal["bpe", "wordpiece"]
    size: PositiveInt
    lowercase: bool = False
    paths: Paths | None = None

    @model_validator(mode="after")
    def _has_case(self) -> LearnedVocabulary:
        if self.lowercase and self.kind == "bpe":
            raise ValueError("only kind = wordpiece folds case; leave lowercase out")
        return self


class FreshEncoder(Section):
    """[encoder]: an encoder trained from scratch.

    Attributes:
        type: architecture.
        layers, width, heads, feed_forward: number of transformer layers, size of the hidden states,
            number of attention heads, and inner size of the feed-forward layers.
        positions: longest sequence, in word pieces, special tokens included.
        dropout: of hidden states and attention.
        start: initial weights: "random", as in BERT, or "text", from statistics of the text; see
            `text_start.py`.
    """

    type: Literal["bert", "roberta"]
    layers: PositiveInt
    width: PositiveInt
    heads: PositiveInt
    feed_forward: PositiveInt
    positions: PositiveInt = 512
    dropout: Share = 0.1
    start: Literal["random", "text"] = "random"

    @model_validator(mode="after")
    def _heads_divide_width(self) -> FreshEncoder:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of {self.heads} heads")
        return self


VocabularySection = Annotated[
    Annotated[Existing, Tag("existing")] | Annotated[LearnedVocabulary, Tag("learned")],
    _choose("existing", "learned", _has_name),
]
EncoderSection = Annotated[
    Annotated[Existing, Tag("existing")] | Annotated[FreshEncoder, Tag("fresh")],
    _choose("existing", "fresh", _has_name),
]


class Packing(Section):
    """[packing]: how to make sequences from documents; see `packed_sequences.py`.

    Attributes:
        length: word pieces of the longest sequence, special tokens included.
        across_documents: whether a sequence continues with the next document after a separator, or
            ends with its document.
    """

    length: Annotated[int, Field(ge=8)]
    across_documents: bool = True


class Masking(Section):
    """[masking]: the choice of word pieces to predict; see `masking.py`."""

    probability: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.15
    whole_words: bool = False


class Training(Section):
    """[training]: length, learning rate, precision and other settings of the training.

    Attributes:
        batch: sequences per step, over all devices.
        device_batch: sequences that a device computes at once; gradients are accumulated to the
            batch. None for a size that suits the device.
        steps, epochs: length of the training; give exactly one. An epoch is one pass over the
            training text.
        learning_rate: maximum learning rate; it decays linearly to 0.
        warmup: steps in which the learning rate rises from 0; if below 1, share of all steps.
        weight_decay, beta1, beta2, epsilon: of AdamW. Biases and normalisations do not decay.
        gradient_clipping: maximum norm of the gradient; 0 for no limit.
        precision: "fp32", "bf16", "fp16", or "auto": bf16 if it is faster on the device.
        evaluate_every: steps between evaluations. A checkpoint is saved at each evaluation.
        seed: seed of weights, masks, order of the text and dropout.
        arguments: passed to transformers' `TrainingArguments`: fsdp, torch_compile,
            gradient_checkpointing, dataloader_num_workers and so on.
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
    arguments: dict[str, Any] = {}

    @model_validator(mode="after")
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
    """[output]: the encoder directory to write.

    Attributes:
        directory: in Hugging Face layout. The run's folder is next to it, `<directory>.training`.
        weights: number format of the weights; "fp16" takes half the space.
    """

    directory: Path
    weights: Literal["fp32", "fp16"] = "fp32"

    @field_validator("directory")
    @classmethod
    def _has_name(cls, directory: Path) -> Path:
        if directory.name in ("", ".."):
            raise ValueError("has no name; name a directory")
        return directory

    @property
    def work(self) -> Path:
        return self.directory.with_name(self.directory.name + ".training")


class TrainingRecipe(Section):
    """The sections of all recipes.

    [paths] may have any variables, which other sections use as ${paths.text}.

    Attributes:
        made_by: the command for the recipe.
    """

    made_by: ClassVar[str]

    paths: dict[str, Any] = {}
    text: Text
    packing: Packing
    masking: Masking = Masking()
    training: Training
    output: Output

    _source: Path | None = PrivateAttr(default=None)
    _text: str = PrivateAttr(default="")

    def error(self, setting: str, problem: str) -> BiomedError:
        """An error about a setting, such as "text.paths", with the recipe's file and line."""
        place = describe_place(self._source, self._text, setting) if self._source else ""
        return BiomedError(f"{place}{setting}: {problem}")

    def check_paths(self) -> None:
        """Check that the files and folders of the text exist.

        Raises:
            BiomedError: if one does not.
        """
        for setting, paths in self._list_texts():
            for path in paths if isinstance(paths, list) else ():
                if not path.exists():
                    raise self.error(setting, f"{path} does not exist; correct the path")

    def _list_texts(self) -> list[tuple[str, Any]]:
        """The settings that may name texts, and their values."""
        return [("text.paths", self.text.paths), ("text.validation", self.text.validation)]

    def identity(self) -> dict[str, Any]:
        """The settings that must not change when a run is resumed.

        Paths and settings of the computation may change. Text is identified by its content
        (`packed_sequences.fingerprint`), not by its path.
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
        encoder: the encoder.
    """

    made_by = "spacy biomed pretrain"

    vocabulary: VocabularySection | None = None
    encoder: EncoderSection

    @model_validator(mode="after")
    def _fits_together(self) -> PretrainingRecipe:
        if isinstance(self.encoder, Existing):
            if self.vocabulary is not None:
                raise ValueError(
                    "an existing encoder has a vocabulary; remove the section [vocabulary], or "
                    "give [encoder] a type and a shape instead of a name"
                )
        elif self.vocabulary is None:
            raise ValueError("an encoder with random weights needs a [vocabulary]; add the section")
        elif self.packing.length > self.encoder.positions:
            raise ValueError(
                f"packing.length = {self.packing.length} is more than encoder.positions = "
                f"{self.encoder.positions}; change one of them"
            )
        return self

    def _list_texts(self) -> list[tuple[str, Any]]:
        learned = [self.vocabulary] if isinstance(self.vocabulary, LearnedVocabulary) else []
        return [*super()._list_texts(), *(("vocabulary.paths", one.paths) for one in learned)]


AnyRecipe = TypeVar("AnyRecipe", bound=TrainingRecipe)


def read_recipe(
    path: Path, schema: type[AnyRecipe], overrides: Mapping[str, Any] | None = None
) -> AnyRecipe:
    """Read and check a recipe.

    Args:
        path: the recipe's file.
        schema: `PretrainingRecipe`, or another subclass of `TrainingRecipe`.
        overrides: settings by their dotted names, as on the command line.

    Raises:
        BiomedError: if the file cannot be read, or something in it is wrong or missing.
    """
    recipe, text = read_sections(path, schema, overrides, kind="recipe")
    recipe._source, recipe._text = path, text
    recipe.check_paths()
    return recipe


AnySections = TypeVar("AnySections", bound=BaseModel)


def read_sections(
    path: Path,
    schema: type[AnySections],
    overrides: Mapping[str, Any] | None = None,
    *,
    kind: str,
    prepare: Callable[[Config], Config] | None = None,
) -> tuple[AnySections, str]:
    """Read a config and check it against a schema.

    Args:
        path: the file.
        schema: its sections.
        overrides: settings by their dotted names, as on the command line.
        kind: what such a file is called in messages.
        prepare: completes the config before overrides and variables are filled in.

    Returns:
        the sections, and the text of the file.

    Raises:
        BiomedError: if the file cannot be read, or something in it is wrong or missing.
    """
    text = read_config_text(path, kind)
    try:
        whole = text
        if prepare is not None:
            whole = prepare(Config().from_str(text, interpolate=False)).to_str()
        whole = _check_overrides(path, whole, schema, overrides or {})
        config = Config().from_str(whole, overrides=dict(overrides or {}))
        return schema.model_validate(_without_nulls(config)), text
    except BiomedError:
        raise
    except ValidationError as error:
        raise BiomedError(_explain(path, text, schema, error, kind)) from error
    except (ConfigValidationError, ConfigParserError, ValueError) as error:
        raise BiomedError(_explain_syntax(path, text, error)) from error


def _check_overrides(
    path: Path, text: str, schema: type[BaseModel], overrides: Mapping[str, Any]
) -> str:
    """Check that overrides are of sections, and of variables, that are there.

    Returns:
        the config's text, with the sections that it leaves out and that overrides have settings of.
    """
    config = Config().from_str(text, interpolate=False)
    for name in overrides:
        first, *others = name.split(".")[:-1]
        if first in schema.model_fields:
            config.setdefault(first, {})
        section: Any = config.get(first)
        for part in others:
            section = section.get(part) if isinstance(section, Mapping) else None
        is_variable = first in _VARIABLES and name.rpartition(".")[2] not in (section or ())
        if not isinstance(section, Mapping) or is_variable:
            problem = (
                "no such setting" if is_variable else f"no section [{name.rpartition('.')[0]}]"
            )
            raise BiomedError(f"--{name}: {problem} in {path}; {suggest_setting(name, config)}")
    return config.to_str(interpolate=False)


def read_config_text(path: Path, kind: str) -> str:
    """Read the text of a config; raise BiomedError if that fails."""
    if not os.path.isfile(path):
        raise BiomedError(f"{path}: no such file; give a {kind} (.cfg)")
    try:
        return path.read_text(encoding="utf8")
    except (OSError, UnicodeDecodeError) as error:
        raise BiomedError(f"{path}: cannot be read ({error}); give a {kind} (.cfg)") from error


def _without_nulls(section: Mapping[str, Any]) -> dict[str, Any]:
    """Remove settings that are null, which means that they are not given."""
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in section.items()
        if value is not None
    }


def _explain(
    path: Path, text: str, schema: type[BaseModel], error: ValidationError, kind: str
) -> str:
    """The message about the first error, in one line."""
    # A wrong name is reported first, since it may explain a missing setting.
    first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    names = [part for part in first["loc"] if isinstance(part, str) and part not in _TAGS]
    setting = ".".join(names)
    mentioned = _MENTIONED.search(first["msg"])
    name = setting or (mentioned.group(1) if mentioned else "")
    place = describe_place(path, text, name)
    if first["type"] == "missing":
        variable = _variable_of(text, name)
        given = f"give --{variable}" if variable else "add it"
        return f"{place}{setting or kind}: is missing; {given}"
    if first["type"] == "extra_forbidden":
        known = _all_settings(schema) - {names[-1]}
        return f"{place}{setting}: no such setting; {advise_on_name(names[-1], known)}"
    problem = first["msg"].removeprefix("Value error, ")
    problem = problem[:1].lower() + problem[1:]
    if first["type"] == "value_error":
        return f"{place}{setting + ': ' if setting else ''}{problem}"
    return f"{place}{setting} = {quote(first['input'])}: {problem}; correct it"


def advise_on_name(name: str, known: Iterable[str], most: int = 2) -> str:
    """What to do about an unknown name: take one of at most `most` similar names, or remove it."""
    return suggest(name, known, most) or "remove it"


def _explain_syntax(path: Path, text: str, error: Exception) -> str:
    """The message about an error that confection finds before sections are validated."""
    message = " ".join(str(error).split())
    if missing := find_missing_variable(message):
        setting, variable = missing
        line = locate_setting_or_section(text, setting)
        return (
            f"{path}:{line}: {setting}: ${{{variable}}} refers to a setting that is not there; "
            "correct its name, or add it"
        )
    line = find_line_number(message)
    number = f":{line}" if line else ""
    return f"{path}{number}: {escape(message, 160)}; correct it"


def describe_place(path: Path, text: str, setting: str) -> str:
    """The file and line of a setting, as a message begins; without line if there is none."""
    line = locate_setting_or_section(text, setting)
    return f"{path}:{line}: " if line else f"{path}: "


def _variable_of(text: str, setting: str) -> str | None:
    """The variable in the value of a setting: `paths.text` for ${paths.text}."""
    line = locate_setting_or_section(text, setting)
    if line is None:
        return None
    match = re.search(r"\$\{([\w.]+)\}", text.splitlines()[line - 1])
    return match.group(1) if match else None


def _all_settings(schema: type[BaseModel]) -> set[str]:
    """The names of all sections that a recipe can have, and of their settings."""
    described = schema.model_json_schema()
    parts = [described, *described.get("$defs", {}).values()]
    return {name for part in parts for name in part.get("properties", ())}
