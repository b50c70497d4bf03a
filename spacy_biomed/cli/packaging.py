"""The commands that make a pipeline of pipelines: `compress`, `calibrate` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from wasabi import msg

from ..errors import BiomedError, quote
from ..pipeline.checksums import replacing_pipeline
from ._shared import options
from ._shared.bad_input import importing_extra
from ._shared.display import create_table

if TYPE_CHECKING:
    from ..packaging.compression import CompressionReport
    from ..packaging.copies import RecallOptions
    from ..pipeline.ner.calibrating import Calibration


Precision = Literal["int8", "fp32", "fp16"]
RecallMeasure = Literal["exact", "covered"]
TARGET_RECALL = typer.Option(
    [],
    metavar="[LABEL=]SHARE",
    help="Share of the mentions to find, such as 0.99, at the cost of precision; repeatable.",
)
RECALL_MEASURE = typer.Option(
    None,
    help="What that share counts: exact matches, or mentions covered by what is found, which is "
    "what de-identification needs.",
)
UNSEEN_SHARE = typer.Option(
    None,
    help="Share of new mentions in texts to come, if the corpus has too few; see docs/confidence.",
)


def compress(
    pipeline: str = typer.Argument(help="Trained pipeline: a directory or an installed package."),
    output: Path = typer.Argument(help="Directory to write the compressed pipeline to."),
    precision: Precision = typer.Option(
        "int8", help="int8 or fp32: run without PyTorch; fp16: half the size, can be trained."
    ),
    check: Path = typer.Option(None, help=".spacy file to score it on, before and after."),
    calibrate: Path = typer.Option(
        None,
        help="For int8: .spacy file with texts to measure ranges on, such as the training part.",
    ),
    max_loss: float = typer.Option(
        0.3, callback=options.at_least_zero, help="Largest loss of F1 on it, in points."
    ),
    confidence: bool = typer.Option(
        True, help="Calibrate the confidence of entities and assertions on the --check corpus."
    ),
    target_recall: list[str] = TARGET_RECALL,
    recall_measure: RecallMeasure = RECALL_MEASURE,
    unseen_share: float = UNSEEN_SHARE,
) -> None:
    """Export a pipeline's encoder, so that it runs fast, and without PyTorch.

    With --precision fp16 the encoder stays in PyTorch, can be trained, and takes half the space.
    Nothing is written if the exported encoder gives other results, or if a score falls by more than
    --max-loss. Then the pipeline is calibrated on the --check corpus (`spacy biomed calibrate`).
    The result is an ordinary pipeline for spacy.load, evaluate and package.

    Example: python -m spacy biomed compress training/ncbi_disease/model-best
    compressed/ncbi_disease --precision int8 --check corpus/ncbi_disease/dev.spacy
    --calibrate corpus/ncbi_disease/train.spacy
    """
    from ..packaging.compression import compress_pipeline

    recall = _read_recall(target_recall, recall_measure, unseen_share)
    console = Console()
    with console.status(f"Writing in {precision} and checking"):
        report = compress_pipeline(
            pipeline,
            output,
            precision=precision,
            check=check,
            calibrate=calibrate,
            max_loss=max_loss,
            confidence=confidence,
            **recall,
        )
    console.print(_compression_table(report))
    _print_calibrations(console, report.calibrations)
    if check is None:
        console.print("F1 was not compared: give --check, a .spacy file")
    typer.echo(f"✔ Wrote {output}")


def _compression_table(report: CompressionReport) -> Table:
    what: str = report.precision
    if what == "int8":
        what += ", embeddings too" if report.quantized_embeddings else ", embeddings in fp32"
        what += ", static" if report.static else ""
    table = create_table([""], ["before", "after"], f"Encoder in {what}")
    table.add_column("")
    for name in sorted(report.scores_before):
        before = 100 * report.scores_before[name]
        for engine, scores in report.scores_by_engine.items():
            title = name if len(report.scores_by_engine) == 1 else f"{name}, {engine}"
            after = 100 * scores[name]
            table.add_row(title, f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}")
    if report.bytes_before:
        share = report.bytes_after / report.bytes_before
        sizes = [report.bytes_before, report.bytes_after]
        table.add_row("size, MB", *(f"{size / 1e6:.1f}" for size in sizes), f"{share:.0%}")
    table.add_row("mean cosine of the encoder's rows", "", f"{report.cosine:.5f}", "")
    table.add_row("largest difference in them", "", f"{report.difference:.2g}", "")
    return table


def calibrate(
    pipeline: str = typer.Argument(help="Trained pipeline: a directory or an installed package."),
    output: Path = typer.Argument(help="Directory to write the calibrated copy to."),
    dev: Path = typer.Option(..., help=".spacy file that it was not trained on."),
    target_recall: list[str] = TARGET_RECALL,
    recall_measure: RecallMeasure = RECALL_MEASURE,
    unseen_share: float = UNSEEN_SHARE,
) -> None:
    """Make confidence a probability, and choose how many entities are found.

    A confidence of 0.8 then means that 80% of such entities are right, as on the corpus DEV. The
    probabilities of biomed_assertion, such as that of being negated, are calibrated too. With
    --target-recall, entities are found even where no entity is more probable, until this share of a
    label's mentions is found. `compress --check` does the same.

    Example: python -m spacy biomed calibrate training/mynotes/model-best calibrated/mynotes
    --dev corpus/mynotes/dev.spacy --target-recall 0.95 --target-recall NAME=0.99
    """
    from ..packaging.copies import calibrate_pipeline

    recall = _read_recall(target_recall, recall_measure, unseen_share)
    console = Console()
    with console.status("Calibrating"):
        report = calibrate_pipeline(pipeline, output, dev=dev, **recall)
    _print_calibrations(console, report)
    typer.echo(f"✔ Wrote {output}")


def _read_recall(
    target_recall: Sequence[str], recall_measure: RecallMeasure | None, unseen_share: float | None
) -> RecallOptions:
    """The arguments of `calibrate` from the options: shares such as "0.99" and "NAME=0.995"."""
    from ..pipeline.ner.component import OTHERS, check_target_recall

    target: dict[str, float] = {}
    for one in filter(None, target_recall):  # a variable of a workflow may be empty
        label, _, share = one.rpartition("=")
        try:
            target[label or OTHERS] = float(share)
        except ValueError:
            raise BiomedError(
                f"--target-recall {quote(one)}: write a share such as 0.99, or LABEL=0.99"
            ) from None
        check_target_recall(f"--target-recall {quote(one)}: share", target[label or OTHERS])
    return {
        "target_recall": target or None,
        "recall_measure": recall_measure,
        "unseen_share": unseen_share,
    }


def _print_calibrations(console: Console, report: Mapping[str, Calibration]) -> None:
    """Print what was fitted: recall and precision of labels with a target, and the confidence."""
    shares = ("recall before", "after", "precision before", "after")
    numbers = ["mentions", "target", *shares, "offset"]
    for name, calibration in report.items():
        if calibration.recalls:
            title = f"Recall of {name} on the development corpus"
            table = create_table(["label"], numbers, title)
            table.add_column("")
            table.padding = 0  # so that all columns fit into a terminal of 80 characters
            for one in calibration.recalls:
                found = (one.recall_before, one.recall, one.precision_before, one.precision)
                cells = (f"{one.gold:,}", *map(_percent, (one.target, *found)), f"{one.offset:.2f}")
                table.add_row(Text(one.label), *cells, "" if one.is_reached else "not reached")
            console.print(table)
        line = _describe_confidence(name, calibration)
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _percent(share: float) -> str:
    return "" if share != share else f"{100 * share:.1f}"  # not a number: nothing was found


def _describe_confidence(name: str, calibration: Calibration) -> str:
    if not calibration.predictions:
        return f"{name}: nothing was found, so confidence is not calibrated"
    own = ", ".join(calibration.own_curves) or "none"
    return (
        f"{name}: confidence is calibrated on {calibration.predictions:,} predictions (labels with "
        f"their own curve: {own}); expected calibration error on them "
        f"{calibration.before.error:.3f}, now {calibration.after.error:.3f}"
    )


def average(
    output: Path = typer.Argument(help="Directory to write the pipeline to."),
    pipelines: list[str] = typer.Argument(
        help="Two or more trained pipelines in PyTorch: directories or installed packages."
    ),
    share: list[float] = typer.Option(
        [], min=0, max=1, help="Share of a pipeline, in their order; by default equal shares."
    ),
) -> None:
    """Write the mean of the weights of pipelines that were trained from the same one.

    The mean of a pipeline and of the same one after further training keeps more of what it knew.
    The mean of several trainings is often better than each. Choose the shares on a development
    part. The first pipeline gives its settings, but not its calibration.

    Example: python -m spacy biomed average averaged/mynotes training/all/model-best
    training/mynotes/model-best --share 0.5 --share 0.5
    """
    from ..packaging.averaging import average_pipelines

    average_pipelines(pipelines, output, share)
    typer.echo(f"✔ Wrote {output}")


def card(
    pipeline: Path = typer.Argument(help="Trained pipeline, such as training/NAME/model-best."),
    output: Path = typer.Argument(help="Directory to write the described copy to."),
    corpus: Path = typer.Option(..., help="Folder that `spacy biomed convert` wrote."),
    metrics: Path = typer.Option(..., help="JSON file that `spacy evaluate --output` wrote."),
    other_metrics: list[str] = typer.Option(
        [], help="NAME=FILE: the metrics of another test part, shown as well; repeatable."
    ),
    robustness: list[Path] = typer.Option(
        [], help="JSON file that `benchmark --robustness --output` wrote; repeatable."
    ),
    name: str = typer.Option("", help="The package's name without language; else the corpus's."),
    version: str = typer.Option("0.1.0", help="The package's version."),
) -> None:
    """Write a copy of a pipeline with the meta and the model card of its wheel.

    Example: python -m spacy biomed card training/ncbi_disease/model-best pipelines/ncbi_disease
    --corpus corpus/ncbi_disease --metrics metrics/ncbi_disease.json
    """
    from ..packaging.described_pipeline import write_described_pipeline

    others = [options.split_pair("--other-metrics", one, "NAME=FILE") for one in other_metrics]
    meta = write_described_pipeline(
        pipeline,
        output,
        corpus=corpus,
        metrics=metrics,
        other_metrics={label: Path(path) for label, path in others},
        robustness=robustness,
        name=name or None,
        pipeline_version=version,
    )
    msg.good(f"{output}: {meta['lang']}_{meta['name']} {meta['version']}, meta.json and README.md")


def import_model(
    name: str = typer.Argument(help="Hub id or directory of a fine-tuned classifier."),
    output: Path = typer.Argument(help="Directory to write the pipeline to."),
    revision: str | None = typer.Option(None, help="Commit, branch or tag on the hub."),
    language: str = typer.Option("en", help="Code of the pipeline's language."),
    classes: str | None = typer.Option(
        None, help="Names of its classes in their order, such as O,B-DRUG,I-DRUG."
    ),
) -> None:
    """Make a pipeline of a token or text classifier that was fine-tuned with transformers.

    The pipeline's predictions are the same as in transformers. It can be compressed, so that it
    runs without PyTorch, trained further, and packaged.

    Example: python -m spacy biomed import-model PlanTL-GOB-ES/bsc-bio-ehr-es-pharmaconer
    pharmaconer --language es
    """
    with importing_extra("importing a model needs PyTorch and transformers"):
        from ..packaging.model_import import import_model
        from ..pipeline.saved_words import write_pipeline
    source = Path(name).expanduser()
    with replacing_pipeline(output, "spacy biomed import-model", [source]) as partial:
        names = None if classes is None else [each.strip() for each in classes.split(",")]
        nlp = import_model(name, revision, language=language, classes=names)
        write_pipeline(nlp, partial)
    head = nlp.pipe_names[-1]
    typer.echo(f"✔ Wrote {output}: {head} with {', '.join(nlp.pipe_labels[head])}")


def strip(
    pipeline: Path = typer.Argument(help="Directory of a pipeline; it is changed in place."),
    force: bool = typer.Option(
        False, "--force", help="Also where a component of another package may need the words."
    ),
) -> None:
    """Remove the words of texts that a pipeline has read from its vocabulary.

    `nlp.to_disk`, `spacy train` and `spacy package` keep them, names of patients among them. The
    commands of this package write pipelines without them.

    Example: python -m spacy biomed strip training/mynotes/model-best
    """
    from ..pipeline.saved_words import strip_directory

    before, after = strip_directory(pipeline, force=force)
    typer.echo(f"✔ {pipeline}: {before:,} strings before, {after:,} now")
