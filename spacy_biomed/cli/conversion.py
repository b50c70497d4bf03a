"""`spacy biomed convert` and `spacy biomed combine`: parse, call, print what is in the corpora."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console
from rich.text import Text

from ..errors import BiomedError, escape
from ._shared.display import create_bar, create_table
from ._shared.options import split_names

if TYPE_CHECKING:
    from ..corpora.conversion_report import ConversionReport, PartReport


def convert(
    name: str = typer.Argument(
        help="A corpus of the catalogue (`spacy biomed corpora`), or any name with --format."
    ),
    source: Path = typer.Argument(help="Folder that the corpus is unpacked in, or a single file."),
    output: Path = typer.Argument(help="The folder to write {train,dev,test}.spacy to."),
    format: str | None = typer.Option(
        None, help="brat, columns, jsonl or another (see docs/corpora.md); else the catalogue's."
    ),
    language: str | None = typer.Option(
        None, help="Code of the text's language; else the catalogue's, or en."
    ),
    train: list[Path] = typer.Option([], help="File or folder of the training part; repeatable."),
    dev: list[Path] = typer.Option([], help="The same of the development part."),
    test: list[Path] = typer.Option([], help="The same of the test part."),
    encoding: str | None = typer.Option(None, help="Of the text files; else UTF-8."),
    n_sents: int = typer.Option(
        1, min=1, help="Sentences in a document, of column files that mark no documents."
    ),
    tag_label: str | None = typer.Option(
        None, help="Label of tags that have none (B, I, O), else by the file's name; and of tables."
    ),
    map: list[str] = typer.Option(
        [],
        help="LABEL=NAME renames a label, LABEL= leaves its mentions out, LABEL=?NAME makes them "
        "neither right nor wrong as NAME; repeatable.",
    ),
    labels: str | None = typer.Option(
        None, help="Keep mentions of these labels only: names with commas between them."
    ),
    sentences: bool = typer.Option(
        False, "--sentences", help="A document for each sentence; else as the files have them."
    ),
    pairs: str = typer.Option(
        "",
        help="A document for each pair of mentions in a sentence, with tags such as @GENE$ in "
        "their places: all, or those of these types, as in CHEMICAL+GENE.",
    ),
    spans_key: str | None = typer.Option(
        None, help="Put mentions in doc.spans[KEY], overlapping ones too, rather than doc.ents."
    ),
    replace_mentions: str | None = typer.Option(
        None, help="Folder of term lists: copy the training part with other mentions; '': none."
    ),
    copies: int | None = typer.Option(
        None, min=1, help="How many copies --replace-mentions adds; else 1."
    ),
    identifier: str = typer.Option(
        "concept", help="The attribute of mentions that identifies their concept, as ent.kb_id_."
    ),
    on_error: Literal["stop", "skip"] = typer.Option(
        "stop", help="What to do about an annotation or a document that is wrong: stop, or skip it."
    ),
    seed: int = typer.Option(0, help="Of parts that are not published, and of the copies."),
) -> None:
    """Convert a corpus to spaCy's format, and say what is in it.

    Without --train, --dev and --test the parts are the catalogue's; with --format they are the
    files or folders in SOURCE whose names have train, dev (val, valid) and test in them. A corpus
    without a dev part gets a tenth of its training documents as one; SOURCE as a single file is
    split 80/10/10.

    Example: python -m spacy biomed convert ncbi_disease assets/ncbi_disease corpus/ncbi_disease

    Your own: python -m spacy biomed convert notes notes/ corpus/notes --format brat --language es
    """
    from ..corpora.convert import convert_corpus
    from ..corpora.corpus_catalogue import find_corpus
    from ..corpora.label_map import parse_label_map

    if copies is not None and replace_mentions is None:
        raise BiomedError("--copies needs --replace-mentions FOLDER, a folder of term lists")
    kept_labels = split_names(labels or "")
    if labels is not None and not kept_labels:
        raise BiomedError("--labels names no label: give some with commas between, as in A,B")
    given = {"train": train, "dev": dev, "test": test}
    # Paths in SOURCE, or as they are given.
    located = {
        part: [source / path if (source / path).exists() else path for path in paths]
        for part, paths in given.items()
        if paths
    }
    with create_bar(Console()) as bar:
        report = convert_corpus(
            name,
            source,
            output,
            format=format,
            language=language,
            paths=located,
            encoding=encoding,
            n_sents=n_sents,
            label_map=parse_label_map(map) if map else None,
            labels=kept_labels,
            tag_label=tag_label,
            sentences=sentences,
            pairs=pairs,
            spans_key=spans_key,
            replace_mentions=Path(replace_mentions) if replace_mentions else None,
            copies=copies or 1,
            seed=seed,
            on_error=on_error,
            identifier=identifier,
            progress=lambda documents, part: bar.track(documents, description=part),
        )
    title = escape(f"{report.name} ({report.language}, {report.format})")
    table = create_table([""], report.parts, Text(title, style="italic"))
    for title, values in _rows(report.parts):
        table.add_row(Text(escape(title)), *values)  # labels may contain any characters
    Console().print(table)
    published = () if format or map else find_corpus(name).labels
    for line in _remarks(report, published):
        typer.echo(line)


def _rows(parts: dict[str, PartReport]) -> Iterator[tuple[str, list[str]]]:
    """Yield the table's rows, without those that are zero in a corpus without such annotations."""
    reports = list(parts.values())

    def has(name: str) -> bool:
        return any(getattr(report, name) for report in reports)

    def counts(name: str) -> list[str]:
        return [f"{getattr(report, name):,}" for report in reports]

    def totals(name: str) -> list[str]:
        return [f"{sum(getattr(report, name).values()):,}" for report in reports]

    def by_label(name: str, begin: str = "") -> Iterator[tuple[str, list[str]]]:
        counted = [getattr(report, name) for report in reports]
        for label in sorted(set().union(*counted)):
            yield begin + label, [f"{one.get(label, 0):,}" for one in counted]

    yield "documents", counts("documents")
    marks = ("" if report.sentences_are_published else "~" for report in reports)
    yield "sentences", list(map("".join, zip(marks, counts("sentences"), strict=True)))
    yield "tokens", counts("tokens")
    if has("mentions"):
        yield "mentions", totals("mentions")
        yield from by_label("mentions", "  ")
        yield from by_label("assertions", "  ")
        yield "off token boundaries", [_share(report.inside_token, report) for report in reports]
        yield "overlap a longer one", [_share(report.overlapping, report) for report in reports]
        yield "discontinuous", [_share(report.discontinuous, report) for report in reports]
    if has("uncertain"):
        yield "neither right nor wrong", counts("uncertain")
    if has("relations"):
        yield "relations", totals("relations")
        yield from by_label("relations", "  ")
        if has("several_relations"):
            yield "pairs with several relations", counts("several_relations")
        yield "relations without spans", counts("lost_relations")
    if has("pairs"):
        yield "pairs of texts", counts("pairs")
    if has("answers"):
        yield "answers", counts("answers")
        yield "answers off token boundaries", counts("unaligned_answers")
    yield from by_label("classes")
    for label in sorted({label for report in reports for label in report.means}):
        means = [report.means.get(label) for report in reports]
        yield f"{label} (mean)", ["" if mean is None else f"{mean:.2f}" for mean in means]
    for kind in dict.fromkeys(kind for report in reports for kind in report.changes):
        yield kind, [f"{report.changes.get(kind, 0):,}" for report in reports]
    yield "texts of an earlier part", counts("duplicates")
    if has("dropped"):
        yield "repeats left out", counts("dropped")


