"""Recipes for distillation, with the additional sections [teacher], [student] and [objective]."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import torch
from pydantic import ConfigDict, PositiveInt, ValidationError, create_model, model_validator

from ..errors import BiomedError, list_choices
from ..settings.sections import Section, explain_validation
from .objectives import OBJECTIVES, Objective, Shape
from .recipe import Existing, TrainingRecipe


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

    @model_validator(mode="after")
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

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @model_validator(mode="after")
    def _has_settings_of_the_objective(self) -> ObjectiveSection:
        if self.name not in OBJECTIVES:
            raise ValueError(
                f"there is no objective '{self.name}'; {list_choices(self.name, OBJECTIVES)}"
            )
        schema = _settings(OBJECTIVES[self.name])
        try:
            schema.model_validate(self.model_extra or {})
        except ValidationError as error:
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
    return create_model(objective.__name__, __base__=Section, **settings)
