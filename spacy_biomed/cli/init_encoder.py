"""`spacy biomed init-encoder`."""

from pathlib import Path

import typer


def init_encoder(
    corpora: list[Path] = typer.Argument(help="Converted corpora (.spacy) to learn from."),
    output: Path = typer.Option(..., "--output", "-o", help="Encoder directory to write."),
    vocabulary: int = typer.Option(4000, help="Largest number of word pieces."),
    layers: int = typer.Option(2, help="Transformer layers."),
    width: int = typer.Option(128, help="Width of the hidden states."),
    heads: int = typer.Option(4, help="Attention heads."),
    lowercase: bool = typer.Option(False, "--lowercase", help="Fold case and accents."),
    seed: int = typer.Option(0, help="Seed of the initial weights."),
) -> None:
    """Make a small encoder from texts alone: vocabulary learned, weights initialised.

    It knows nothing yet: a pretrained encoder does far better wherever one is at hand.

    Example: python -m spacy biomed init-encoder corpus/starter_en/train.spacy -o encoders/mine
    """
    import spacy
    from spacy.tokens import DocBin
    from wasabi import msg

    from ..errors import BiomedError
    from ..language_models.initialization import create_encoder

    vocab = spacy.blank("xx").vocab
    texts: list[str] = []
    for path in corpora:
        if not path.is_file():
            raise BiomedError(f"{path}: no such file; `python -m spacy biomed convert` makes it")
        texts.extend(doc.text for doc in DocBin().from_disk(path).get_docs(vocab))
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