def _share(count: int, report: PartReport) -> str:
    return f"{count:,} ({count / sum(report.mentions.values()):.2%})" if count else "0"


def _remarks(report: ConversionReport, published: Sequence[str]) -> Iterator[str]:
    if any(not part.sentences_are_published for part in report.parts.values()):
        yield "~ The corpus is not published in sentences; counted by their final punctuation."
    if report.seeded_parts:
        yield (
            f"Not published with these parts, drawn with seed {report.seed}: "
            f"{', '.join(report.seeded_parts)}."
        )
    if empty := [name for name, part in report.parts.items() if not part.documents]:
        yield (
            f"⚠ No document is in {' and '.join(empty)}: training needs train and dev; give more "
            "documents, or --train, --dev and --test."
        )
    layers = ("mentions", "relations", "classes", "means", "answers", "pairs")
    if not any(getattr(part, layer) for part in report.parts.values() for layer in layers):
        yield "⚠ No document has an annotation: check that the files have any, and --format."
    found = {label for part in report.parts.values() for label in part.mentions}
    if found and published and found.isdisjoint(published):
        yield (
            f"⚠ No mention is a {' or '.join(published[:5])}, as the catalogue has it: check that "
            f"these are the files of {report.name}."
        )
    if any(part.changes for part in report.parts.values()):
        yield f"What was repaired and left out is listed in {report.output / 'conversion.json'}."
    if report.unseen_share is not None:
        yield f"Test mentions that never occur in train: {report.unseen_share:.1%}."
    yield f"✔ Wrote {', '.join(f'{part}.spacy' for part in report.parts)} to {report.output}"


