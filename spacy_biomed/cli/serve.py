"""`spacy biomed serve`."""

import os
from pathlib import Path

import typer

from ..errors import BiomedError
from ._shared import options

TOKEN_VARIABLE = "SPACY_BIOMED_TOKEN"
SHORTEST_TOKEN = 16


def serve(
    pipeline: str = typer.Argument(help="Installed package or pipeline directory."),
    host: str = typer.Option("127.0.0.1", help="IP address to listen on; by default loopback."),
    port: int = typer.Option(8000, min=0, max=65535, help="TCP port; 0 for a free one."),
    allow_host: list[str] = typer.Option(
        [], help="Another name by which requests may call this server; repeatable."
    ),
    token_file: Path = typer.Option(
        None, help=f"File with the token that requests must send; else {TOKEN_VARIABLE}."
    ),
    max_characters: int = typer.Option(100_000, min=1, help="Characters of a text."),
    max_documents: int = typer.Option(1_000, min=1, help="Documents of a request."),
    max_body: int = typer.Option(5_000_000, min=1, help="Bytes of a request."),
    max_waiting: int = typer.Option(1_000, min=1, help="Documents that wait; then 429."),
    timeout: float = typer.Option(60.0, callback=options.above_zero, help="Seconds for a request."),
    max_wait: float = typer.Option(
        10.0, callback=options.above_zero, help="Seconds that a request waits its turn; then 429."
    ),
    batch_size: int = typer.Option(64, min=1, help="Documents of a batch."),
) -> None:
    """Annotate and de-identify texts over HTTP.

    Concurrent requests are annotated together. The paths are /annotate, /annotate/batch,
    /deidentify, /deidentify/batch, /health, /openapi.json, and / for a page to paste a text into.
    The log has no texts. Without --host, only programs of this machine can connect.

    Example: python -m spacy biomed serve en_biomed_ner
    """
    from ..serving.batching import ServerLimits
    from ..serving.server import serve_pipeline

    limits = ServerLimits(
        max_characters=max_characters,
        max_documents=min(max_documents, max_waiting),
        max_body=max_body,
        max_waiting=max_waiting,
        timeout=timeout,
        max_wait=max_wait,
        batch_documents=batch_size,
    )
    token = _read_token(token_file)

    def show(address: str, is_loopback: bool) -> None:
        typer.echo(f"✔ {pipeline} at {address} (end with Ctrl+C)")
        if not is_loopback and token is None:
            typer.echo("⚠ Whoever reaches this address can use it: give --token-file")

    serve_pipeline(
        pipeline, host, port, limits=limits, hosts=allow_host, token=token, on_start=show
    )


def _read_token(file: Path | None) -> str | None:
    """The token of the file, or else of the environment variable; None if there is neither."""
    from ..deidentification.vault import read_secret

    where = TOKEN_VARIABLE if file is None else str(file)
    token = os.environ.get(TOKEN_VARIABLE) if file is None else read_secret(file, "token")
    if token is None:
        return None
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
        raise BiomedError(
            f"{where}: the token must have at least {SHORTEST_TOKEN} printable ASCII characters, "
            'such as `python -c "import secrets; print(secrets.token_urlsafe())"` prints'
        )
    return token
