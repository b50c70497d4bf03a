"""`spacy biomed train`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer
from spacy.training.initialize import init_nlp
from wasabi import msg

from ..errors import BiomedError
from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.overrides import parse_overrides
from ._shared.training_options import GPU_ID

LOG, CURVES, BEST = "log.jsonl", "curves.svg", "model-best"

# Options that typer does not know are settings of the config.
CONFIG_OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def train(
    context: typer.Context,
    config: Path = typer.Argument(help="Training config.", exists=True, dir_okay=False),
    output: Path = typer.Option(
        ..., "--output", "-o", file_okay=False, help="Folder for model-best and model-last."
    ),
    gpu_id: int = GPU_ID,
    resume: bool = typer.Option(True, help="Continue a run that was stopped."),
    html: Path = typer.Option(
        None, dir_okay=False, help="Page to write at the end: scores and learning curves."
    ),
    code: Path = typer.Option(
        None, "--code", "-c", exists=True, help="Python file that registers functions to use."
    ),
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
    from ..settings.unchecked_settings import check_settings, check_values, find_unknown
    from ..training.config import check_sections, read_config

    overrides = parse_overrides(context)
    with importing_extra("training needs PyTorch"):
        from ..training.resumable import check_training_output
        from ..training.resumable import train as train_pipeline
    if code is not None:
        import_code(code)
    set_up_gpu(gpu_id)
    given = read_config(config)
    log = None if html is None else _prepare_report(config, given, overrides, output, html)
    check_settings(given, config)
    if unknown := find_unknown(overrides, given, str(config)):
        raise BiomedError(f"--{unknown[0]}: {unknown[1]}")
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
    if html is not None and log is not None:
        _write_report(log, output, html)


def _prepare_report(
    config: Path, given: dict[str, Any], overrides: dict[str, Any], output: Path, page: Path
) -> Path:
    """Let the training write its evaluations to a file, which is returned."""
    from ..files.output_places import check_output

    logger = given.get("training", {}).get("logger", {})
    if logger.get("@loggers") != "spacy_biomed.RichLogger.v1":
        raise BiomedError(f"{config}: --html needs the logger spacy_biomed.RichLogger.v1")
    # Now, not after the training.
    check_output(page, [config])
    if not os.access(page.parent, os.W_OK):
        raise BiomedError(f"--html {page}: cannot be written; name another file")
    usual = logger.get("jsonl") or str(output / LOG)
    return Path(overrides.setdefault("training.logger.jsonl", usual))


def _write_report(log: Path, output: Path, page: Path) -> None:
    """Write the learning curves, and a page with them and the evaluations."""
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
