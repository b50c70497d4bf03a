import typer


def init_encoder() -> None:
    """Not written yet."""
    raise typer.Exit(1)
