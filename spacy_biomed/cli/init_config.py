"""`spacy biomed init-config`."""

from pathlib import Path

import typer


def init_config(
    template: Path = typer.Argument(help="Template, such as configs/ner.cfg."),
    corpus: Path = typer.Argument(help="Folder that `spacy biomed convert` wrote."),
    output: Path = typer.Argument(help="Config to write, for `spacy train`."),
    encoder: str = typer.Option(..., help="Catalogue name, hub id or directory."),
    epochs: int = typer.Option(10, min=1, help="Passes over the training part."),
    batch_words: int = typer.Option(None, min=1, help="Tokens in a batch; else the template's."),
    learn_rate: float = typer.Option(None, help="Highest learning rate; else the template's."),
    seed: int = typer.Option(0, help="Seed of everything random."),
) -> None:
    """Write the training config of one corpus and one encoder.

    Example: python -m spacy biomed init-config configs/ner.cfg corpus/ncbi_disease ncbi.cfg
    --encoder biobert --epochs 10
    """
    from wasabi import msg

    from ..outputs import replacing_file
    from ..training.config import fill_config

    config = fill_config(
        template,
        corpus,
        encoder=encoder,
        epochs=epochs,
        batch_words=batch_words,
        learn_rate=learn_rate,
        seed=seed,
    )
    with replacing_file(output) as partial:
        config.to_disk(partial)
    steps = config["vars"]["max_steps"]
    msg.good(f"{output}: {steps} steps, {epochs} epochs of {steps // epochs}")
