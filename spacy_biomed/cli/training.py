"""`spacy biomed init-config`, `train` and `teach`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from spacy.training.initialize import init_nlp
from wasabi import msg

from ..errors import BiomedError, install_command
from ..files.outputs import replacing_file
from ._shared import options
from ._shared.bad_input import OneLineGroup, explaining_interruption, importing_extra
from ._shared.options import parse_overrides

if TYPE_CHECKING:
    from thinc.api import Config

    from ..training.updating import Update


ONE_CORPUS = "corpus"
LARGEST_SEED = 2**32 - 1  # of NumPy's generators

TEMPLATE = "Template's name, or a config to fill."
BATCH_WORDS = typer.Option(None, min=1, help="Tokens in a batch; else the template's.")
SEED = typer.Option(0, min=0, max=LARGEST_SEED, help="Seed of everything random.")


class _DefaultsToOneCorpus(OneLineGroup):
    """Uses the command for one corpus if no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [ONE_CORPUS, *args]
        return super().parse_args(ctx, args)


init_config = typer.Typer(
    cls=_DefaultsToOneCorpus,
    help="""Write the training config of a corpus, or of several tasks on one encoder.

    Examples: python -m spacy biomed init-config corpus/ncbi_disease ncbi.cfg --encoder biobert
    --epochs 10

    python -m spacy biomed init-config multitask --tasks ncbi_disease,hoc --encoder biobert two.cfg
    """,
)


