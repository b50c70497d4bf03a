"""`spacy biomed benchmark`, `scores` and `errors`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table
from rich.text import Text

from ..errors import BiomedError
from ..files.outputs import replacing_file
from ._shared import options
from ._shared.bad_input import importing_extra
from ._shared.display import create_table

if TYPE_CHECKING:
    from ..evaluation.benchmark import Measure, PipelineFigures
    from ..studies.paired_tests import PairedTest

# Options of `benchmark` that are for measuring speed alone.
_OF_SPEED = ("repeats", "threads", "batch_size")


def benchmark(
    context: typer.Context,
    pipeline: str = typer.Argument(help="Pipeline: a directory or an installed package."),
    texts: Path = typer.Argument(None, help="Texts: a file or folder, as of annotate."),
    robustness: Path = typer.Option(
        None,
        help="Converted corpus (.spacy) to score with changed texts: in capitals, without accents, "
        "... instead of measuring speed.",
    ),
    corpora: Path = typer.Option(
        None, help="Folder of converted corpora, to score on all of their test parts instead."
    ),
    label_map: list[str] = typer.Option(
        [],
        "--map",
        help="CORPUS:LABEL=NAME: score a corpus's label as a label of the pipeline; repeatable.",
    ),
    trained_on: list[Path] = typer.Option(
        [],
        help="With --corpora: training part (.spacy) of the pipeline, to score mentions that are "
        "in it and others apart; repeatable.",
    ),
    advise: bool = typer.Option(
        False,
        "--advise",
        help="Try engines, threads and processes, and say which are fastest here; TEXTS may be "
        "left out.",
    ),
    against: str = typer.Option(None, help="Another pipeline, measured in turn with the first."),
    repeats: int = typer.Option(5, min=1, help="How often everything is measured."),
    threads: int = typer.Option(None, min=1, help="Threads of libraries; else the environment's."),
    batch_size: int = typer.Option(
        None, min=1, help="Documents that nlp.pipe takes at a time; else the pipeline's."
    ),
    text_column: str = options.TEXT_COLUMN,
    encoding: str = options.ENCODING,
    delimiter: str = options.DELIMITER,
    quoting: options.Quoting = options.QUOTING,
    code: Path = options.CODE,
    output: Path = typer.Option(None, help="JSON file to write all figures to."),
) -> None:
    """Measure a pipeline: speed, latency, loading, memory and size; or its scores.

    Each pipeline runs in separate processes. Words are the tokens of its tokenizer. Figures are
    medians of the repeats, followed by the smallest and the largest value.

    With --robustness the pipeline is scored on a corpus whose texts are changed: in capitals, in
    lower case, without accents, with other spaces, hyphens and line ends.

    With --corpora it is scored on many corpora: exact F1, and lenient F1, in which each boundary
    may differ by one character. Labels that a corpus or the pipeline lacks are left out.

    Example: python -m spacy biomed benchmark compressed/ncbi_disease corpus/ncbi_disease/test.spacy
    --against training/ncbi_disease/model-best --threads 2
    """
    scored = [option for option in (robustness, corpora) if option is not None]
    if len(scored) > 1 or (scored and (texts is not None or against is not None)):
        raise BiomedError(
            "--robustness and --corpora score one pipeline on their corpora: give one of them, and "
            "no other texts"
        )
    if corpora is None and (label_map or trained_on):
        raise BiomedError("--map and --trained-on are for --corpora DIR: give it too")
    unused: tuple[str, ...] = ()
    if advise:
        unused = ("robustness", "corpora", "against", *_OF_SPEED, "code", "output")
    elif scored:
        unused = (*_OF_SPEED, "text_column", "encoding", "delimiter", "quoting")
    for option in options.list_given(context, unused):
        mode = "--advise" if advise else "--robustness and --corpora"
        raise BiomedError(f"{option} is not for {mode}: leave it out")
    if texts is None and not advise and not scored:
        raise BiomedError("give texts to measure with, or corpora with --robustness or --corpora")
    if robustness is not None:
        _measure_robustness(pipeline, robustness, code, output)
    elif corpora is not None:
        _measure_corpora(pipeline, corpora, label_map, trained_on, code, output)
    elif texts is None:
        _advise(pipeline, None)
    else:
        from ..files.sources import Columns
        from ..formats.inputs import read_texts

        read = read_texts(
            texts, Columns(text_column), options.read_layout(encoding, delimiter, quoting)
        )
        if advise:
            _advise(pipeline, read[:64])
            return
        pipelines = [pipeline] if against is None else [pipeline, against]
        settings = {"repeats": repeats, "threads": threads}
        _measure_speed(pipelines, texts, read, batch_size, code, output, settings)
    if output is not None:
        typer.echo(f"✔ Wrote {output}")


def _measure_speed(
    pipelines: list[str],
    texts: Path,
    read: list[str],
    batch_size: int | None,
    code: Path | None,
    output: Path | None,
    settings: dict[str, Any],
) -> None:
    """Measure one pipeline or two on what was read of `texts`; settings: `repeats`, `threads`."""
    from ..evaluation.benchmark import MEASURES, count_parts, measure_pipelines, to_json

    total = count_parts(len(pipelines), settings["repeats"])
    with _measuring("Measuring", total, output, [texts, *pipelines]) as (content, progress):
        measured = measure_pipelines(
            pipelines,
            read,
            batch_size=batch_size,
            code=None if code is None else str(code),
            progress=progress,
            **settings,
        )
        content |= to_json(measured, texts=texts, **settings)
    for figures in measured:
        size = f"{figures.documents:,} documents, {figures.words:,} words"
        engines = "".join(f", {name} in {engine}" for name, engine in figures.engines.items())
        typer.echo(f"{figures.pipeline}: {size}{engines}")
    names = _short_names([figures.pipeline for figures in measured])
    table = Table("", *(Column(name, justify="right", overflow="fold") for name in names))
    if len(measured) > 1:
        table.add_column("times better", justify="right")
    for measure in MEASURES:
        row = [_format(measure, figures) for figures in measured]
        if len(measured) > 1:
            ratio = measure.times_better(*measured)
            row.append("" if ratio is None else f"{ratio:.2f}")
        title = f"{measure.title}, {measure.unit}" if measure.unit else measure.title
        table.add_row(title, *row)
    Console().print(table)


def _advise(pipeline: str, texts: list[str] | None) -> None:
    from ..encoders.batching.concurrency import default_threads
    from ..encoders.onnx.engines import VARIABLE
    from ..evaluation.benchmark import create_texts, find_fastest

    console = Console()
    with console.status("Trying") as status:
        ways = find_fastest(pipeline, texts or create_texts(), default_threads(), status.update)
    paths = list(dict.fromkeys(way.pipeline for way in ways))
    names = dict(zip(paths, _short_names(paths), strict=True))
    table = Table(Column("pipeline", overflow="fold"), Column("engine", no_wrap=True))
    for name in ("processes", "threads of each", "words/s"):
        table.add_column(name, justify="right")
    for way in ways:
        figures = (way.processes, way.threads, f"{way.words_per_second:,.0f}")
        table.add_row(names[way.pipeline], way.engine or "its own", *map(str, figures))
    console.print(table)
    best = ways[0]
    engine = f"{VARIABLE}={best.engine} " if best.engine else ""
    typer.echo(
        f"fastest here, about {best.words_per_second:,.0f} words/s: {engine}OMP_NUM_THREADS="
        f"{best.threads} python -m spacy biomed annotate {shlex.quote(best.pipeline)} INPUT OUTPUT "
        f"--n-process {best.processes}"
    )


def _measure_robustness(
    pipeline: str, corpus: Path, code: Path | None, output: Path | None
) -> None:
    from ..evaluation.robustness import CHANGES, measure_robustness
    from ..formats.spacy_docs import read_docs
    from ..pipeline.pipeline_loading import load_pipeline

    nlp = load_pipeline(pipeline, code)
    with _measuring("Scoring", len(CHANGES), output, [corpus, pipeline]) as (content, progress):
        measured = measure_robustness(nlp, read_docs(corpus, nlp.vocab), progress=progress)
        content.update(corpus=corpus.resolve().parent.name, rows=[asdict(row) for row in measured])
    names = ["precision", "recall", "F1"]
    names += ["clean documents"] if measured[0].clean is not None else []
    table = Table("text", *(Column(name, justify="right") for name in names))
    for row in measured:
        shares = [row.precision, row.recall, row.f1, *([] if row.clean is None else [row.clean])]
        table.add_row(row.change, *(f"{100 * share:.1f}" for share in shares))
    Console().print(table)


def _measure_corpora(
    pipeline: str,
    folder: Path,
    pairs: Sequence[str],
    trained_on: Sequence[Path],
    code: Path | None,
    output: Path | None,
) -> None:
    from ..evaluation.cross_corpus import find_corpora, measure_corpora, parse_label_maps
    from ..pipeline.pipeline_loading import load_pipeline
    from ..training.config import read_description

    corpora, maps = find_corpora(folder), parse_label_maps(pairs)
    nlp = load_pipeline(pipeline, code)
    languages = {corpus.name: str(read_description(corpus)["language"]) for corpus in corpora}
    sources: list[Path | str] = [folder, pipeline, *trained_on]
    with _measuring("Scoring", len(corpora), output, sources) as (content, progress):
        measured = measure_corpora(nlp, corpora, maps, trained_on, progress)
        scored = {row.corpus for row in measured}
        left_out = [corpus.name for corpus in corpora if corpus.name not in scored]
        rows = [asdict(row) for row in measured]
        content.update(pipeline=pipeline, rows=rows, left_out=left_out)
    names = [name.replace(" ", "\n") for name in ("mentions", *measured[0].scores)]
    columns = [Column(name, justify="right", no_wrap=True) for name in names]
    # Narrow, so that all columns fit into a terminal of 80 characters.
    table = Table("corpus", "label", *columns, title="F1", box=None, padding=(0, 1, 0, 0))
    for row in measured:
        shares = ["" if one is None else f"{100 * one['f']:.1f}" for one in row.scores.values()]
        cells = [f"{row.mentions:,}", *shares]
        table.add_row(Text(row.corpus), Text(row.label or "all"), *cells)
    Console().print(table)
    if left_out:
        typer.echo(f"Left out, without entities of the pipeline's labels: {', '.join(left_out)}")
    foreign = [
        f"{name} ({language})"
        for name, language in languages.items()
        if name in scored and nlp.lang not in (language, "xx")  # of all languages
    ]
    if foreign:
        typer.echo(f"⚠ Of another language than the pipeline's ({nlp.lang}): {', '.join(foreign)}")


@contextmanager
def _measuring(
    title: str, total: int, output: Path | None, sources: Sequence[Path | str]
) -> Iterator[tuple[dict[str, object], Callable[[str], None]]]:
    """What will be written to the output, to be filled in, and what moves the progress bar.

    The file is created before the work, so that one that cannot be written is reported at once.
    """
    content: dict[str, object] = {}
    with (
        nullcontext() if output is None else replacing_file(output, sources) as partial,
        Progress(console=Console(), transient=True) as bar,
    ):
        task = bar.add_task(title, total=total)
        yield content, lambda part: bar.update(task, advance=1, description=part)
        if partial is not None:
            partial.write_text(json.dumps(content, indent=2), encoding="utf8")


def _short_names(pipelines: list[str]) -> list[str]:
    """The last parts of the paths, as many as are needed to distinguish them, or numbers too."""
    parts = [Path(pipeline).parts for pipeline in pipelines]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(own[-count:]) for own in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{number}: {name}" for number, name in enumerate(pipelines, 1)]


def _format(measure: Measure, figures: PipelineFigures) -> str:
    value, spread = measure.value(figures), measure.spread(figures)
    if value is None:
        return "not known"
    numbers = [number * measure.scale for number in [value, *(spread or ())]]
    digits = 0 if numbers[0] >= 1000 else 1 if numbers[0] >= 10 else 2
    middle, *ends = (f"{number:,.{digits}f}" for number in numbers)
    return f"{middle} ({ends[0]} to {ends[1]})" if ends else middle


def scores(
    pipeline: Path = typer.Argument(help="Directory of the pipeline that was evaluated."),
    metrics: Path = typer.Argument(help="JSON file that `spacy evaluate --output` wrote."),
) -> None:
    """Say in words what `spacy evaluate` measured.

    Its SPAN P, R and F, with --spans-key unseen, are of the mentions whose text is nowhere in the
    training part.

    Example: python -m spacy biomed scores compressed/mynotes metrics/mynotes.json
    """
    from ..evaluation.tasks import find_heads, read_scores
    from ..packaging.described_pipeline import read_pipeline_config

    heads = find_heads(read_pipeline_config(pipeline / "config.cfg"))
    measured = read_scores(metrics, heads)
    console = Console(highlight=False)
    for head in heads:
        title = Text(f"{head.name}: {head.kind.task_name}")
        numbers = [(name, [value]) for name, value in head.numbers(measured)]
        for names, rows in (["precision", "recall", "F1"], head.rows(measured)), ([""], numbers):
            table = create_table([""], names, title)
            for row, values in rows:
                cells = ("" if value is None else f"{100 * value:.2f}" for value in values)
                table.add_row(Text(row), *cells)
            if table.row_count:
                console.print(table)
    if any(name.startswith("spans_unseen_") for name in measured):
        console.print(
            "SPAN P, R and F, and SPANS (per type), of `spacy evaluate` are of the mentions that "
            "were not seen in training",
            soft_wrap=True,
        )


def errors(
    pipeline: str = typer.Argument(help="Pipeline that finds mentions: directory or package."),
    corpus: Path = typer.Argument(help=".spacy file with gold mentions."),
    output: Path = typer.Argument(help="HTML page to write."),
    other: str = typer.Option(None, help="A second pipeline to compare with the first."),
    spans_key: str = typer.Option(None, help="Span group of the mentions; else entities."),
    no_text: bool = typer.Option(False, "--no-text", help="Write no sentences and no mentions."),
    most: int = typer.Option(1000, min=0, help="Sentences with errors to show."),
) -> None:
    """Show the errors of a pipeline on a page: what it confuses, misses and finds wrongly.

    The page needs no network. Unless --no-text is given, it has sentences of the corpus, so keep it
    where the corpus may be kept. Each sentence has the gold above what was found.

    Example: python -m spacy biomed errors training/ncbi_disease/model-best
    corpus/ncbi_disease/test.spacy errors.html
    """
    from ..evaluation.error_analysis import ErrorAnalysis
    from ..formats.spacy_docs import read_docs
    from ..pipeline.mention_layer import gold_spans, list_finders
    from ..pipeline.pipeline_loading import load_pipeline

    if other is not None:
        with importing_extra("the paired test needs scipy"):
            from ..studies.paired_tests import compare_tallies
    names = [pipeline, *([] if other is None else [other])]
    layer = "entities" if spans_key is None else f"the span group {spans_key}"
    with replacing_file(output, [corpus, *names]) as partial:  # before the work
        pipelines = [load_pipeline(name) for name in names]
        gold = list(read_docs(corpus, pipelines[0].vocab))
        if all(gold_spans(doc, spans_key) is None for doc in gold):
            raise BiomedError(f"{corpus}: no document there has annotated {layer}; see --spans-key")
        for name, nlp in zip(names, pipelines, strict=True):
            if not list_finders(nlp, None, spans_key).names:
                raise BiomedError(
                    f"{name}: none of its components finds {layer}; see --spans-key, also of "
                    "`convert`"
                )
        analysis = ErrorAnalysis(_short_names(names), pipelines[0].lang or "", most)
        found = [nlp.pipe(doc.text for doc in gold) for nlp in pipelines]
        for reference, *predicted in zip(gold, *found, strict=True):
            analysis.add(reference, predicted, spans_key)
        test = ""
        if other is not None:
            first, second = (system.tallies for system in analysis.systems)
            test = _describe_test(compare_tallies([second], [first], "f"))
        title = f"Errors on {corpus.resolve().parent.name}/{corpus.stem}"
        page = analysis.render(title, with_text=not no_text, test=test)
        partial.write_text(page, encoding="utf8")
    for system in analysis.systems:
        count = sum(system.kinds.values())
        typer.echo(f"{system.name}: F1 {100 * system.scores.overall.fscore:.2f}, {count:,} errors")
    typer.echo("\n".join(filter(None, [test, f"✔ Wrote {output}"])))


def _describe_test(result: PairedTest | None) -> str:
    """What a paired test of two pipelines says; "" without one."""
    if result is None:
        return ""
    return (
        f"F1 of the second minus the first: {100 * result.difference:+.2f} points (95% interval "
        f"{100 * result.low:+.2f} to {100 * result.high:+.2f}, p = {result.p_value:.3f} over "
        f"{result.documents:,} documents)"
    )
