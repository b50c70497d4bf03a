"""`spacy biomed init-config`, for one corpus and, as `init-config multitask`, for several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from wasabi import msg

from ..errors import BiomedError
from ..files.outputs import replacing_file
from ._shared.bad_input import OneLineGroup
from ._shared.number_options import above_zero
from ._shared.training_options import (
    BATCH_WORDS,
    CORPORA_DIR,
    ENCODER,
    LEARN_RATE,
    SEED,
    TASKS,
    template_option,
)

if TYPE_CHECKING:
    from ..training.multitask_config import Schedule
    from ..training.updating import Update

ONE_CORPUS = "corpus"


class _DefaultsToOneCorpus(OneLineGroup):
    """Uses the command for one corpus if no command is named.

    Up to version 0.1 the template came first: `init-config configs/ner.cfg CORPUS CONFIG`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].endswith(".cfg"):
            args = ["--template", *args]
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [ONE_CORPUS, *args]
        return super().parse_args(ctx, args)


init_config = typer.Typer(cls=_DefaultsToOneCorpus)


@init_config.callback()
def describe() -> None:
    """Write the training config of a corpus, or of several tasks on one encoder.

    Examples: python -m spacy biomed init-config corpus/ncbi_disease ncbi.cfg --encoder biobert
    --epochs 10

    python -m spacy biomed init-config multitask --tasks ncbi_disease,hoc --encoder biobert two.cfg
    """


@init_config.command(ONE_CORPUS)
def for_corpus(
    corpus: Path = typer.Argument(help="Folder that `spacy biomed convert` wrote."),
    output: Path = typer.Argument(help="Config to write, for `spacy train`."),
    encoder: str = typer.Option(
        None, help="Encoder to begin with: catalogue name, hub id or directory."
    ),
    source: str = typer.Option(
        None, help="Trained pipeline to go on from: directory or installed package."
    ),
    task: str = typer.Option(None, help="Kind of corpus, such as ner; else what the corpus says."),
    template: Path = template_option(None),
    epochs: int = typer.Option(
        None, min=1, help="Passes over the training part; else the template's, such as 10."
    ),
    batch_words: int = BATCH_WORDS,
    learn_rate: float = typer.Option(
        None,
        callback=above_zero,
        help="Highest learning rate; else the template's, or half of the source's.",
    ),
    seed: int = SEED,
) -> None:
    """Write the training config of one corpus and one encoder. The word `corpus` may be left out.

    The head follows from the task of the corpus: the field "task" of its corpus.json, else the
    catalogue, else what it holds. Every setting of the config can be changed.

    With --source in place of --encoder, the training goes on from a trained pipeline, to which the
    corpus may bring further labels.

    A recipe of a paper is a template too: --template papers/rohanian_ner.

    Example: python -m spacy biomed init-config corpus/ncbi_disease ncbi.cfg --encoder biobert
    --epochs 10
    """
    from ..training.config import check_encoder_name, fill_config, find_epochs
    from ..training.updating import create_update

    epochs = find_epochs(template) if epochs is None else epochs
    settings: dict[str, Any] = {
        "task": task,
        "template": template,
        "epochs": epochs,
        "batch_words": batch_words,
        "learn_rate": learn_rate,
        "seed": seed,
    }
    if (encoder is None) == (source is None):
        raise BiomedError(
            "give either --encoder, to train a new pipeline, or --source, to go on from a trained "
            "one"
        )
    if source is None:
        check_encoder_name(encoder)
        update = None
        config = fill_config(corpus, encoder=encoder, **settings)
    else:
        update = create_update(corpus, source=source, **settings)
        config = update.config
    inputs: list[Path | str] = [corpus, *(path for path in (template, source) if path)]
    with replacing_file(output, inputs) as partial:
        config.to_disk(partial)
    steps = config["vars"]["max_steps"]
    pipeline = ", ".join(config["nlp"]["pipeline"])
    msg.good(f"{output}: {pipeline}; {steps} steps, {epochs} epochs of {steps // epochs}")
    if update is not None:
        _describe_update(update, source, corpus)


def _describe_update(update: Update, source: str, corpus: Path) -> None:
    """Print what becomes of the labels of a pipeline that is to learn more."""
    if update.new:
        msg.info(f"new labels: {', '.join(update.new)}")
    if update.unannotated:
        msg.warn(
            f"{corpus} does not annotate {', '.join(update.unannotated)}, which the pipeline will "
            f"forget: let it rehearse them with `python -m spacy biomed teach {source} {corpus} "
            f"{corpus}_rehearsed`, and give {corpus}_rehearsed here"
        )
    if update.moved:
        msg.warn(
            f"{', '.join(update.moved)}: not trained, on an encoder that is; check the scores after"
        )


@init_config.command("multitask")
def for_tasks(
    output: Path = typer.Argument(help="Config to write, for `spacy biomed train`."),
    tasks: str = TASKS,
    encoder: str = ENCODER,
    schedule: str = typer.Option(
        None, help="round_robin or proportional; else the template's, such as round_robin."
    ),
    epochs: int = typer.Option(
        None, min=1, help="Of the schedule, each of which is scored; else the template's: 10."
    ),
    batch_words: int = BATCH_WORDS,
    learn_rate: float = LEARN_RATE,
    seed: int = SEED,
    corpora_dir: Path = CORPORA_DIR,
    template: Path = template_option("multitask"),
) -> None:
    """Write the training config of several tasks on one encoder, each with a head of its own.

    An epoch of round_robin is a batch of each task in turn until the largest corpus is used up;
    one of proportional is every corpus once, batches of all shuffled together.

    Example: python -m spacy biomed init-config multitask --tasks ncbi_disease,hoc,medrqe --encoder
    biobert training/multitask/config.cfg
    """
    from ..training.config import find_epochs
    from ..training.multitask_config import create_multitask_config

    epochs = find_epochs(template) if epochs is None else epochs
    folders = [corpora_dir / name for name in split_names(tasks)]
    config, heads = create_multitask_config(
        folders,
        encoder=encoder,
        template=template,
        schedule=cast("Schedule", schedule),  # checked there
        epochs=epochs,
        batch_words=batch_words,
        learn_rate=learn_rate,
        seed=seed,
    )
    with replacing_file(output, [template, *folders]) as partial:
        config.to_disk(partial)
    for head in heads:
        typer.echo(
            f"{head.name}: {head.task}, {head.factory}, {head.batches} batches, {head.score}"
        )
    steps = config["vars"]["max_steps"]
    msg.good(f"{output}: {steps} steps, {epochs} epochs of {steps // epochs}")


def split_names(names: str) -> list[str]:
    """Names that are given with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()]