@init_config.command(ONE_CORPUS)
def for_corpus(
    corpus: Path = typer.Argument(help="Folder that `spacy biomed convert` wrote."),
    output: Path = typer.Argument(help="Config to write, for `spacy train`."),
    encoder: str = typer.Option(
        None, help="Encoder to begin with: catalogue name, hub id or directory."
    ),
    source: str = typer.Option(None, help="Trained pipeline to go on from: directory or package."),
    task: str = typer.Option(None, help="Kind of corpus, such as ner; else what the corpus says."),
    template: Path = typer.Option(None, help=TEMPLATE),
    epochs: int = typer.Option(
        None, min=1, help="Passes over the training part; else the template's, such as 10."
    ),
    batch_words: int = BATCH_WORDS,
    learn_rate: float = typer.Option(
        None,
        callback=options.above_zero,
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
    update = None
    if source is None:
        check_encoder_name(encoder)
        config = fill_config(corpus, encoder=encoder, **settings)
    else:
        update = create_update(corpus, source=source, **settings)
        config = update.config
    inputs: list[Path | str] = [corpus, *(path for path in (template, source) if path)]
    with replacing_file(output, inputs) as partial:
        config.to_disk(partial)
    _describe_steps(f"{output}: {', '.join(config['nlp']['pipeline'])};", config, epochs)
    if update is not None:
        _describe_update(update, source, corpus)


def _describe_steps(what: str, config: Config, epochs: int) -> None:
    steps = config["vars"]["max_steps"]
    msg.good(f"{what} {steps} steps, {epochs} epochs of {steps // epochs}")


def _describe_update(update: Update, source: str, corpus: Path) -> None:
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
    tasks: str = typer.Option(..., help="Converted corpora: names with commas between them."),
    encoder: str = typer.Option(..., help="Catalogue name, hub id or directory."),
    schedule: Literal["round_robin", "proportional"] = typer.Option(
        None, help="round_robin or proportional; else the template's, such as round_robin."
    ),
    epochs: int = typer.Option(
        None, min=1, help="Of the schedule, each of which is scored; else the template's: 10."
    ),
    batch_words: int = BATCH_WORDS,
    learn_rate: float = typer.Option(
        None, callback=options.above_zero, help="Highest learning rate; else the template's."
    ),
    seed: int = SEED,
    corpora_dir: Path = options.CORPORA_DIR,
    template: Path = typer.Option("multitask", help=TEMPLATE),
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
    folders = [corpora_dir / name for name in options.split_names(tasks)]
    config, heads = create_multitask_config(
        folders,
        encoder=encoder,
        template=template,
        schedule=schedule,
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
    _describe_steps(f"{output}:", config, epochs)


LOG, CURVES, BEST = "log.jsonl", "curves.svg", "model-best"


def train(
    context: typer.Context,
    config: Path = typer.Argument(help="Training config.", exists=True, dir_okay=False),
    output: Path = typer.Option(
        ..., "--output", "-o", file_okay=False, help="Folder for model-best and model-last."
    ),
    gpu_id: int = options.GPU_ID,
    resume: bool = typer.Option(True, help="Continue a run that was stopped."),
    html: Path = typer.Option(
        None, dir_okay=False, help="Page to write at the end: scores and learning curves."
    ),
    code: Path = options.CODE,
) -> None:
    """Train as `spacy train` does, and continue a run that was stopped.

    Each evaluation writes a checkpoint to OUTPUT/checkpoint. If the run was killed, give the same
    command again: it resumes from there, and ends with the weights of an uninterrupted run.
    Override settings of the config as in `spacy train`: --training.max_steps 500. The first step is
    not evaluated, unless no later evaluation is certain.

    With --html, OUTPUT has also the evaluations (log.jsonl) and their curves (curves.svg).

    Example: python -m spacy biomed train training/ncbi_disease/config.cfg --output
    training/ncbi_disease --gpu-id 0
    """
    from ..pipeline.pipeline_loading import import_code
    from ..settings.config_errors import explaining_config_errors
    from ..settings.sections import check_command
    from ..settings.unchecked_settings import check_overrides, check_settings, check_values
    from ..training.config import check_sections, read_config

    overrides = parse_overrides(context)
    with importing_extra("training needs PyTorch"):
        from ..training.resumable import check_training_output
        from ..training.resumable import train as train_pipeline
    if code is not None:
        import_code(code)
    set_up_gpu(gpu_id)
    given = read_config(config)
    check_command(config, given, ("nlp",))
    if html is not None:
        _prepare_report(config, given, overrides, output, html)
    check_settings(given, config)
    check_overrides(overrides, given, config)
    with explaining_interruption(), explaining_config_errors(config):
        settings = read_config(config, overrides)
        check_sections(config, settings, ("nlp", "components", "training"))
        # Before the work, so that an output that cannot be written is reported at once.
        interpolated = settings.interpolate()
        check_values(interpolated)
        check_training_output(output, interpolated)
        msg.divider("Initializing pipeline")
        nlp = init_nlp(settings, use_gpu=gpu_id)
        msg.good("Initialized pipeline")
        msg.divider("Training pipeline")
        train_pipeline(nlp, output, use_gpu=gpu_id, resume=resume, evaluate_first=False)
    if html is not None:
        _write_report(Path(interpolated["training"]["logger"]["jsonl"]), output, html)


def _prepare_report(
    config: Path, given: dict[str, Any], overrides: dict[str, Any], output: Path, page: Path
) -> None:
    """Let the training write its evaluations to a file."""
    from ..files.outputs import check_output

    logger = given.get("training", {}).get("logger", {})
    if logger.get("@loggers") != "spacy_biomed.RichLogger.v1":
        raise BiomedError(f"{config}: --html needs the logger spacy_biomed.RichLogger.v1")
    if find_spec("matplotlib") is None:
        raise BiomedError(f"--html needs matplotlib: {install_command('train')}")
    # Now, not after the training.
    check_output(page, [config])
    folder = next(one for one in page.absolute().parents if os.path.exists(one))
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise BiomedError(f"--html {page}: cannot be written; name another file")
    if not logger.get("jsonl"):
        overrides.setdefault("training.logger.jsonl", str(output / LOG))


def _write_report(log: Path, output: Path, page: Path) -> None:
    import srsly

    from ..files.outputs import replace_text
    from ..studies.figures import draw_curves
    from ..studies.report import Table, render_page

    rows: list[dict[str, Any]] = list(srsly.read_jsonl(log))
    losses, scores = (
        {
            name: [(row["step"], row[kind][name]) for row in rows if name in row[kind]]
            for name in rows[0][kind]
            if name != "speed"
        }
        for kind in ("losses", "scores")
    )
    figure = draw_curves("step", {"loss": losses, "scores, 0 to 1": scores})
    best = max(rows, key=lambda row: row["score"])
    header = ["step", "epoch", "seconds", "words/s", *(f"loss {name}" for name in losses), *scores]
    cells = [
        [f"{row[name]:,}" for name in ("step", "epoch", "seconds")]
        + [f"{row['words_per_second'] or 0:,.0f}"]
        + [f"{row['losses'].get(name, 0.0):.2f}" for name in losses]
        + [f"{100 * row['scores'].get(name, 0.0):.2f}" for name in scores]
        for row in rows
    ]
    note = f"Best score {100 * best['score']:.2f} after {best['step']:,} steps: {output / BEST}"
    replace_text(output / CURVES, figure)
    table = Table("Evaluations", header, cells, texts=0)
    replace_text(page, render_page(f"Training of {output.name}", note, [table], [figure]))
    msg.good(f"Wrote {page}")


def set_up_gpu(gpu_id: int) -> None:
    """Make a GPU the current one; -1 is the CPU."""
    from ..pipeline.pipeline_loading import use_gpu

    use_gpu(gpu_id)
    msg.info("Using CPU" if gpu_id < 0 else f"Using GPU: {gpu_id}")


def teach(
    teachers: list[str] = typer.Argument(help="Fine-tuned pipelines: directories or packages."),
    corpus: Path = typer.Argument(help="Folder that `spacy biomed convert` wrote."),
    output: Path = typer.Argument(help="Folder to write: the corpus, taught."),
    texts: list[str] = typer.Option(
        [], help="Unlabelled text, a document per line, or folders of it; repeatable; '' for none."
    ),
    max_words: int = typer.Option(0, min=0, help="Words to draw from all of the text; 0: all."),
    repeat: int = typer.Option(
        1, min=1, max=1000, help="How often the corpus has each annotated document; texts once."
    ),
    seed: int = typer.Option(0, min=0, max=LARGEST_SEED, help="Seed of the drawing."),
    merge_into: str | None = typer.Option(
        None, help="Component that every entity head teaches; else the component of the same name."
    ),
) -> None:
    """Write a corpus with the probabilities that trained pipelines predict.

    A smaller pipeline that trains on it learns from the probabilities and the gold annotations,
    and on unlabelled text from the probabilities alone. If each document of the corpus is one
    sentence, each sentence of the text becomes a document too. Entity heads that teach the same
    component (heads of several pipelines, or with --merge-into) teach it the labels of all heads. A
    pipeline that continues learning (`init-config --source`) rehearses what it knows on a corpus
    that it taught itself. With --repeat, few annotated documents are read many times beside texts
    that are read once.

    Example: python -m spacy biomed teach training/ncbi_disease/model-best corpus/ncbi_disease
    corpus/ncbi_disease_taught --texts abstracts.txt.xz --max-words 1000000
    """
    from ..language_models.text_sources import read_documents, sample_documents
    from ..pipeline.pipeline_loading import find_trainable, load_pipeline
    from ..training.teaching import create_taught_corpus

    paths = [Path(text) for text in texts if text]
    drawn = sample_documents(paths, max_words, seed=seed) if max_words else read_documents(paths)
    report = create_taught_corpus(
        [load_pipeline(find_trainable(teacher)) for teacher in teachers],
        corpus,
        drawn,
        output,
        sources=[*teachers, *paths],
        merge_into=merge_into,
        repeat=repeat,
    )
    times = f" {repeat} times" if repeat > 1 else ""
    msg.good(
        f"{output}: {report.annotated} annotated documents{times} and {report.unlabelled} "
        f"unlabelled ones ({report.words} tokens), taught by {', '.join(report.components)}"
    )
