"""`spacy biomed convert-encoder`."""

from __future__ import annotations

from pathlib import Path

import typer


def convert_encoder(
    name: str = typer.Argument(help="Name of the catalogue, hub id, or directory."),
    output: Path = typer.Argument(help="Encoder directory to write."),
    revision: str | None = typer.Option(None, help="Commit, branch or tag on the hub."),
) -> None:
    """Write an encoder that was published as a pickle (pytorch_model.bin) as safetensors.

    Everything else reads safetensors only, because a pickle can hold code. Here nothing but numbers
    is taken from it, and one with code is refused.

    Example: python -m spacy biomed convert-encoder biobert biobert
    """
    from rich.console import Console

    from ..encoders.loading import WEIGHTS, save_encoder
    from ..errors import BiomedError
    from ..outputs import replacing_directory

    try:
        from ..encoders.pickled import read_pickled
    except ImportError as error:
        raise BiomedError(
            f"converting an encoder needs PyTorch and transformers ({error}): "
            "pip install 'spacy-biomed[train]'"
        ) from error
    source = Path(name).expanduser()
    with replacing_directory(output, "spacy biomed convert-encoder", [source]) as partial:
        save_encoder(partial, *read_pickled(name, revision))
        megabytes = (partial / WEIGHTS).stat().st_size / 1e6
    Console().print(
        f"✔ Wrote {output}: {megabytes:.1f} MB of safetensors",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
