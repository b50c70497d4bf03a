"""`spacy biomed study encoders` and `spacy biomed study distillation`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from ..errors import BiomedError
from ..outputs import working_directory
from ._shared.display import showing_study
from ._shared.overrides import parse_overrides
from ._shared.training_extra import importing_extra
from ._shared.training_options import (
    BATCH_WORDS,
    CORPORA_DIR,
    GPU_ID,
    LEARN_RATE,
    STUDY,
    Seeds,
    template_option,
)
from .init_config import split_names
from .train import set_up_gpu

if TYPE_CHECKING:
    from ..studies.encoder_study import Contestant, Corpus, EncoderStudySettings

OUTPUT = typer.Argument(help="Folder for the table, the figure, the trainings and their scores.")
TASKS = typer.Option(
    ...,
    help="Converted corpora of entities: names with commas between them, each NAME or NAME=EPOCHS.",
)
EPOCHS = typer.Option(
    8, min=1, help="Epochs of each training on a corpus without a number in --tasks."
)
TEXTS = typer.Option(None, help="File of texts to time pipelines on; else the first test part.")
REPEATS = typer.Option(5, min=1, help="How often pipelines are timed.")
THREADS = typer.Option(None, min=1, help="Threads of each library while pipelines are timed.")


def encoders(
    output: Path = OUTPUT,
    encoders: str = typer.Option(
        ...,
        help="Directories, catalogue names or hub ids with commas between them; random:ENCODER for "
        "its shape with initial weights; NAME=ENCODER gives it another name.",
    ),
    tasks: str = TASKS,
    baseline: str = typer.Option(None, help="Name of the encoder to compare the others with."),
    epochs: int = EPOCHS,
    batch_words: int = BATCH_WORDS,
    learn_rate: float = LEARN_RATE,
    seeds: Seeds = 3,
    texts: Path = TEXTS,
    repeats: int = REPEATS,
    threads: int = THREADS,
    corpora_dir: Path = CORPORA_DIR,
    template: Path = template_option("ner"),
    gpu_id: int = GPU_ID,
) -> None:
    """Fine-tune encoders on corpora of entities: a table and a figure of F1, speed and size.

    If the study was stopped, give the same command again: finished trainings are kept, and an
    unfinished training resumes.

    Example: python -m spacy biomed study encoders metrics/starter --encoders
    assets/encoders/starter-en,random:assets/encoders/starter-en,minilm
    --tasks ncbi_disease=6,bc5cdr=4
    """
    with importing_extra("training needs PyTorch"):
        from ..studies.encoder_study import EncoderStudySettings, parse_contestants
    settings = EncoderStudySettings(
        template, batch_words, learn_rate, tuple(range(seeds)), texts, repeats, threads, gpu_id
    )
    contestants = parse_contestants(split_names(encoders))
    corpora = _read_tasks(tasks, epochs, corpora_dir)
    with working_directory(output, STUDY, _list_sources(contestants, corpora, settings)):
        _study(contestants, corpora, output, settings, baseline)


def distillation(
    context: typer.Context,
    recipe: Path = typer.Argument(
        help="Recipe of a distillation; every objective replaces its own."
    ),
    output: Path = OUTPUT,
    tasks: str = typer.Option(None, help=f"{TASKS.help} Without it students are only trained."),
    objectives: str = typer.Option(None, help="Some of the objectives; by default all."),
    epochs: int = EPOCHS,
    batch_words: int = BATCH_WORDS,
    learn_rate: float = LEARN_RATE,
    seeds: Seeds = 3,
    texts: Path = TEXTS,
    repeats: int = REPEATS,
    threads: int = THREADS,
    corpora_dir: Path = CORPORA_DIR,
    template: Path = template_option("ner"),
    gpu_id: int = GPU_ID,
) -> None:
    """Distil the recipe's student by every objective, and study these students and the teacher.

    They are compared with the same student after as many steps of masked language modelling alone.
    If the study was stopped, give the same command again: it resumes. Override settings of the
    recipe as in spacy train: --training.steps 2000.

    Example: python -m spacy biomed study distillation
    configs/language_models/starter_from_teacher.cfg metrics/distillation --paths.text texts.txt
    --paths.teacher encoders/teacher --tasks ncbi_disease=6,bc5cdr=4,cantemist=2
    """
    overrides = parse_overrides(context)
    with importing_extra("training needs PyTorch"):
        from ..language_models.distillation_recipe import DistillationRecipe
        from ..language_models.objectives import OBJECTIVES
        from ..language_models.recipe import read_recipe
        from ..language_models.sources import read_documents
        from ..studies.distillation_study import NO_DISTILLATION, make_students
        from ..studies.encoder_study import Contestant, EncoderStudySettings, check_corpora
    settings = EncoderStudySettings(
        template, batch_words, learn_rate, tuple(range(seeds)), texts, repeats, threads, gpu_id
    )
    corpora = _read_tasks(tasks or "", epochs, corpora_dir)
    check_corpora(corpora, settings)  # before hours of training, not after them
    console = Console(highlight=False, markup=False, soft_wrap=True)
    read = read_recipe(recipe, DistillationRecipe, overrides)
    for _ in read_documents(read.text.paths, text_field=read.text.field):
        pass  # errors in the text are reported before the first student is trained
    contestants = [Contestant("teacher", read.teacher.name)]
    sources = [recipe, *read.text.paths, *_list_sources(contestants, corpora, settings)]
    with working_directory(output, STUDY, sources):
        students = make_students(
            read,
            output,
            split_names(objectives) if objectives else tuple(OBJECTIVES),
            console=console,
            progress=lambda name: console.rule(name, align="left"),
        )
        if not corpora:
            console.print(f"✔ Wrote {', '.join(students)} to {output}")
            return
        contestants += [Contestant(name, str(path)) for name, path in students.items()]
        _study(contestants, corpora, output, settings, NO_DISTILLATION)


def _list_sources(
    contestants: list[Contestant], corpora: list[Corpus], settings: EncoderStudySettings
) -> list[Path | str]:
    texts = [settings.texts] if settings.texts else []
    folders = [corpus.folder for corpus in corpora]
    return [settings.template, *folders, *texts, *(one.encoder for one in contestants)]


def _read_tasks(tasks: str, epochs: int, corpora_dir: Path) -> list[Corpus]:
    """Read names of corpora; raise BiomedError if a number of epochs is not a number."""
    from ..studies.encoder_study import Corpus

    corpora = []
    for task in split_names(tasks):
        name, equals, number = task.partition("=")
        if equals and not (number.isdecimal() and int(number)):
            raise BiomedError(f"--tasks {task}: '{number}' is no number of epochs; give 1 or more")
        corpora.append(Corpus(corpora_dir / name, int(number) if equals else epochs))
    return corpora


def _study(
    contestants: list[Contestant],
    corpora: list[Corpus],
    output: Path,
    settings: EncoderStudySettings,
    baseline: str | None,
) -> None:
    from ..studies.encoder_report import FIGURE, RESULTS, TABLE
    from ..studies.encoder_study import count_steps, study_encoders

    set_up_gpu(settings.gpu)
    steps = count_steps(len(contestants), len(corpora), settings)
    with showing_study(output, steps, [TABLE, RESULTS, FIGURE]) as progress:
        study_encoders(contestants, corpora, output, settings, baseline=baseline, progress=progress)
