"""`spacy biomed clean`, `vocabulary`, `pretrain`, `distill` and `convert-encoder`."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ..errors import BiomedError, quote
from ..files.outputs import replacing_directory
from ._shared import options
from ._shared.bad_input import explaining_interruption, importing_extra
from ._shared.display import create_bar, create_table
from ._shared.options import parse_overrides

if TYPE_CHECKING:
    from ..language_models.cleaning import CleaningReport, Source


def clean(
    sources: list[str] = typer.Argument(
        help="Files (.txt, .jsonl, .csv, .parquet, .xml; .gz, .xz, .zst) and folders, each a "
        "separate source; NAME=PATH names a source, which may have several paths."
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="Text file to write: .txt, .txt.gz, .txt.xz or .txt.zst."
    ),
    lang: str = typer.Option(..., help="Language of the corpus, such as en; others are removed."),
    text_field: str = options.TEXT_COLUMN,
    encoding: str = options.ENCODING,
    delimiter: str = options.DELIMITER,
    quoting: options.Quoting = options.QUOTING,
    min_words: int = typer.Option(3, min=1, help="Fewest words of a sentence."),
    max_words: int = typer.Option(250, min=1, help="Most words of a sentence."),
    similarity: float = typer.Option(
        0.8, min=0.5, max=0.95, help="Jaccard similarity of near-duplicate documents."
    ),
    workers: int = typer.Option(1, min=1, help="Processes that split and filter."),
) -> None:
    """Clean a corpus to learn from: split sentences, remove noise, other languages, duplicates.

    Duplicates are found within a source and across sources; the first is kept. Writes a document
    per line, and beside it a report of what was removed and why. Memory does not grow with the
    corpus.

    Example: python -m spacy biomed clean abstracts=data/pubmed cases.jsonl.zst --output
    corpus/clean.txt.xz --lang en
    """
    from ..language_models.cleaning import CleaningSettings, clean_corpus, report_path
    from ..language_models.deduplication import NearDuplicates
    from ..language_models.sentences import Thresholds

    if min_words > max_words:
        raise BiomedError(f"--min-words {min_words} is above --max-words {max_words}: swap them")
    settings = CleaningSettings(
        lang,
        Thresholds(min_words=min_words, max_words=max_words),
        NearDuplicates(similarity=similarity),
    )
    console = Console(highlight=False)
    with create_bar(console) as progress:
        # Without a total, the bar shows that documents are being counted.
        task = progress.add_task("Cleaning", total=None)
        report = clean_corpus(
            group_sources(sources),
            output,
            settings,
            text_field=text_field,
            layout=options.read_layout(encoding, delimiter, quoting),
            workers=workers,
            on_progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    _print_report(report, console)
    for path in (output, report_path(output)):
        typer.echo(f"✔ Wrote {path}")


def group_sources(arguments: list[str]) -> list[Source]:
    """The sources that arguments name: NAME=PATH, or a path whose source is named like it."""
    from ..language_models.cleaning import Source

    paths: dict[str, list[Path]] = {}
    for argument in arguments:
        name, sign, path = argument.partition("=")
        if not sign or os.path.exists(argument):
            name = path = argument
        if not (name and path):
            raise BiomedError(f"{quote(argument)}: name a file or folder of text, as in NAME=PATH")
        paths.setdefault(name, []).append(Path(path))
    return [Source(name, tuple(own)) for name, own in paths.items()]


def _print_report(report: CleaningReport, console: Console) -> None:
    """Print what was kept of each source, and how often each reason removed something."""
    texts = (Column(title, overflow="fold") for title in ("source", ""))
    numbers = (Column(title, justify="right", no_wrap=True) for title in ("in", "out", "share"))
    table = Table(*texts, *numbers, title="Kept", title_justify="left")
    total = {"all sources": report.total} if len(report.sources) > 1 else {}
    for name, account in [*report.sources.items(), *total.items()]:
        for kind, counts in account.to_json().items():
            share = counts["out"] / max(counts["in"], 1)
            title = escape(name) if kind == "documents" else ""
            table.add_row(title, kind, f"{counts['in']:,}", f"{counts['out']:,}", f"{share:.1%}")
    console.print(table)
    kinds = ("documents", "sentences")
    table = create_table([""], kinds, "Removed")
    removed = [report.total.to_json()[kind]["removed"] for kind in kinds]
    for reason in dict.fromkeys(chain(*removed)):
        cells = [by_reason.get(reason, 0) for by_reason in removed]
        if any(cells):
            table.add_row(reason, *(f"{count:,}" if count else "" for count in cells))
    console.print(table)


def vocabulary(
    text: list[Path] = typer.Argument(help="Files or folders of text: .txt, .jsonl, .parquet."),
    output: Path = typer.Option(..., "--output", "-o", help="Tokenizer directory to write."),
    kind: Literal["wordpiece", "bpe"] = typer.Option(
        "wordpiece", help="wordpiece (BERT's) or bpe (RoBERTa's)."
    ),
    size: int = typer.Option(..., min=1, help="Largest number of entries."),
    lowercase: bool = typer.Option(False, "--lowercase", help="Wordpiece: fold case and accents."),
    text_field: str = options.TEXT_COLUMN,
) -> None:
    """Learn a vocabulary from text, and write it as a Hugging Face fast tokenizer.

    A recipe for `spacy biomed pretrain` takes the directory as [vocabulary] name. Without it, the
    recipe describes a vocabulary that pretraining learns.

    Example: python -m spacy biomed vocabulary texts/ --output vocabularies/mine --kind bpe
    --size 50262
    """
    from ..language_models.vocabulary import Documents, learn_vocabulary, save_tokenizer

    if lowercase and kind == "bpe":
        raise BiomedError("--lowercase: only --kind wordpiece folds case; leave it out")
    with (
        replacing_directory(output, "spacy biomed vocabulary", text) as partial,
        Console().status("Learning the vocabulary"),
    ):
        tokenizer = learn_vocabulary(Documents(text, text_field), kind, size, lowercase=lowercase)
        save_tokenizer(tokenizer, partial)
    typer.echo(f"✔ Wrote {output}: {tokenizer.get_vocab_size():,} entries")


def pretrain(
    context: typer.Context,
    recipe: Path = typer.Argument(help="Recipe, such as configs/language_models/adapt.cfg."),
) -> None:
    """Train an encoder by masked language modelling, from scratch or from an existing encoder.

    If a run was killed, give the same command again: it resumes from the last checkpoint, with the
    result of an uninterrupted run. Override settings of the recipe as in spacy train:
    --training.steps 1000. For several GPUs or machines begin with `torchrun --nproc_per_node N -m
    spacy biomed pretrain` or `accelerate launch -m spacy biomed pretrain`.

    Example: python -m spacy biomed pretrain configs/language_models/starter_en.cfg --paths.text
    texts.txt --paths.output encoders/mine
    """
    with importing_extra("pretraining needs PyTorch and transformers"):
        from ..language_models.pretraining import pretrain as run
        from ..language_models.recipe import PretrainingRecipe
    _train(run, PretrainingRecipe, recipe, context)


def distill(
    context: typer.Context,
    recipe: Path = typer.Argument(help="Recipe, such as configs/language_models/tinybiobert.cfg."),
) -> None:
    """Train a small encoder to compute what a larger encoder computes, on any text.

    If a run was killed, give the same command again: it resumes from the last checkpoint. Override
    settings of the recipe as in spacy train: --teacher.name biobert. For several GPUs or machines
    begin with `torchrun --nproc_per_node N -m spacy biomed distill` or `accelerate launch -m spacy
    biomed distill`.

    Example: python -m spacy biomed distill configs/language_models/starter_from_teacher.cfg
    --paths.text texts.txt --paths.teacher biobert --paths.output encoders/mine
    """
    with importing_extra("distillation needs PyTorch and transformers"):
        from ..language_models.distillation import distill as run
        from ..language_models.recipe import DistillationRecipe
    _train(run, DistillationRecipe, recipe, context)


def _train(run: Callable[..., object], schema: Any, recipe: Path, context: typer.Context) -> None:
    from ..language_models.recipe import read_recipe

    with explaining_interruption():
        report = run(read_recipe(recipe, schema, parse_overrides(context)), Console())
    if report is not None:
        typer.echo(f"✔ Wrote {report}")


def convert_encoder(
    name: str = typer.Argument(help="Catalogue name, hub id or directory."),
    output: Path = typer.Argument(help="Encoder directory to write."),
    revision: str | None = typer.Option(None, help="Commit, branch or tag on the hub."),
) -> None:
    """Write an encoder that was published as a pickle (pytorch_model.bin) as safetensors.

    All other commands read safetensors only, because a pickle can contain code. This command takes
    nothing but numbers from the pickle, and refuses a pickle with code.

    Example: python -m spacy biomed convert-encoder biobert biobert
    """
    from ..encoders.loading import WEIGHTS, save_encoder

    with importing_extra("converting an encoder needs PyTorch and transformers"):
        from ..encoders.pickled import read_pickled
    source = Path(name).expanduser()
    with replacing_directory(output, "spacy biomed convert-encoder", [source]) as partial:
        save_encoder(partial, *read_pickled(name, revision))
        megabytes = (partial / WEIGHTS).stat().st_size / 1e6
    typer.echo(f"✔ Wrote {output}: {megabytes:.1f} MB of safetensors")
