import typer


def convert() -> None:
    """Not written yet."""
    raise typer.Exit(1)
