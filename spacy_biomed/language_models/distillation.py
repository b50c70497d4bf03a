"""Task-agnostic distillation, from a teacher to an encoder directory: `spacy biomed distill`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from accelerate import PartialState
from rich.console import Console

from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..errors import BiomedError
from .distillation_recipe import DistillationRecipe
from .distillation_trainer import DistillationTrainer, show_attention
from .initialization import check_positions, load_language_model
from .objectives import Objective, Shape
from .objectives.objective import map_layers
from .run_folders import RunReport, claim_text, open_run, short_name, start_processes, train
from .students import create_smaller, take_layers

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def distill(recipe: DistillationRecipe, console: Console | None = None) -> RunReport | None:
    """Train a student as described by a recipe, resuming from the last checkpoint if there is one.

    Arguments, result and errors are those of `pretraining.pretrain`.
    """
    state = start_processes(recipe)
    console = console if state.is_main_process else None
    with open_run(recipe, state) as partial:
        with state.main_process_first():
            tokenizer, student, teacher, objective = prepare_models(recipe, state)
            training, validation = claim_text(recipe, tokenizer, state, console)
        trainer = DistillationTrainer(
            student, teacher, objective, recipe, tokenizer, training, validation
        )
        return train(trainer, tokenizer, describe(recipe, objective), partial, console)


def prepare_models(
    recipe: DistillationRecipe, state: PartialState
) -> tuple[WordPieceTokenizer, PreTrainedModel, PreTrainedModel, Objective]:
    """Load or create the student's tokenizer, the student, the teacher and the objective."""
    on_cpu = state.device.type == "cpu"
    tokenizer, teacher, has_new_head = load_language_model(
        recipe.teacher.name, recipe.teacher.revision, on_cpu=on_cpu
    )
    tokenizer, student = prepare_student(recipe, tokenizer, teacher, on_cpu=on_cpu)
    check_positions(recipe, teacher, "teacher")
    check_positions(recipe, student, "student")
    objective = recipe.create_objective(Shape.of(student), Shape.of(teacher))
    if has_new_head and objective.needs.teacher_logits:
        raise recipe.error(
            "teacher.name",
            "has no head for masked language modelling, so it has no distributions to learn "
            f"from; set objective.{logits_setting(objective)} = 0, or take another teacher",
        )
    if objective.needs.attentions:
        student, teacher = show_attention(student), show_attention(teacher)
    return tokenizer, student, teacher, objective


def prepare_student(
    recipe: DistillationRecipe,
    tokenizer: WordPieceTokenizer,
    teacher: PreTrainedModel,
    *,
    on_cpu: bool = False,
) -> tuple[WordPieceTokenizer, PreTrainedModel]:
    """Load or create the untrained student of a recipe, and its tokenizer.

    The tokenizer that is given is the teacher's, whose vocabulary the student must have.
    """
    section = recipe.student
    if section.name is not None:
        loaded, student, _ = load_language_model(section.name, section.revision, on_cpu=on_cpu)
        _check_vocabulary(recipe, loaded, tokenizer)
        # Embedding tables may have more rows than the vocabulary.
        mine, theirs = student.config.vocab_size, teacher.config.vocab_size
        if mine != theirs:
            raise recipe.error(
                "student.name",
                f"its embedding table has {mine:,} rows and the teacher's {theirs:,}, so that "
                "their distributions cannot be compared; take another student, or give it layers",
            )
        return loaded, student
    try:
        if section.width is None:
            layers = section.teacher_layers or section.layers
            student = take_layers(teacher, cast("int | list[int]", layers))
        else:
            shape = section.model_dump(include={"layers", "width", "heads", "feed_forward"})
            student = create_smaller(teacher, **shape, seed=recipe.training.seed)
    except BiomedError as error:
        raise recipe.error("student", str(error)) from error
    return tokenizer, student


def describe(recipe: DistillationRecipe, objective: Objective) -> str:
    """A description of how a student was trained, for its model card."""
    section = recipe.student
    if section.name is not None:
        start = f"as {short_name(section.name)}"
    elif section.width is not None:
        start = "with random weights"
    else:
        taken = section.teacher_layers or map_layers(
            objective.student.layers, objective.teacher.layers
        )
        start = f"as layers {', '.join(map(str, taken))} of the teacher, with its embeddings"
    weights = " + ".join(f"{weight:g} × {name}" for name, weight in objective.weights.items())
    parts = [
        f"Distilled from {short_name(recipe.teacher.name)} with the objective "
        f"`{recipe.objective.name}`: {weights}. The student began {start}."
    ]
    if objective.needs.logits == "none":
        parts.append(
            "The objective takes no vocabulary distributions, so the language-model head has not "
            "been trained."
        )
    return " ".join(parts)


def _check_vocabulary(
    recipe: DistillationRecipe, student: WordPieceTokenizer, teacher: WordPieceTokenizer
) -> None:
    """Check that both have the same ids, since all terms compare them position by position."""
    mine, theirs = (tokenizer.tokenizer.get_vocab() for tokenizer in (student, teacher))
    if mine == theirs and (student.prefix, student.suffix) == (teacher.prefix, teacher.suffix):
        return
    shared = len(mine.items() & theirs.items())
    raise recipe.error(
        "student.name",
        f"its vocabulary is not the teacher's ({len(mine):,} entries and {len(theirs):,}, "
        f"{shared:,} entries shared); take a student with the teacher's, or give it layers",
    )


def logits_setting(objective: Objective) -> str:
    """The setting with the weight of the objective's one term with the teacher's distributions."""
    [term] = objective.weights.keys() & {"soft_mlm", "output"}
    return f"{term}_weight"
