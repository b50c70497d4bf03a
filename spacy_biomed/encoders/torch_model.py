"""A Hugging Face encoder as a thinc model, in PyTorch: `spacy_biomed.TransformerModel.v1`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from spacy.errors import Errors
from spacy.tokens import Doc
from thinc.api import (
    Model,
    Optimizer,
    PyTorchGradScaler,
    PyTorchShim,
    get_torch_default_device,
    torch2xp,
    xp2torch,
)
from thinc.types import Floats2d, Ints1d, Ints2d

from ..errors import BiomedError
from .alignment import align_tokens, ranges
from .encoded import EncodedBatch
from .loading import load_directory, load_pretrained, save_encoder
from .precision import PRECISIONS, Precision, autocast, resolve_precision
from .windows import Windows, batch_by_length, make_windows
from .word_pieces import WordPieces, WordPieceTokenizer

BATCH_PIECES = {True: 1024, False: 16384}  # on a CPU: yes or no


def create_model(
    name: str,
    *,
    revision: str | None,
    precision: Precision,
    window: int,
    context: int,
    batch_pieces: int | None,
    gradient_checkpointing: bool,
) -> Model[list[Doc], EncodedBatch]:
    """Create the model; see `spacy_biomed.encoders.transformer_model` for the settings."""
    if precision not in PRECISIONS:
        raise BiomedError(
            f"unknown precision '{precision}' for encoder '{name}': use one of "
            + ", ".join(PRECISIONS)
        )
    return Model(
        "biomed_transformer",
        forward,
        init=init,
        dims={"nO": None},
        attrs={
            "name": name,
            "revision": revision,
            "window": window,
            "context": context,
            "batch_pieces": batch_pieces,
        },
        shims=[EncoderShim(precision, gradient_checkpointing)],
    )


class EncoderShim(PyTorchShim):
    """Holds the PyTorch encoder and its tokenizer, and steps its optimizer."""

    def __init__(self, precision: Precision, gradient_checkpointing: bool):
        super().__init__(None)
        self.precision = precision
        self.gradient_checkpointing = gradient_checkpointing
        self.tokenizer: WordPieceTokenizer | None = None

    def set_encoder(self, tokenizer: WordPieceTokenizer, encoder: Any) -> None:
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None  # never trained by a listener, and not part of the encoder
        if self.gradient_checkpointing:
            encoder.gradient_checkpointing_enable({"use_reentrant": False})
        device = get_torch_default_device()
        self.tokenizer = tokenizer
        self._model = encoder.to(device)
        self._process = os.getpid()
        self.computes_in = resolve_precision(self.precision, device)
        self._grad_scaler = PyTorchGradScaler(self.computes_in == "fp16")
        self._grad_scaler.to_(device)

    def encode(self, is_train: bool, batches: list[tuple[Ints2d, Ints2d]]) -> list[torch.Tensor]:
        """Last hidden state, (sequences, pieces, width), of each padded batch.

        All word pieces are looked up at once: the gradient of the vocabulary's table is as large
        as the table, and one look-up for each batch would make, fill and add up one for each.

        batches: vocabulary ids and attention mask of each, (sequences, pieces).
        """
        if os.getpid() != self._process:
            # A process of `nlp.pipe`: OpenMP's threads stayed behind, and to wait for them would
            # be for ever.
            torch.set_num_threads(1)
            self._process = os.getpid()
        self._model.train(is_train)
        ids = np.concatenate([ids.ravel() for ids, _ in batches])
        with torch.set_grad_enabled(is_train), autocast(self.computes_in, self.device):
            table = self._model.get_input_embeddings()
            vectors = table(torch.from_numpy(ids).to(self.device))
            return [
                self._model(
                    inputs_embeds=own.view(*ids.shape, -1),
                    attention_mask=torch.from_numpy(mask).to(self.device),
                ).last_hidden_state
                for own, (ids, mask) in zip(
                    vectors.split([ids.size for ids, _ in batches]), batches, strict=True
                )
            ]

    def backward(self, outputs: torch.Tensor, d_outputs: torch.Tensor) -> None:
        if not self._grad_scaler._enabled:
            torch.autograd.backward(outputs, d_outputs)
            return
        torch.autograd.backward(outputs, self._grad_scaler.scale(d_outputs))

    def finish_update(self, optimizer: Optimizer) -> None:
        """Step in PyTorch where the optimizer can, else parameter by parameter through thinc."""
        # Only here, so that the gradients of several batches are unscaled once.
        self._grad_scaler.unscale([p.grad for p in self._model.parameters() if p.grad is not None])
        step_module = getattr(optimizer, "step_module", None)
        if step_module is None:
            super().finish_update(optimizer)
            return
        if not self._grad_scaler.found_inf:
            step_module(self.id, self._model)
        self._model.zero_grad(set_to_none=True)
        self._grad_scaler.update()

    def save(self, path: Path) -> None:
        save_encoder(path, self.tokenizer, self._model)

    def load(self, path: Path) -> None:
        self.set_encoder(*load_directory(path))

    def to_bytes(self) -> bytes:
        import srsly

        if self._model is None:
            return srsly.msgpack_dumps({})
        with tempfile.TemporaryDirectory() as directory:
            self.save(Path(directory))
            files = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
        return srsly.msgpack_dumps(files)

    def from_bytes(self, bytes_data: bytes) -> EncoderShim:
        import srsly

        files = srsly.msgpack_loads(bytes_data)
        if files:
            with tempfile.TemporaryDirectory() as directory:
                for name, content in files.items():
                    (Path(directory) / name).write_bytes(content)
                self.load(Path(directory))
        return self


def init(model: Model, X: Any = None, Y: Any = None) -> Model:
    shim = model.shims[0]
    if shim.tokenizer is None:
        shim.set_encoder(*load_pretrained(model.attrs["name"], model.attrs["revision"]))
    model.set_dim("nO", shim._model.config.hidden_size)
    return model


def max_sequence_length(encoder: Any) -> int:
    """Word pieces, special tokens included, that the encoder's position embeddings cover."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or 512
    embeddings = getattr(encoder, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    # RoBERTa counts positions from one past the padding index.
    return positions if padding is None else positions - padding - 1


def forward(
    model: Model, docs: list[Doc], is_train: bool
) -> tuple[EncodedBatch, Callable[[Floats2d], list]]:
    shim = model.shims[0]
    tokenizer = shim.tokenizer
    if tokenizer is None:
        raise ValueError(Errors.E109.format(name=model.name))
    pieces = tokenizer([doc.text for doc in docs])
    indices, piece_counts, token_counts = align_tokens(docs, pieces)
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    # A document without tokens has no rows; one of white space has its special tokens.
    row_counts = np.where(token_counts > 0, pieces.lengths + around, 0)
    hidden = _encode(model, pieces, row_counts, is_train)
    batch = EncodedBatch(
        hidden=torch2xp(hidden.detach()),
        ids=_rows_of_ids(tokenizer, pieces, row_counts),
        indices=indices + len(tokenizer.prefix),
        piece_counts=piece_counts,
        row_counts=row_counts,
        token_counts=token_counts,
        id_to_token=tokenizer.tokenizer.id_to_token,
    )

    def backprop(d_hidden: Floats2d) -> list:
        if hidden.requires_grad:
            shim.backward(hidden, xp2torch(d_hidden, device=hidden.device))
        return []

    return batch, backprop


def _rows_of_ids(tokenizer: WordPieceTokenizer, pieces: WordPieces, row_counts: Ints1d) -> Ints1d:
    """Vocabulary ids with each document's special tokens around them: (rows,)."""
    prefix, suffix = len(tokenizer.prefix), len(tokenizer.suffix)
    ids = np.empty(int(row_counts.sum()), dtype="int64")
    ends = np.cumsum(row_counts)[row_counts > 0]
    starts = ends - row_counts[row_counts > 0]
    ids[(starts[:, None] + np.arange(prefix)).ravel()] = np.tile(tokenizer.prefix, len(starts))
    ids[(ends[:, None] - suffix + np.arange(suffix)).ravel()] = np.tile(tokenizer.suffix, len(ends))
    ids[ranges(starts + prefix, ends - starts - prefix - suffix)] = pieces.ids
    return ids


def _encode(model: Model, pieces: WordPieces, row_counts: Ints1d, is_train: bool) -> torch.Tensor:
    """Encode all rows of the batch: (rows, width), fp32, on the encoder's device."""
    shim = model.shims[0]
    tokenizer = shim.tokenizer
    around = len(tokenizer.prefix) + len(tokenizer.suffix)
    limit = min(model.attrs["window"], max_sequence_length(shim._model))
    capacity = limit - around
    if capacity < 1:
        raise BiomedError(
            f"window = {limit} leaves no room for word pieces beside {around} special tokens: "
            "make it larger"
        )
    context = min(model.attrs["context"], (capacity - 1) // 2)
    # The special tokens travel with the pieces: a window's rows are contiguous.
    windows = _with_special_rows(pieces.lengths, row_counts, capacity, context)
    lengths = windows.end - windows.start + around
    budget = model.attrs["batch_pieces"] or BATCH_PIECES[shim.device.type == "cpu"]
    batches = [
        _sequence_batch(tokenizer, pieces, row_counts, windows, chosen)
        for chosen in batch_by_length(lengths, budget)
    ]
    if not batches:
        return torch.zeros((0, model.get_dim("nO")), device=shim.device)
    encoded = shim.encode(is_train, [(ids, mask) for ids, mask, _, _ in batches])
    outputs = [
        hidden.reshape(-1, hidden.shape[-1])[torch.from_numpy(source).to(shim.device)]
        for hidden, (_, _, source, _) in zip(encoded, batches, strict=True)
    ]
    order = np.argsort(np.concatenate([target for *_, target in batches]), kind="stable")
    return torch.cat(outputs).float()[torch.from_numpy(order).to(shim.device)]


def _with_special_rows(lengths: Ints1d, row_counts: Ints1d, capacity: int, context: int) -> Windows:
    """Windows of all documents that have rows; white space alone makes an empty window."""
    windows = make_windows(lengths, capacity, context)
    blank = np.flatnonzero((row_counts > 0) & (lengths == 0))
    if len(blank) == 0:
        return windows
    zeros = np.zeros(len(blank), dtype="int64")
    doc = np.concatenate([windows.doc, blank])
    return Windows(
        doc,
        *(
            np.concatenate([field, zeros])
            for field in (windows.start, windows.end, windows.keep_start, windows.keep_end)
        ),
    )


def _sequence_batch(
    tokenizer: WordPieceTokenizer,
    pieces: WordPieces,
    row_counts: Ints1d,
    windows: Windows,
    chosen: Ints1d,
) -> tuple[Ints2d, Ints2d, Ints1d, Ints1d]:
    """Fill one padded batch.

    RETURNS: vocabulary ids and attention mask, (sequences, pieces) each; the kept positions in the
        flattened batch; and the rows of the document batch that these fill.
    """
    prefix, suffix = np.array(tokenizer.prefix), np.array(tokenizer.suffix)
    before, after = len(prefix), len(suffix)
    doc, start, end = windows.doc[chosen], windows.start[chosen], windows.end[chosen]
    sizes = end - start
    longest = int(sizes.max()) + before + after
    sequences = np.arange(len(chosen))
    ids = np.full((len(chosen), longest), tokenizer.pad, dtype="int64")
    ids[:, :before] = prefix
    piece_offsets = np.cumsum(pieces.lengths) - pieces.lengths
    columns = ranges(np.full(len(chosen), before), sizes)
    ids[np.repeat(sequences, sizes), columns] = pieces.ids[
        ranges(piece_offsets[doc] + start, sizes)
    ]
    for i in range(after):
        ids[sequences, before + sizes + i] = suffix[i]
    mask = np.arange(longest) < (sizes + before + after)[:, None]
    # The first window of a document keeps the special tokens before it, the last those after it.
    is_first, is_last = start == 0, end == pieces.lengths[doc]
    keep_start = windows.keep_start[chosen] + np.where(is_first, 0, before)
    keep_end = windows.keep_end[chosen] + before + np.where(is_last, after, 0)
    kept = keep_end - keep_start
    row_offsets = np.cumsum(row_counts) - row_counts
    source = ranges(sequences * longest + keep_start - start, kept)
    target = ranges(row_offsets[doc] + keep_start, kept)
    return ids, mask.astype("int64"), source, target
