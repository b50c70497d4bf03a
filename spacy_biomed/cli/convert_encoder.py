"""`spacy biomed convert-encoder`."""

from __future__ import annotations

from pathlib import Path

import typer

from ..files.outputs import replacing_directory
from ._shared.bad_input import importing_extra


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
