"""What the models of both encoders share, and what is known of transformers' encoders."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import srsly
from spacy.errors import Errors
from spacy.tokens import Doc
from thinc.api import Model, PyTorchShim

from ..errors import BiomedError
from .batching.encoded import EncodedBatch
from .batching.sequences import SequenceBatch, make_sequences

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel


def read_documents(
    model: Model, docs: list[Doc], is_train: bool, budget: int | None = None
) -> tuple[list[SequenceBatch], EncodedBatch]:
    """The sequences of documents, by the settings of the model; see `make_sequences`."""
    shim = model.shims[0]
    if shim.tokenizer is None:
        raise ValueError(Errors.E109.format(name=model.name))
    return make_sequences(
        docs,
        shim.tokenizer,
        window=min(model.attrs["window"], shim.longest),
        context=model.attrs["context"],
        budget=budget or model.attrs["batch_pieces"] or shim.batch_pieces,
        pair_overflow=model.attrs["pair_overflow"],
        normalize=model.attrs["normalize"],
        # Training batches are small and of mixed lengths; in prediction there is little padding.
        share_lines=is_train and shim.can_pack,
    )


def check_at_least(least: int, **settings: int | None) -> None:
    """Raise BiomedError if one of an encoder's settings is lower; None is a default."""
    for name, number in settings.items():
        if number is not None and number < least:
            raise BiomedError(f"{name} = {number} of an encoder: use {least} or more")


def unpack_files(data: bytes, names: Collection[str]) -> dict[str, bytes]:
    """The content of these files, or of none, by name, from what an encoder's `to_bytes` gave."""
    try:
        files = srsly.msgpack_loads(data)
    except Exception:  # whatever MessagePack and the decoders registered for it raise
        files = None
    is_whole = isinstance(files, dict) and (not files or files.keys() == set(names))
    if not is_whole or not all(isinstance(content, bytes) for content in files.values()):
        raise BiomedError(
            "the bytes of this pipeline's encoder are damaged or are not those of the files "
            f"{', '.join(names)}; nothing was written: make them with `nlp.to_bytes()`"
        )
    return files


def max_sequence_length(encoder: PreTrainedModel) -> int:
    """Maximum word pieces, special tokens included, that the position embeddings cover."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or -1  # -1: of XLNet
    return (positions if positions > 0 else 512) - first_position(encoder)


def first_position(encoder: PreTrainedModel) -> int:
    """The number of a sequence's first position: RoBERTa counts from one past the padding index."""
    embeddings = getattr(encoder, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def drop_pooler(model: PreTrainedModel) -> None:
    """Leave out the pooling layer, which is not part of an encoder; some models still call it."""
    from torch.nn import Identity

    if getattr(model, "pooler", None) is not None:
        model.pooler = Identity()


def attention_implementation(config: PretrainedConfig) -> str:
    """How an encoder computes attention, such as "sdpa" or "eager"; or a kernel on the hub."""
    return str(config._attn_implementation)


def count_segments(encoder: PreTrainedModel) -> int:
    """Number of segments (token types) that the encoder distinguishes; 0 without embeddings."""
    table = getattr(getattr(encoder, "embeddings", None), "token_type_embeddings", None)
    return getattr(table, "num_embeddings", 0)


# What thinc's PyTorch layers have in private attributes only.


def get_module(shim: PyTorchShim) -> torch.nn.Module:
    """The PyTorch module of a layer; None before it is created."""
    return shim._model


def get_loss_scale(shim: PyTorchShim) -> tuple[torch.Tensor, torch.Tensor] | None:
    """By how much fp16 training scales losses, and for how many steps it has.

    These are two tensors of one number, which may be written to; None if losses are not scaled.
    """
    scaler = shim._grad_scaler
    return (scaler._scale, scaler._growth_tracker) if scaler._enabled else None
