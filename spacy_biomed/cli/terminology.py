"""`spacy biomed terminology`: `build` and `link`."""

from pathlib import Path

import typer
from rich.console import Console

from ..errors import BiomedError
from ._shared.bad_input import OneLineGroup
from ._shared.options import split_pair

terminology = typer.Typer(
    cls=OneLineGroup,
    no_args_is_help=True,
    help="""Index terminologies, and make pipelines give entities their codes.

    Examples: python -m spacy biomed terminology build hp.obo terms/hpo --format obo

    python -m spacy biomed terminology link en_biomed_ner linked --terminology DISEASE=terms/hpo
    """,
)


@terminology.command("build")
def build(
    file: Path = typer.Argument(help="The terminology as published: a file or a folder."),
    output: Path = typer.Argument(help="Directory to write."),
    format: str = typer.Option(
        ..., help="csv, obo, owl-json, rrf (UMLS, RxNorm), rf2 (SNOMED CT), mesh-xml or taxonomy."
    ),
    language: str | None = typer.Option(
        None, help="Code of the language of names, of rrf and rf2; else all."
    ),
    name: str = typer.Option("", help="Of the terminology; else the directory's."),
    release: str = typer.Option("", help="Its version; else what the file says."),
    licence: str = typer.Option("", help="Its licence; else what the file says."),
) -> None:
    """Index the names of a terminology, so that a pipeline finds them fast.

    A csv file has a header with id and name, and may have synonyms (with | between), type and
    parent.

    Example: python -m spacy biomed terminology build hp.obo terms/hpo --format obo
    """
    from ..terminologies.terminology import build_terminology

    with Console().status("Indexing"):
        meta = build_terminology(
            file,
            output,
            format=format,
            language=language,
            name=name,
            version=release,
            licence=licence,
        )
    typer.echo(f"{meta['concepts']:,} concepts with {meta['names']:,} names")
    typer.echo(f"✔ Wrote {output}")


@terminology.command("link")
def link(
    pipeline: str = typer.Argument(help="Pipeline: a directory or an installed package."),
    output: Path = typer.Argument(help="Directory to write the copy to."),
    terminology: list[str] = typer.Option(
        ..., help="LABEL=DIRECTORY: the terminology of a label's entities, * for all; repeatable."
    ),
    train: list[Path] = typer.Option(
        [], help=".spacy file with identifiers (ent.kb_id_) to train the linker on; repeatable."
    ),
    spans_key: str | None = typer.Option(
        None, help="The entities are in doc.spans[KEY] rather than doc.ents."
    ),
    threshold: float = typer.Option(0.5, min=0.0, max=1.0, help="Smallest probability of a code."),
    beside: bool = typer.Option(
        False, "--beside", help="Leave the terminologies where they are, outside the pipeline."
    ),
) -> None:
    """Write a copy of a pipeline that gives its entities codes.

    Example: python -m spacy biomed terminology link en_biomed_ner linked
    --terminology DISEASE=terms/hpo --train corpus/mynotes/train.spacy
    """
    from ..packaging.copies import link_pipeline

    labels: dict[str, str] = {}
    paths: dict[str, Path] = {}
    for pair in terminology:
        label, folder = split_pair("--terminology", pair, "LABEL=DIRECTORY")
        if label in labels:
            raise BiomedError(f"--terminology {pair}: {label} has another terminology; give one")
        # Overrides of a config have dots between their sections.
        path = Path(folder).resolve()
        labels[label] = name = path.name.replace(".", "_")
        if paths.setdefault(name, path) != path:
            raise BiomedError(f"--terminology {pair}: another directory has this name; rename it")
    with Console().status("Linking"):
        link_pipeline(
            pipeline,
            output,
            paths,
            labels,
            train=train,
            spans_key=spans_key,
            threshold=threshold,
            beside=beside,
        )
    typer.echo(f"✔ Wrote {output}")
