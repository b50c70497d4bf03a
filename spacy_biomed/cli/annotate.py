"""`spacy biomed annotate`."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from ..errors import BiomedError
from ._shared import options
from ._shared.bad_input import explaining_interruption
from ._shared.display import create_bar

if TYPE_CHECKING:
    from ..bulk.shards import BulkSettings
    from ..files.records import Layout
    from ..files.sources import Columns

# Parameters that are of use only with OUTPUT.
_OF_COLLECTIONS = (
    *("keep", "patient_column", "meanings", "shard_size", "batch_size"),
    *("n_process", "max_errors", "engine", "address", "verbose"),
)

# A text that people give for the path of a file: it begins or ends as one.
_LIKE_A_PATH = re.compile(
    r"(~|\.{1,2})?/\S*[^\W\d]\S*|[A-Za-z]:\\.+|\S+/|"
    r".{1,250}\.(txt|text|jsonl?|ndjson|csv|tsv|parquet|pubtator|spacy|xml|nxml|pdf|docx?|rtf|"
    r"html?|xlsx?|odt|ann|md)(\.(gz|xz|zst|zip|bz2))?",
    re.IGNORECASE,
)


def annotate(
    context: typer.Context,
    pipeline: str = typer.Argument(help="Installed package or pipeline directory."),
    text: str = typer.Argument(
        "",
        metavar="[TEXT|INPUT]",
        help="Text to annotate; else, or if it is -, standard input. Or what to annotate: .jsonl, "
        ".json, .csv, .tsv, .parquet, .pubtator, .spacy or .txt (a document a line), or a folder "
        "of these or of .txt notes.",
    ),
    output: Path = typer.Argument(
        None,
        help="Folder to write, in the format of its ending: .parquet (also without an ending), "
        ".csv, .jsonl, .spacy, .brat, .pubtator, .label_studio, .prodigy, .inception, .fhir.ndjson "
        "or .omop. With the same output, an interrupted run continues.",
    ),
    corpus: Path = typer.Option(None, help="Annotate the first text of a .spacy file instead."),
    text_column: str = options.TEXT_COLUMN,
    id_column: str = typer.Option(
        None, help="Column or JSON field with the identifier; else id, or file and row."
    ),
    patient_column: str = typer.Option(
        None, help="Column or JSON field with the patient, for FHIR and OMOP; else each document."
    ),
    meanings: Path = typer.Option(
        None, help="JSON file: the FHIR resource of each label, and the system of its codes."
    ),
    keep: list[str] = options.KEEP,
    encoding: str = options.ENCODING,
    delimiter: str = options.DELIMITER,
    quoting: options.Quoting = options.QUOTING,
    code: Path = options.CODE,
    shard_size: int = typer.Option(1000, min=1, help="Documents in a shard, which is a file."),
    batch_size: int = typer.Option(None, min=1, help="Documents in a batch; else the pipeline's."),
    n_process: int = typer.Option(
        None,
        min=1,
        help="Processes that annotate; several have one thread each, or OMP_NUM_THREADS. Else one, "
        "or with Ray one for each processor.",
    ),
    max_errors: int = options.MAX_ERRORS,
    max_seconds: float = options.MAX_SECONDS,
    min_confidence: float = typer.Option(
        0.0, callback=options.from_0_to_1, help="Leave out entities of a lower confidence."
    ),
    engine: Literal["local", "ray"] = typer.Option(
        "local", help="Who runs the processes: local, or ray."
    ),
    address: str = typer.Option(
        None, help="Ray cluster to use, auto or HOST:PORT; else Ray starts on this machine."
    ),
    verbose: bool = typer.Option(False, "--verbose", help="Print Ray's messages."),
    gpu_id: int = typer.Option(
        -1, "--gpu-id", "-g", min=-1, help="GPU, which all processes share; -1 for the CPU."
    ),
) -> None:
    """Annotate one text and print what was found, or annotate all documents of INPUT.

    A run over many documents can be interrupted at any moment: the same command continues it, and
    each document is in OUTPUT exactly once. Documents that fail are listed in OUTPUT/_errors.jsonl,
    and then the exit status is 1. Without OUTPUT, what is found in INPUT is printed.

    Example: python -m spacy biomed annotate en_biomed_ner "Aspirin reduced the risk of cancer."

    Example: python -m spacy biomed annotate en_biomed_ner notes.parquet annotated.parquet
    --text-column note --id-column note_id

    Example: python -m spacy biomed annotate en_biomed_ner notes.parquet annotated.parquet --engine
    ray --n-process 4

    Example: python -m spacy biomed annotate training/model-best notes.parquet annotated.parquet
    --gpu-id 0 --n-process 8
    """
    from ..files.sources import Columns

    columns = Columns(text_column, id_column, tuple(dict.fromkeys(keep)), patient_column)
    layout = options.read_layout(encoding, delimiter, quoting)
    if output is None:
        for option in options.list_given(context, _OF_COLLECTIONS):
            raise BiomedError(f"{option} is for a collection: name OUTPUT, or leave it out")
        texts = _find_texts(text, corpus, columns, layout)
        _show(pipeline, texts, min_confidence, code, gpu_id)
        return
    if corpus is not None:
        raise BiomedError("--corpus shows one text: leave it out, or leave OUTPUT out")
    if not text:
        raise BiomedError('TEXT is "": give a file or a folder of documents')
    if address is not None and engine != "ray":
        raise BiomedError("--address is that of a Ray cluster: add --engine ray")
    from ..bulk.shards import BulkSettings

    settings = BulkSettings(
        columns,
        layout,
        None if code is None else str(code),
        shard_size,
        batch_size,
        n_process,
        max_errors,
        min_confidence,
        engine,
        address,
        verbose,
        meanings,
        gpu_id,
        max_seconds,
    )
    with explaining_interruption():
        _annotate_collection(pipeline, Path(text), output, settings)


def _find_texts(text: str, corpus: Path | None, columns: Columns, layout: Layout) -> Iterable[str]:
    """The text that is given, or those of the file or folder that is named in its place."""
    from ..files.records import decode_file
    from ..files.sources import is_text
    from ..formats.inputs import read_texts, tell_unread
    from ..formats.spacy_docs import read_docs

    if corpus is not None:
        for doc in read_docs(corpus, Vocab()):
            return [doc.text]
        raise BiomedError(f"{corpus}: no documents there; give another --corpus, or a text")
    if text in ("", "-"):
        text, problem = decode_file(sys.stdin.buffer.read(), layout)
        if problem:
            raise BiomedError(f"standard input: {problem}")
        return [text]
    if os.path.exists(text):
        tell_unread(Path(text))
        return read_texts(Path(text), columns, layout)
    if _LIKE_A_PATH.fullmatch(text):
        raise BiomedError(
            f"{text}: no such file or folder; check the path, or give it on standard input if it "
            "is a text"
        )
    if not is_text(text):
        raise BiomedError("TEXT is not UTF-8; give it on standard input with its --encoding")
    return [text]


def _show(
    pipeline: str, texts: Iterable[str], min_confidence: float, code: Path | None, gpu_id: int
) -> None:
    from ..annotations.pairs import PAIR_SEPARATOR
    from ..pipeline.mention_layer import keep_confident
    from ..pipeline.ner.calibrating import list_uncalibrated
    from ..pipeline.pipeline_loading import load_pipeline

    nlp = load_pipeline(pipeline, code, gpu_id)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(pipeline, style="bold")
    for doc in map(nlp, texts):
        keep_confident(doc, min_confidence)
        for part in doc.text.split(PAIR_SEPARATOR):
            console.print(part.strip())
        for line in findings(doc):
            console.print(f"  {line}")
    if uncalibrated := list_uncalibrated(nlp):
        console.print(_explain_uncalibrated(uncalibrated))


def _annotate_collection(pipeline: str, source: Path, output: Path, settings: BulkSettings) -> None:
    from ..bulk.annotating import annotate_collection, check_failed
    from ..bulk.manifest import ERRORS
    from ..formats.inputs import tell_unread
    from ..formats.registry import find_output

    tell_unread(source)
    console = Console(highlight=False)
    start, speed = time.monotonic(), 0.0
    with create_bar(console) as bar:
        task = bar.add_task("Annotating", total=None)

        def show(rows: int, total: int, words: int) -> None:
            nonlocal speed
            speed = words / max(time.monotonic() - start, 1e-3)
            description = f"Annotating, {speed:,.0f} words/s"
            bar.update(task, completed=rows, total=total, description=description)

        report = annotate_collection(pipeline, source, output, settings, on_progress=show)
    documents = report.counts["documents"]
    if documents and find_output(output) == "parquet":
        typer.echo(f'Each table has a folder: pandas.read_parquet("{output}/entities")')
    typer.echo(f"{documents + len(report.failed):,} records were read")
    for name, count in report.counts.items():
        typer.echo(f"{name}: {count:,}")
    if report.continued:
        typer.echo(f"{report.continued:,} of {report.shards:,} shards were finished before")
    if report.uncalibrated:
        typer.echo(_explain_uncalibrated(report.uncalibrated))
    if documents or not report.failed:
        typer.echo(f"✔ Wrote {output}, {speed:,.0f} words/s")
    if report.failed and documents and settings.max_errors is not None:
        typer.echo(f"⚠ {len(report.failed):,} documents failed: see {output / ERRORS}")
    check_failed(output, documents, report.failed, output / ERRORS, settings.max_errors)


def _explain_uncalibrated(names: list[str]) -> str:
    return f"⚠ the confidence of {', '.join(names)} is not calibrated: see `spacy biomed calibrate`"


def findings(doc: Doc) -> list[str]:
    """A line for each entity, answer or other span, relation and class, with its probability.

    The line of an entity ends with its code, and what the text says of it, as in "(negated)".
    """
    from ..annotations.pairs import PAIR_KEY
    from ..annotations.sections import SECTIONS

    others = (PAIR_KEY, SECTIONS)
    layers = [doc.ents, *(group for key, group in doc.spans.items() if key not in others)]
    lines = [_describe(span) for layer in layers for span in layer]
    relations = doc._.relations if doc.has_extension("relations") else None
    for head, tail, label, score in relations or ():
        lines.append(f"{head.text} [{label}] {tail.text} {score:.2f}")
    ranked = sorted(doc.cats.items(), key=lambda item: -item[1])
    return [*lines, *(f"{label} {value:.2f}" for label, value in ranked)]


def _describe(span: Span) -> str:
    from ..annotations.assertions import describe_assertions

    # spaCy's own components give no probability.
    confidence = span._.confidence if span.has_extension("confidence") else None
    score = "" if confidence is None else f" {confidence:.2f}"
    said = describe_assertions(span)
    name = span._.code_name if span.has_extension("code_name") else None
    code = f", {span.kb_id_} {name or ''}".rstrip() if span.kb_id_ else ""
    return f"{span.text} [{span.label_}]{score}{code}" + (f" ({said})" if said else "")
