"""`spacy biomed errors`."""

from __future__ import annotations

from pathlib import Path

import typer

from ..errors import BiomedError
from ._shared.bad_input import importing_extra


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
    from ..files.output_places import check_output
    from ..files.outputs import replace_text
    from ..pipeline.pipeline_loading import load_pipeline
    from ..training.corpus import read_docs

    names = [pipeline, *([] if other is None else [other])]
    check_output(output, [corpus, *names])  # before the work
    pipelines = [load_pipeline(name) for name in names]
    gold = list(read_docs(corpus, pipelines[0].vocab))
    analysis = ErrorAnalysis(_distinguish(names), pipelines[0].lang or "", most)
    found = [nlp.pipe(doc.text for doc in gold) for nlp in pipelines]
    for reference, *predicted in zip(gold, *found, strict=True):
        analysis.add(reference, predicted, spans_key)
    first, *others = analysis.systems
    if not first.tallies:
        layer = "entities" if spans_key is None else f"the span group {spans_key}"
        raise BiomedError(f"{corpus}: no document there has annotated {layer}; see --spans-key")
    test = ""
    if others:
        with importing_extra("the paired test needs scipy"):
            from ..studies.paired_tests import compare_tallies

            result = compare_tallies([others[0].tallies], [first.tallies], "f")
        if result is not None:
            test = (
                f"F1 of the second minus the first: {100 * result.difference:+.2f} points (95% "
                f"interval {100 * result.low:+.2f} to {100 * result.high:+.2f}, p = "
                f"{result.p_value:.3f} over {result.documents:,} documents)"
            )
    title = f"Errors on {corpus.parent.name}/{corpus.stem}"
    replace_text(output, analysis.render(title, with_text=not no_text, test=test), [corpus, *names])
    for system in analysis.systems:
        count = sum(system.kinds.values())
        typer.echo(f"{system.name}: F1 {100 * system.scores.overall.fscore:.2f}, {count:,} errors")
    typer.echo("\n".join(filter(None, [test, f"✔ Wrote {output}"])))


def _distinguish(names: list[str]) -> list[str]:
    """Short names of pipelines that differ."""
    short = [Path(name).name for name in names]
    return short if len({*short}) == len(short) else [f"{n}: {s}" for n, s in enumerate(names, 1)]
