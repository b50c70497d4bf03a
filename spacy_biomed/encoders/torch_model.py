"""A Hugging Face encoder as a thinc model, in PyTorch: `spacy_biomed.TransformerModel.v1`."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from thinc.types import Floats2d, Ints2d

from ..errors import BiomedError
from .concurrency import map_concurrently
from .dropout import use_byte_dropout
from .encoded import EncodedBatch
from .loading import load_directory, load_pretrained, save_encoder
from .precision import PRECISIONS, Precision, autocast, resolve_precision
from .sequences import Sequences, make_sequences
from .word_pieces import WordPieceTokenizer

GPU_BATCH_PIECES = 16384
CPU_BATCH_PIECES = {True: 512, False: 1024}  # in training: yes or no


def create_model(
    name: str,
    *,
    revision: str | None,
    precision: Precision,
    window: int,
    context: int,
    batch_pieces: int | None,
    gradient_checkpointing: bool,
    word_piece_dropout: float,
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
        shims=[EncoderShim(precision, gradient_checkpointing, word_piece_dropout)],
    )


class EncoderShim(PyTorchShim):
    """Holds the PyTorch encoder and its tokenizer, and steps its optimizer."""

    def __init__(
        self, precision: Precision, gradient_checkpointing: bool, word_piece_dropout: float = 0.0
    ):
        super().__init__(None)
        self.word_piece_dropout = word_piece_dropout
        self.precision = precision
        self.gradient_checkpointing = gradient_checkpointing
        self.tokenizer: WordPieceTokenizer | None = None

    def set_encoder(self, tokenizer: WordPieceTokenizer, encoder: Any) -> None:
        if getattr(encoder, "pooler", None) is not None:
            encoder.pooler = None  # never trained by a listener, and not part of the encoder
        if self.gradient_checkpointing:
            encoder.gradient_checkpointing_enable({"use_reentrant": False})
        if self.word_piece_dropout and tokenizer.mask is None:
            raise BiomedError(
                "word_piece_dropout needs a mask token, and this encoder's vocabulary has none: "
                "set it to 0.0"
            )
        device = get_torch_default_device()
        if device.type == "cpu":
            use_byte_dropout(encoder)
        self.tokenizer = tokenizer
        self._model = encoder.to(device)
        self._process = os.getpid()
        self._linear_parameters = [
            parameter
            for module in encoder.modules()
            if isinstance(module, torch.nn.Linear)
            for parameter in module.parameters()
        ]
        self._cast: torch.nn.Module | None = None
        self._cast_of: list[tuple[int, int]] = []
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
        if self._model.training != is_train:  # it visits every module
            self._model.train(is_train)
        ids = torch.from_numpy(np.concatenate([ids.ravel() for ids, _ in batches]))
        if is_train and self.word_piece_dropout:
            ids = self._drop_word_pieces(ids)
        encoder = self._model if is_train else self._predictor()

        def run(batch: tuple[torch.Tensor, Ints2d]) -> torch.Tensor:
            vectors, mask = batch
            # Both of these are each thread's own.
            with torch.set_grad_enabled(is_train), autocast(self.computes_in, self.device):
                return encoder(
                    inputs_embeds=vectors,
                    attention_mask=torch.from_numpy(mask).to(self.device),
                ).last_hidden_state

        with torch.set_grad_enabled(is_train):
            vectors = self._model.get_input_embeddings()(ids.to(self.device))
        parts = vectors.split([ids.size for ids, _ in batches])
        padded = [
            (own.view(*ids.shape, -1), mask)
            for own, (ids, mask) in zip(parts, batches, strict=True)
        ]
        threads = torch.get_num_threads()
        if is_train or len(batches) == 1 or threads == 1 or self.device.type != "cpu":
            return [run(batch) for batch in padded]
        return map_on_single_threads(run, padded, threads)

    def _predictor(self) -> torch.nn.Module:
        """The encoder to predict with: weights of linear layers as autocast would cast them.

        Cast once, and again after they have changed, not for every call; all else is shared.
        """
        if self.computes_in == "fp32" or self.device.type != "cpu":
            return self._model
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.computes_in]
        own = self._linear_parameters
        state = [(parameter.data_ptr(), parameter._version) for parameter in own]
        if self._cast is None or self._cast_of != state:
            memo = {id(one): one for one in (*self._model.parameters(), *self._model.buffers())}
            for one in own:
                cast = torch.nn.Parameter(one.detach().to(dtype), requires_grad=False)
                memo[id(one)] = cast
            self._cast, self._cast_of = copy.deepcopy(self._model, memo).eval(), state
        return self._cast

    def _drop_word_pieces(self, ids: torch.Tensor) -> torch.Tensor:
        """Put the mask token in place of a share of the word pieces, never of special tokens."""
        tokenizer = self.tokenizer
        special = torch.tensor([*tokenizer.prefix, *tokenizer.suffix, tokenizer.pad])
        dropped = torch.rand(ids.shape) < self.word_piece_dropout
        return torch.where(dropped & ~torch.isin(ids, special), tokenizer.mask, ids)

    def backward(self, outputs: torch.Tensor, d_outputs: torch.Tensor) -> None:
        if not self._grad_scaler._enabled:
            torch.autograd.backward(outputs, d_outputs)
            return
        torch.autograd.backward(outputs, self._grad_scaler.scale(d_outputs))

    def finish_update(self, optimizer: Optimizer) -> None:
        """Step in PyTorch where the optimizer can, else parameter by parameter through thinc."""
        # Only here, so that the gradients of several batches are unscaled once.
        self._grad_scaler.unscale([p.grad for p in self._model.parameters() if p.grad is not None])
        self._cast = None  # fused optimizers change weights without a trace in their versions
        step_module = getattr(optimizer, "step_module", None)
        if step_module is None:
            super().finish_update(optimizer)
            return
        if not self._grad_scaler.found_inf:
            step_module(self.id, self._model)
        self._model.zero_grad(set_to_none=True)
        self._grad_scaler.update()

    @contextmanager
    def use_params(self, params: dict[Any, Any]) -> Iterator[None]:
        """Compute with other weights for a while, such as an optimizer's averages.

        params: arrays by this shim's id and the parameter's name; what is missing stays.
        """
        chosen = {
            parameter: params[self.id, name]
            for name, parameter in (self._model.named_parameters() if self._model else ())
            if (self.id, name) in params
        }
        own = {parameter: parameter.detach().clone() for parameter in chosen}
        try:
            with torch.no_grad():
                for parameter, value in chosen.items():
                    parameter.copy_(xp2torch(value, device=parameter.device))
            yield
        finally:
            with torch.no_grad():
                for parameter, value in own.items():
                    parameter.copy_(value)

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


def map_on_single_threads(
    function: Callable[[Any], torch.Tensor], items: list[Any], threads: int
) -> list[torch.Tensor]:
    """The function's results, so many computed at a time, each on one of PyTorch's threads."""

    def run(item: Any) -> torch.Tensor:
        torch.set_num_threads(1)  # of this thread, and of those that have not asked yet
        return function(item)

    results = map_concurrently(run, items, threads)
    torch.set_num_threads(threads)
    return results


def max_sequence_length(encoder: Any) -> int:
    """Word pieces, special tokens included, that the encoder's position embeddings cover."""
    positions = getattr(encoder.config, "max_position_embeddings", None) or 512
    embeddings = getattr(encoder, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    # RoBERTa counts positions from one past the padding index.
    return positions if padding is None else positions - padding - 1


def default_batch_pieces(device: torch.device, is_train: bool) -> int:
    """Padded word pieces in a forward pass; on a CPU, those measured to be fastest."""
    return CPU_BATCH_PIECES[is_train] if device.type == "cpu" else GPU_BATCH_PIECES


def forward(
    model: Model, docs: list[Doc], is_train: bool
) -> tuple[EncodedBatch, Callable[[Floats2d], list]]:
    shim = model.shims[0]
    if shim.tokenizer is None:
        raise ValueError(Errors.E109.format(name=model.name))
    sequences = make_sequences(
        docs,
        shim.tokenizer,
        window=min(model.attrs["window"], max_sequence_length(shim._model)),
        context=model.attrs["context"],
        budget=model.attrs["batch_pieces"] or default_batch_pieces(shim.device, is_train),
    )
    hidden = _encode(model, sequences, is_train)

    def backprop(d_hidden: Floats2d) -> list:
        if hidden.requires_grad:
            shim.backward(hidden, xp2torch(d_hidden, device=hidden.device))
        return []

    return sequences.encoded(torch2xp(hidden.detach()), shim.tokenizer), backprop


def _encode(model: Model, sequences: Sequences, is_train: bool) -> torch.Tensor:
    """Encode all rows of the batch: (rows, width), fp32, on the encoder's device."""
    shim = model.shims[0]
    batches = sequences.batches
    if not batches:
        return torch.zeros((0, model.get_dim("nO")), device=shim.device)
    encoded = shim.encode(is_train, [(batch.ids, batch.mask) for batch in batches])
    outputs = [
        hidden.reshape(-1, hidden.shape[-1])[torch.from_numpy(batch.kept).to(shim.device)]
        for hidden, batch in zip(encoded, batches, strict=True)
    ]
    return torch.cat(outputs).float()[torch.from_numpy(sequences.order()).to(shim.device)]
