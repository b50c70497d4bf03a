"""A Hugging Face encoder as a thinc model, in PyTorch: `spacy_biomed.TransformerModel.v1`."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
import srsly
import torch
import transformers
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

from ...arrays import Floats2d, FloatsXd
from ...errors import BiomedError
from .. import encoder_model
from ..batching.concurrency import map_concurrently
from ..batching.encoded import EncodedBatch
from ..batching.sequences import SequenceBatch
from ..batching.word_piece_tokenizer import WordPieceTokenizer
from ..casing import fold_accents
from ..finite import check_scores
from ..loading import FILES, load_directory, load_pretrained, save_encoder
from .dropout import use_byte_dropout
from .precision import Precision, autocast, resolve_precision

# Whether a three-dimensional mask has a value for each pair of positions.
TAKES_MASKS_OF_PAIRS = int(transformers.__version__.partition(".")[0]) < 5

# Encoders whose attention takes a mask for every pair of positions, and which take position ids.
# DistilBERT takes no position ids. ModernBERT makes the mask of its local attention from a mask of
# padding, and with transformers 4 takes no other.
PACKING_MODEL_TYPES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
PACKING_ATTENTION = ("eager", "sdpa")

# Padded word pieces per forward pass; on a CPU, the fastest number measured.
CPU_BATCH_PIECES, GPU_BATCH_PIECES = 1024, 16384


class EncoderShim(PyTorchShim):
    """The PyTorch encoder and its tokenizer; also steps the optimizer."""

    def __init__(
        self, precision: Precision, gradient_checkpointing: bool, word_piece_dropout: float
    ):
        super().__init__(None)
        self.word_piece_dropout = word_piece_dropout
        self.precision = precision
        self.gradient_checkpointing = gradient_checkpointing
        self.tokenizer: WordPieceTokenizer | None = None

    def set_encoder(self, tokenizer: WordPieceTokenizer, encoder: torch.nn.Module) -> None:
        encoder_model.drop_pooler(encoder)
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
        self._weights = list(encoder.parameters())
        self._casts = LinearCasts(self._model)
        self._table_gradient: torch.Tensor | None = None
        self.computes_in = resolve_precision(self.precision, device)
        self._grad_scaler = PyTorchGradScaler(self.computes_in == "fp16")
        self._grad_scaler.to_(device)

    @property
    def longest(self) -> int:
        """Word pieces, special tokens included, that the encoder can read at once."""
        return encoder_model.max_sequence_length(self._model)

    @property
    def batch_pieces(self) -> int:
        """Padded word pieces of a forward pass, if the settings do not say."""
        return CPU_BATCH_PIECES if self.device.type == "cpu" else GPU_BATCH_PIECES

    @property
    def can_pack(self) -> bool:
        """Whether sequences in one line can be kept from attending to each other."""
        config = self._model.config
        attention = encoder_model.attention_implementation(config)
        return config.model_type in PACKING_MODEL_TYPES and attention in PACKING_ATTENTION

    def encode(self, batches: list[SequenceBatch]) -> list[torch.Tensor]:
        """Vectors of the kept positions, (kept, width), of each padded batch.

        On a CPU several batches are computed in parallel, each on one thread.
        """
        self._enter_process()
        encoder = self._encoder(is_train=False)
        table = self._model.get_input_embeddings()

        before = torch.get_num_threads()
        threads = min(before, len(batches)) if self.device.type == "cpu" else 1

        def run(batch: SequenceBatch) -> torch.Tensor:
            if threads > 1:
                torch.set_num_threads(1)  # for this thread, and for threads that have not read it
            with torch.no_grad(), autocast(self.computes_in, self.device):
                vectors = table(torch.from_numpy(batch.ids).to(self.device))
                return self._kept(encoder, vectors, batch)

        if threads == 1:
            return list(map(run, batches))
        try:
            return map_concurrently(run, batches, threads)
        finally:
            torch.set_num_threads(before)

    def begin_update(
        self, batches: list[SequenceBatch]
    ) -> tuple[list[torch.Tensor], Callable[[list[torch.Tensor]], None]]:
        """Encode in training: the result of `encode`, and a callback for its gradient."""
        self._enter_process()
        encoder = self._encoder(is_train=True)
        # The graph starts with the rows of the embedding table in use: a gradient of the whole
        # table would be as large as the table.
        table = self._model.get_input_embeddings()
        ids = torch.from_numpy(np.concatenate([batch.ids.ravel() for batch in batches]))
        if self.word_piece_dropout:
            ids = self._drop_word_pieces(ids)
        pieces, places = (found.to(self.device) for found in torch.unique(ids, return_inverse=True))
        rows = table.weight.detach()[pieces].requires_grad_(table.weight.requires_grad)
        outputs = []
        with torch.enable_grad(), autocast(self.computes_in, self.device):
            parts = places.split([batch.ids.size for batch in batches])
            for batch, part in zip(batches, parts, strict=True):
                vectors = torch.nn.functional.embedding(part, rows).view(*batch.ids.shape, -1)
                outputs.append(self._kept(encoder, vectors, batch))

        # Each trained weight with its copy, which is the weight itself where nothing was cast.
        computed = self._weights if encoder is self._model else self._casts.weights
        trained = [
            (own, copied)
            for own, copied in zip(self._weights, computed, strict=True)
            if copied.requires_grad and own is not table.weight
        ]

        def backprop(d_outputs: list[torch.Tensor]) -> None:
            inputs = [copied for _, copied in trained] + [rows] * rows.requires_grad
            if not inputs:
                return
            d_outputs = [self._grad_scaler.scale(d_output) for d_output in d_outputs]
            torch.autograd.backward(outputs, d_outputs, inputs=inputs)
            outputs.clear()  # which releases the graph
            for own, copied in trained:
                if copied is not own and copied.grad is not None:
                    if own.grad is None:
                        own.grad = copied.grad.to(own.dtype, copy=True)
                    else:
                        own.grad.add_(copied.grad)
                    copied.grad = None
            if rows.grad is not None:
                self._add_to_table(table, pieces, rows.grad)

        return [output.detach() for output in outputs], backprop

    def _add_to_table(
        self, table: torch.nn.Embedding, ids: torch.Tensor, gradient: torch.Tensor
    ) -> None:
        """Add the gradient of some rows, (ids, width), to that of the embedding table.

        Its memory is used again in every step: to allocate it takes a tenth of one.
        """
        weight, memory = table.weight, self._table_gradient
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight) if memory is None else memory.zero_()
            self._table_gradient = weight.grad
        if table.padding_idx is not None:
            gradient[ids == table.padding_idx] = 0.0
        weight.grad.index_add_(0, ids, gradient)

    def _enter_process(self) -> None:
        if os.getpid() != self._process:
            # A process of `nlp.pipe`: OpenMP's threads do not exist here, and waiting for them
            # would never end.
            torch.set_num_threads(1)
            self._process = os.getpid()

    def _kept(
        self, encoder: torch.nn.Module, vectors: torch.Tensor, batch: SequenceBatch
    ) -> torch.Tensor:
        inputs = {"attention_mask": torch.from_numpy(batch.mask).to(self.device)}
        if batch.segments is not None and encoder_model.count_segments(encoder) > 1:
            inputs["token_type_ids"] = torch.from_numpy(batch.segments).to(self.device)
        if batch.shared is not None:
            owners, positions = (torch.from_numpy(own).to(self.device) for own in batch.shared)
            inputs["attention_mask"] = mask_pairs(
                owners, encoder_model.attention_implementation(encoder.config)
            )
            inputs["position_ids"] = positions + encoder_model.first_position(encoder)
        hidden = encoder(inputs_embeds=vectors, **inputs).last_hidden_state
        return hidden.reshape(-1, hidden.shape[-1])[torch.from_numpy(batch.kept).to(self.device)]

    def _encoder(self, is_train: bool) -> torch.nn.Module:
        """The encoder to compute with: the copy whose weights autocast need not cast, or itself.

        In training on a GPU weights change as often as they are cast.
        """
        is_cast = self.computes_in == "bf16" and not (is_train and self.device.type != "cpu")
        encoder = self._casts.encoder() if is_cast else self._model
        if encoder.training != is_train:  # it visits every module
            encoder.train(is_train)
        return encoder

    def _drop_word_pieces(self, ids: torch.Tensor) -> torch.Tensor:
        """Replace a share of the word pieces, never of special tokens, with the mask token."""
        tokenizer = cast(WordPieceTokenizer, self.tokenizer)  # there with the encoder
        special = torch.tensor(tokenizer.special_ids)
        dropped = torch.rand(ids.shape) < self.word_piece_dropout
        return torch.where(dropped & ~torch.isin(ids, special), tokenizer.mask, ids)

    def finish_update(self, optimizer: Optimizer) -> None:
        """Step in PyTorch if the optimizer supports it, else parameter by parameter in thinc."""
        # Only here, so that the gradients of several batches are unscaled once.
        if self.computes_in == "fp16":
            self._grad_scaler.unscale([p.grad for p in self._weights if p.grad is not None])
        self._casts.forget()
        step_module = getattr(optimizer, "step_module", None)
        if step_module is None:
            super().finish_update(optimizer)
            return
        if not self._grad_scaler.found_inf:
            step_module(self.id, self._model)
        for parameter in self._weights:
            parameter.grad = None
        self._grad_scaler.update()

    @contextmanager
    def use_params(self, params: dict[tuple[int, str], FloatsXd]) -> Iterator[None]:
        """Compute temporarily with other weights, such as averages; those missing stay."""
        own = {
            name: parameter.detach().clone()
            for name, parameter in (self._model.named_parameters() if self._model else ())
            if (self.id, name) in params
        }
        chosen = {name: xp2torch(params[self.id, name]) for name in own}
        try:
            if own:
                self._model.load_state_dict(chosen, strict=False)
            yield
        finally:
            if own:
                self._model.load_state_dict(own, strict=False)

    def save(self, path: Path) -> None:
        save_encoder(path, cast(WordPieceTokenizer, self.tokenizer), self._model)

    def load(self, path: Path) -> None:
        self.set_encoder(*load_directory(path))

    def to_bytes(self) -> bytes:
        if self._model is None:
            return srsly.msgpack_dumps({})
        with tempfile.TemporaryDirectory() as directory:
            self.save(Path(directory))
            files = {name: (Path(directory) / name).read_bytes() for name in FILES}
        return srsly.msgpack_dumps(files)

    def from_bytes(self, bytes_data: bytes) -> EncoderShim:
        """Load what `to_bytes` gave; raise BiomedError if it is not an encoder's files."""
        files = encoder_model.unpack_files(bytes_data, FILES)
        if files:
            with tempfile.TemporaryDirectory() as directory:
                for name, content in files.items():
                    (Path(directory) / name).write_bytes(content)
                self.load(Path(directory))
        return self


