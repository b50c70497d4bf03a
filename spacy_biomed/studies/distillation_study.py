"""Train the same student with every objective, and without a teacher, for comparison."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from ..encoders.loading import save_encoder
from ..errors import BiomedError, list_choices
from ..files.outputs import record_file, remove_directory, replace_text, replacing_directory
from ..language_models.distillation import distill, logits_setting, prepare_student
from ..language_models.initialization import load_language_model
from ..language_models.objectives import OBJECTIVES, Shape
from ..language_models.packed_sequences import fingerprint
from ..language_models.pretraining import pretrain
from ..language_models.recipe import (
    DistillationRecipe,
    Existing,
    ObjectiveSection,
    Output,
    PretrainingRecipe,
)
from .runs import create_digest, read_result

NO_DISTILLATION = "no_distillation"

START, STUDENTS, RUN = "start", "students", "study.json"


@dataclass(frozen=True, slots=True)
class Student:
    """A student of a study, which has the name of its objective, or `NO_DISTILLATION`."""

    name: str
    recipe: DistillationRecipe | PretrainingRecipe
    digest: str

    @property
    def directory(self) -> Path:
        return self.recipe.output.directory

    @property
    def is_trained(self) -> bool:
        """Whether it is trained with exactly this recipe, teacher and text."""
        return read_result(self.directory / RUN, self.digest) is not None

    def train(self, console: Console | None = None) -> None:
        """Train it, resuming from the last checkpoint if there is one, and delete checkpoints."""
        if isinstance(self.recipe, DistillationRecipe):
            distill(self.recipe, console)
        else:
            pretrain(self.recipe, console)
        replace_text(self.directory / RUN, json.dumps({"run": self.digest}) + "\n")
        record_file(self.directory, RUN)
        remove_directory(self.recipe.output.work, self.recipe.made_by)


def make_students(
    recipe: DistillationRecipe,
    output: Path,
    objectives: Sequence[str] = tuple(OBJECTIVES),
    *,
    console: Console | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> dict[str, Path]:
    """Train the recipe's student with each objective, and with masked language modelling only.

    When run again, it resumes the interrupted student and trains the missing students. A student
    whose recipe, teacher or text has changed is trained again.

    Args:
        recipe: what all students have in common. Its objective keeps its settings; others have
            those of their papers.
        output: folder for the students' encoder directories.
        progress: called with the name of each student before its training.

    Returns:
        the encoder directories by name, starting with `NO_DISTILLATION`.

    Raises:
        BiomedError: if there is no such objective, teacher or student, or they do not fit together,
            and as in trainings.
    """
    students = plan_students(recipe, output, objectives)
    for student in students:
        if not student.is_trained:
            progress(student.name)
            student.train(console)
    return {student.name: student.directory for student in students}


def plan_students(
    recipe: DistillationRecipe, output: Path, objectives: Sequence[str] = tuple(OBJECTIVES)
) -> list[Student]:
    """Create the recipe of each student, and write the initial encoder of all students.

    If the teacher has no language-model head, terms with its distributions are left out.
    """
    for name in objectives:
        if name not in OBJECTIVES:
            raise BiomedError(f"there is no objective '{name}'; {list_choices(name, OBJECTIVES)}")
    tokenizer, teacher, has_new_head = load_language_model(
        recipe.teacher.name, recipe.teacher.revision
    )
    tokenizer, start = prepare_student(recipe, tokenizer, teacher)
    weights = hashlib.sha256(_hash_weights(teacher) + _hash_weights(start)).hexdigest()
    text = fingerprint(recipe, tokenizer)
    # Named by its weights: a run to resume is identified by the name of its encoder.
    begin = output / START / f"student_{weights[:16]}"
    if not begin.is_dir():
        with replacing_directory(begin, recipe.made_by) as partial:
            save_encoder(partial, tokenizer, start)

    def output_of(name: str) -> Output:
        return Output(directory=output / STUDENTS / name, weights=recipe.output.weights)

    alone = PretrainingRecipe(
        text=recipe.text,
        encoder=Existing(name=str(begin)),
        packing=recipe.packing,
        masking=recipe.masking,
        training=recipe.training,
        output=output_of(NO_DISTILLATION),
    )
    recipes: dict[str, DistillationRecipe | PretrainingRecipe] = {NO_DISTILLATION: alone}
    for name in objectives:
        section = recipe.objective if recipe.objective.name == name else ObjectiveSection(name=name)
        chosen = recipe.model_copy(update={"objective": section, "output": output_of(name)})
        objective = chosen.create_objective(Shape.of(start), Shape.of(teacher))
        if has_new_head and objective.needs.teacher_logits:
            settings = {**section.model_dump(), logits_setting(objective): 0.0}
            section = ObjectiveSection.model_validate(settings)
            chosen = chosen.model_copy(update={"objective": section})
        recipes[name] = chosen
    return [Student(name, one, _digest(one, text, weights)) for name, one in recipes.items()]


def _digest(recipe: DistillationRecipe | PretrainingRecipe, text: str, weights: str) -> str:
    """A hash of everything that determines a student's weights.

    Teacher and initial encoder are identified by their weights, not by their names.
    """
    named = {"teacher", "student", "encoder"}
    identity = {key: value for key, value in recipe.identity().items() if key not in named}
    return create_digest(json.dumps(identity, sort_keys=True), text, weights)


def _hash_weights(model: torch.nn.Module) -> bytes:
    digest = hashlib.sha256()
    for name, weight in model.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.numpy().tobytes())
    return digest.digest()
