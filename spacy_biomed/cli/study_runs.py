"""`spacy biomed study run` and `spacy biomed study list`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from ..errors import BiomedError
from ..files.outputs import working_directory
from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.display import showing_runs
from ._shared.overrides import parse_overrides
from ._shared.training_options import CORPORA_DIR, STUDY
from .corpora import print_rows

if TYPE_CHECKING:
    from ..studies.planning import Plan
    from ..studies.study_config import Study


def run(
    context: typer.Context,
    study: str = typer.Argument(help="Name that `study list` shows, or a file (.cfg)."),
    output: Path = typer.Argument(
        None, help="Folder for the report, and for the runs and their scores."
    ),
    corpora_dir: Path = CORPORA_DIR,
    jobs: int = typer.Option(1, min=1, help="Trainings at the same time, each in a process."),
    gpu_ids: str = typer.Option("", help="GPUs with commas between them; else the CPU."),
    prepare: bool = typer.Option(
        False, "--prepare", help="First convert the corpora that are not; without OUTPUT only that."
    ),
    assets_dir: Path = typer.Option(
        Path("assets"), help="Folder of the published corpora, for --prepare."
    ),
    allow_missing: bool = typer.Option(
        False, "--allow-missing", help="Leave the cells of missing corpora and encoders empty."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Check, and say what is to be run."),
) -> None:
    """Run a study, such as a table of a paper: encoders by corpora, learning rates and seeds.

    Everything is checked before the first training. If the study was stopped, give the same
    command again: finished runs are kept. Override settings as in spacy train: --grid.epochs 1.

    Example: python -m spacy biomed study run rohanian_table_1 --prepare

    Example: python -m spacy biomed study run rohanian_table_1 metrics/rohanian_table_1
    --allow-missing
    """
    with importing_extra("training needs PyTorch"):
        from ..pipeline.pipeline_loading import use_gpu
        from ..studies.planning import plan_study
        from ..studies.study_config import find_study, read_study
    settings = read_study(study, parse_overrides(context))
    gpus = _read_gpus(gpu_ids)
    if prepare:
        _prepare(settings, corpora_dir, assets_dir)
    if output is None:
        if prepare:
            return
        raise BiomedError("give OUTPUT, the folder for the report, or --prepare")
    plan = plan_study(settings, corpora_dir, allow_missing=allow_missing)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if dry_run:
        _describe(plan, settings, output, console)
        return
    if jobs == 1 and gpus:
        use_gpu(gpus[0], "--gpu-ids")  # before a folder is made
    sources = [find_study(study), *_list_sources(plan)]
    with explaining_interruption(), working_directory(output, STUDY, sources):
        run_and_show(settings, plan, output, corpora_dir, console, jobs=jobs, gpus=gpus)


def _prepare(study: Study, corpora_dir: Path, assets_dir: Path) -> None:
    from ..studies.planning import find_missing_corpora
    from ..studies.preparing import prepare_corpora

    prepare_corpora(
        study, corpora_dir, assets_dir, lambda folder: typer.echo(f"Converting {folder}")
    )
    missing = find_missing_corpora(study, corpora_dir)
    for setting, problem in missing.items():
        typer.echo(f"{setting}: {problem}")
    found = len(study.corpora) - len(missing)
    typer.echo(f"✔ {found} of {len(study.corpora)} corpora are in {corpora_dir}")


def run_and_show(
    study: Study,
    plan: Plan,
    output: Path,
    corpora_dir: Path,
    console: Console,
    **options: Any,
) -> None:
    """Run a study in its locked folder with a table of progress, and print the report."""
    from ..studies.report import FILES, MARKDOWN, OTHERS
    from ..studies.study import run_study

    left = {run.digest for run in plan.find_open(output)}
    cells = {cell: {trial.run for trial in trials} for cell, trials in plan.cells.items()}
    with showing_runs(study.study.title, cells, left, console) as done:
        run_study(
            study,
            plan,
            output,
            corpora_dir=corpora_dir,
            progress=lambda run: done(run.digest, run.describe()),
            **options,
        )
    printed, _, _ = (output / MARKDOWN).read_text(encoding="utf8").partition(f"## {OTHERS}")
    console.print(printed.rstrip())
    console.print(f"✔ Wrote {', '.join(FILES[:-1])} and {FILES[-1]} to {output}")


def list_studies(corpora_dir: Path = CORPORA_DIR) -> None:
    """List the studies that ship, the data that each needs, and what of it is there.

    Example: python -m spacy biomed study list
    """
    with importing_extra("studies need PyTorch"):
        from ..studies.planning import list_needs
        from ..studies.study_config import list_studies, read_study
    rows = []
    for name, path in list_studies().items():
        study = read_study(path)
        cells = []
        for needs in list_needs(study, corpora_dir):
            for is_there in (True, False):
                cells.append(", ".join(name for name, found in needs.items() if found is is_there))
        rows.append([name, study.study.title, *cells])
    headers: dict[str, dict] = {"Name": {"style": "bold", "no_wrap": True}, "Title": {}}
    headers |= {"Corpora": {}, "Missing corpora": {}, "Encoders": {}, "Missing encoders": {}}
    print_rows(headers, rows)


def _read_gpus(text: str) -> list[int]:
    numbers = [part.strip() for part in text.split(",") if part.strip()]
    for number in numbers:
        if not number.isdecimal():
            raise BiomedError(f"--gpu-ids {text}: '{number}' is not the number of a GPU; give 0,1")
    return [int(number) for number in numbers]


def _list_sources(plan: Plan) -> list[Path | str]:
    runs = plan.runs.values()
    folders = {corpus.folder for run in runs for corpus in run.corpora.values()}
    return [*sorted(folders), *sorted({run.encoder for run in runs})]


def _describe(plan: Plan, study: Study, output: Path, console: Console) -> None:
    left = len(plan.find_open(output))
    finished = len(plan.runs) - left
    console.print(
        f"{study.study.title}: {len(plan.runs)} runs, {finished} finished, {left} to make"
    )
    for setting, problem in plan.missing.items():
        console.print(f"{setting}: {problem}")