class LinearCasts:
    """A copy of an encoder in fp32 whose linear layers have weights in bf16.

    Autocast would create these for every call. All other weights are shared with the encoder.
    """

    def __init__(self, encoder: torch.nn.Module):
        self._encoder = encoder
        self._own = _linear_parameters(encoder)
        self._made_of: list[tuple[int, int]] | None = None

    def encoder(self) -> torch.nn.Module:
        """The copy, created when first needed and updated when the encoder has changed."""
        state = [(parameter.data_ptr(), parameter._version) for parameter in self._own]
        if self._made_of != state:
            with torch.no_grad():
                for cast, own in zip(_linear_parameters(self._copy), self._own, strict=True):
                    cast.copy_(own)
            self._made_of = state
        return self._copy

    def forget(self) -> None:
        """Cast again, after a change that does not show in the version counters of weights."""
        self._made_of = None

    @cached_property
    def weights(self) -> list[torch.nn.Parameter]:
        """The copy's weights, in the order of the encoder's."""
        return list(self._copy.parameters())

    @cached_property
    def _copy(self) -> torch.nn.Module:
        shared = (*self._encoder.parameters(), *self._encoder.buffers())
        memo: dict[int, object] = {id(one): one for one in shared}
        for one in self._own:
            memo[id(one)] = torch.nn.Parameter(
                torch.empty_like(one, dtype=torch.bfloat16), requires_grad=one.requires_grad
            )
        return copy.deepcopy(self._encoder, memo)


