import typer


def corpora() -> None:
    """Not written yet."""
    raise typer.Exit(1)
