"""`spacy biomed init-encoder`."""

from pathlib import Path

import typer


def init_encoder(
    corpora: list[Path] = typer.Argument(help="Converted corpora (.spacy) to learn from."),
    output: Path = typer.Option(..., "--output", "-o", help="Encoder directory to write."),
    vocabulary: int = typer.Option(4000, min=1, help="Largest number of word pieces."),
    layers: int = typer.Option(2, min=1, help="Transformer layers."),
    width: int = typer.Option(128, min=1, help="Width of the hidden states."),
    heads: int = typer.Option(4, min=1, help="Attention heads."),
    lowercase: bool = typer.Option(False, "--lowercase", help="Fold case and accents."),
    seed: int = typer.Option(0, help="Seed of the initial weights."),
) -> None:
    """Make a small encoder from texts alone: vocabulary learned, weights initialised.

    It knows nothing yet: a pretrained encoder does far better wherever one is at hand.

    Example: python -m spacy biomed init-encoder corpus/starter_en/train.spacy -o encoders/mine
    """
    from spacy.vocab import Vocab
    from wasabi import msg

    from ..language_models.initialization import create_encoder
    from ..training.corpus import read_docs

    vocab = Vocab()
    texts = [doc.text for path in corpora for doc in read_docs(path, vocab)]
    parameters = create_encoder(
        texts,
        output,
        vocabulary=vocabulary,
        layers=layers,
        width=width,
        heads=heads,
        lowercase=lowercase,
        seed=seed,
    )
    msg.good(f"{output}: {parameters / 1e6:.2f} million parameters, {len(texts)} texts read")
