"""`spacy biomed pull`."""

from pathlib import Path

import typer

from ..errors import BiomedError, quote


def pull(
    source: str = typer.Argument(
        metavar="REPO_ID@REVISION", help="Repository on the hub, and the hash of a commit."
    ),
    output: Path = typer.Argument(help="Directory to write the pipeline to."),
) -> None:
    """Download a pipeline from the Hugging Face Hub, and check its files. It is not loaded.

    Example: python -m spacy biomed pull
    me/en_ncbi_disease@0123456789abcdef0123456789abcdef01234567 pipelines/ncbi_disease
    """
    from ..packaging.hub import pull_pipeline

    repo_id, sign, revision = source.partition("@")
    if not (repo_id and sign):
        raise BiomedError(f"{quote(source)}: write REPO_ID@REVISION, with the hash of a commit")
    meta = pull_pipeline(repo_id, revision, output)
    typer.echo(f"✔ {output}: {meta['lang']}_{meta['name']} {meta['version']}, files as listed")