def _linear_parameters(encoder: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [
        parameter
        for module in encoder.modules()
        if isinstance(module, torch.nn.Linear)
        for parameter in module.parameters()
    ]


def init(model: Model, X: object = None, Y: object = None) -> Model:
    shim = model.shims[0]
    if shim.tokenizer is None:
        name, revision, dropout = (model.attrs[key] for key in ("name", "revision", "dropout"))
        tokenizer, encoder = load_pretrained(name, revision, dropout=dropout)
        if not model.attrs["accents"]:
            tokenizer = fold_accents(tokenizer, name)
        shim.set_encoder(tokenizer, encoder)
    model.set_dim("nO", encoder_model.get_module(shim).config.hidden_size)
    return model


def mask_pairs(owners: torch.Tensor, attention: str) -> torch.Tensor:
    """The mask that restricts attention to positions of the same sequence, by that of each place.

    `owners` is (lines, places). The mask is (lines, places, places) for transformers 4, which
    converts it to the attention's shape, and (lines, 1, places, places) for transformers 5.
    """
    is_seen = owners[:, :, None] == owners[:, None, :]
    if TAKES_MASKS_OF_PAIRS:
        return is_seen
    is_seen = is_seen[:, None]
    if attention != "eager":
        return is_seen
    lowest = torch.finfo(torch.float32).min
    return torch.zeros(is_seen.shape, device=owners.device).masked_fill_(~is_seen, lowest)


def forward(
    model: Model, docs: list[Doc], is_train: bool
) -> tuple[EncodedBatch, Callable[[Floats2d], list]]:
    shim = model.shims[0]
    batches, encoded = encoder_model.read_documents(model, docs, is_train)
    if not batches:
        encoded.hidden = model.ops.alloc2f(0, model.get_dim("nO"))
        return encoded, lambda d_hidden: []
    if is_train:
        outputs, backprop_outputs = shim.begin_update(batches)
    else:
        outputs = shim.encode(batches)
    # Where each row is in the kept positions of all batches.
    order = np.argsort(np.concatenate([batch.rows for batch in batches]))
    hidden = torch.cat(outputs).float()[torch.from_numpy(order).to(shim.device)]
    if not is_train:
        check_scores(hidden, "the encoder")

    def backprop(d_hidden: Floats2d) -> list:
        d_rows = xp2torch(d_hidden, device=hidden.device)
        backprop_outputs(
            [
                d_rows[torch.from_numpy(batch.rows).to(d_rows.device)].to(output.dtype)
                for batch, output in zip(batches, outputs, strict=True)
            ]
        )
        return []

    encoded.hidden = torch2xp(hidden)
    return encoded, backprop