# Counts of a part of a corpus, by their titles in the table.
_COUNTS = {
    "documents": "documents",
    "same text held out": "repeated_text",
    "same id": "repeated_id",
    "a sentence": "repeated_sentence",
    "merged": "merged",
    "kept twice": "kept_twice",
    "disputed mentions": "disputed",
}


def combine(
    output: Path = typer.Argument(help="The folder to write {train,dev,test}.spacy to."),
    corpora: list[Path] = typer.Argument(help="Folders that `spacy biomed convert` wrote."),
    map: list[str] = typer.Option(
        [],
        help="CORPUS:LABEL=NAME renames a label of a corpus, CORPUS:LABEL= leaves its mentions "
        "out, CORPUS:LABEL=?NAME makes them neither right nor wrong as NAME; repeatable.",
    ),
    spans_key: str | None = typer.Option(
        None, help="The mentions are in doc.spans[KEY] rather than doc.ents."
    ),
    train_first: bool = typer.Option(
        False,
        "--train-first",
        help="Train on texts of both a training and a development part; else hold them out.",
    ),
) -> None:
    """Combine corpora of mentions that annotate different labels into one to train on.

    Each document says which labels it annotates, so that the absence of other labels is neither
    learned nor scored. Texts of a test part are left out of the other parts. Texts of a development
    part are left out of the training part, or the other way round with --train-first.

    Example: python -m spacy biomed combine corpus/both corpus/ncbi_disease corpus/bc5cdr
    --map ncbi_disease:Disease=DISEASE --map bc5cdr:Disease=DISEASE --map bc5cdr:Chemical=CHEMICAL
    """
    from ..evaluation.cross_corpus import parse_label_maps
    from ..training.combining import combine_corpora

    report = combine_corpora(
        corpora,
        output,
        label_maps=parse_label_maps(map),
        spans_key=spans_key,
        train_first=train_first,
    )
    counts = [count for corpus in report.corpora for count in corpus.parts.values()]
    # Without the columns of zeros, which would squeeze the others.
    shown = {
        header: name
        for header, name in _COUNTS.items()
        if name == "documents" or any(getattr(count, name) for count in counts)
    }
    title = f"{report.name} ({report.language})"
    table = create_table(["corpus", "labels", "part"], shown, title)
    for corpus in report.corpora:
        begin = [Text(corpus.name), Text(", ".join(corpus.labels))]
        for part, count in corpus.parts.items():
            table.add_row(*begin, part, *(f"{getattr(count, name):,}" for name in shown.values()))
            begin = [Text(), Text()]
    Console().print(table)
    names = ", ".join(f"{part}.spacy" for part in report.parts)
    for part, written in report.parts.items():
        mentions = ", ".join(f"{count:,} {label}" for label, count in written.mentions.items())
        typer.echo(f"{part}: {written.documents:,} documents; {mentions or 'no mentions'}")
    typer.echo(f"✔ Wrote {names} to {output}")
