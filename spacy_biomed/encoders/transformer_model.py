"""`spacy_biomed.TransformerModel.v1`, registered even if PyTorch is not installed."""

from importlib import import_module

from spacy.tokens import Doc
from thinc.api import Model

from ..errors import BiomedError, install_command
from .batching.encoded import EncodedBatch
from .batching.pair_pieces import PairOverflow
from .encoder_model import check_at_least
from .listener import refuse_replacement
from .torch.precision import Precision


def TransformerModel_v1(
    name: str,
    revision: str | None = None,
    precision: Precision = "auto",
    window: int = 512,
    context: int = 64,
    batch_pieces: int | None = None,
    gradient_checkpointing: bool = False,
    dropout: float | None = None,
    word_piece_dropout: float = 0.0,
    pair_overflow: PairOverflow = "truncate",
    normalize: bool = False,
    accents: bool = True,
) -> Model[list[Doc], EncodedBatch]:
    """A pretrained transformer encoder, fine-tuned with the components that listen to it.

    Args:
        name: a name from the encoder catalogue (`python -m spacy biomed encoders`), a hub id, or a
            directory in Hugging Face layout. Read when the pipeline is initialised; a saved
            pipeline contains its weights.
        revision: commit, tag or branch on the hub; by default the one the catalogue pins.
        precision: "fp32", "bf16", "fp16", or "auto", which is bf16 if this machine computes it
            faster. Weights are always kept and updated in fp32. "fp16" is for GPUs; on a CPU it
            means "auto".
        window: word pieces, special tokens included, that the encoder sees at once; at most the
            number that its position embeddings cover. Longer documents are read in overlapping
            windows.
        context: word pieces on each side of a window that serve only as context; at most a quarter
            of the window's.
        batch_pieces: padded word pieces in one forward pass, with sequences of similar length
            together; by default 1,024 on a CPU and 16,384 on a GPU.
        gradient_checkpointing: recompute activations in the backward pass instead of keeping them.
        dropout: dropout probability in all layers of the encoder in training; by default that of
            its config.json, usually 0.1. `training.dropout` applies to the heads.
        word_piece_dropout: share of the word pieces that are replaced by the mask token in
            training, so that heads learn from the context of a word too.
        pair_overflow: how to handle a pair of texts that is longer than `window`. "truncate" leaves
            out the end of the longer text, and once both are equally long of both; words left out
            have no vectors. "window" reads the second text in windows, each with the whole first
            text.
        normalize: whether texts are read as `normalization.normalize_text` has them: without
            capitals of whole lines, typographic hyphens and runs of spaces. Heads read the same
            words. Offsets stay those of the document.
        accents: whether letters keep their accents. If not, heads read words without them too, and
            the vocabulary of the encoder loses its own when it is first read
            (`casing.fold_accents`): a text without accents is read as one with them.

    Raises:
        BiomedError: without the packages of the extra `train`, or if a setting is out of range.
    """
    try:
        torch_model = import_module(".torch.torch_model", __package__)
    except ImportError as error:
        raise BiomedError(
            f"'spacy_biomed.TransformerModel.v1' needs PyTorch and transformers ({error}): "
            + install_command("train")
        ) from error
    check_at_least(0, context=context)
    check_at_least(1, batch_pieces=batch_pieces)
    for setting, share in (("dropout", dropout), ("word_piece_dropout", word_piece_dropout)):
        if share is not None and not 0.0 <= share < 1.0:
            raise BiomedError(f"{setting} of encoder '{name}' is {share}: use 0.0 to less than 1.0")
    shim = torch_model.EncoderShim(precision, gradient_checkpointing, word_piece_dropout)
    attrs = {
        "name": name,
        "revision": revision,
        "dropout": dropout,
        "window": window,
        "context": context,
        "batch_pieces": batch_pieces,
        "pair_overflow": pair_overflow,
        "normalize": normalize,
        "accents": accents,
        "replace_listener_cfg": refuse_replacement,
    }
    forward, init = torch_model.forward, torch_model.init
    return Model(
        "biomed_transformer", forward, init=init, dims={"nO": None}, attrs=attrs, shims=[shim]
    )
