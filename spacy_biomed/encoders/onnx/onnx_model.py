"""An exported encoder as a thinc model: `spacy_biomed.OnnxTransformerModel.v1`.

It only predicts, on the CPU. Neither torch nor transformers is needed or imported.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import srsly
from spacy.tokens import Doc
from thinc.api import Model, Optimizer, Shim

from ...arrays import Floats2d
from ...errors import BiomedError, DamagedPipelineError, first_line
from ..batching.concurrency import default_threads, map_concurrently
from ..batching.encoded import EncodedBatch
from ..batching.pair_pieces import PairOverflow
from ..batching.sequences import SequenceBatch
from ..batching.word_piece_tokenizer import WordPieceTokenizer
from ..encoder_model import check_at_least, read_documents, unpack_files
from ..finite import check_scores
from ..listener import refuse_replacement
from .engines import (
    Engine,
    EngineName,
    EnginePrecision,
    EngineSetting,
    Inputs,
    choose_engine,
    create_engine,
    read_setting,
)
from .onnx_weights import check_weights

# The files of an exported encoder, as `spacy biomed compress` writes them.
FILES = MODEL, TOKENIZER, SETTINGS = "model.onnx", "tokenizer.json", "encoder.json"
REQUIRED_SETTINGS = {"width": int, "max_length": int, "pad": int, "segments": bool, "engines": list}
INPUTS, SEGMENTS, OUTPUT = ("input_ids", "attention_mask"), "token_type_ids", "last_hidden_state"

# Engines of the parent process of this fork.
_INHERITED: list[dict[int, Engine]] = []


def OnnxTransformerModel_v1(
    path: str | None = None,
    threads: int | None = None,
    window: int = 512,
    context: int = 64,
    batch_pieces: int = 128,
    pair_overflow: PairOverflow = "truncate",
    engine: EngineSetting = "auto",
    precision: EnginePrecision = "auto",
    normalize: bool = False,
    accents: bool = True,
) -> Model[list[Doc], EncodedBatch]:
    """An encoder that `spacy biomed compress` exported, for prediction on the CPU.

    Args:
        path: directory of an exported encoder, read when the pipeline is initialised, to train new
            heads on it; not needed to load a pipeline, which contains its encoder.
        threads: number of threads; by default OMP_NUM_THREADS, or the processors available to this
            process.
        window, context, pair_overflow, normalize: as in `spacy_biomed.TransformerModel.v1`.
        accents: False for an encoder that was exported from a pipeline with `accents = false`.
        batch_pieces: padded word pieces in one run, with sequences of similar length together; as
            many runs in parallel as there are threads.
        engine: "onnxruntime", "openvino", or "auto" for the faster one. It is found out with the
            first texts that a process annotates, and remembered in the user's cache directory
            (`engines.py`). The environment variable SPACY_BIOMED_ENGINE overrides it. Where
            OpenVINO is not installed, or cannot run the encoder, ONNX Runtime does.
        precision: number format of matrix products that are not int8. ONNX Runtime always computes
            them in fp32; OpenVINO in "fp32" or "bf16". "auto" is bf16 on processors that have
            instructions for it.

    Raises:
        BiomedError: if a setting is out of range.
    """
    check_at_least(0, context=context, threads=threads)
    check_at_least(1, batch_pieces=batch_pieces)
    shim = OnnxShim(threads, engine, precision)
    attrs = {
        "path": path,
        "window": window,
        "context": context,
        "batch_pieces": batch_pieces,
        "pair_overflow": pair_overflow,
        "normalize": normalize,
        "accents": accents,
        "replace_listener_cfg": refuse_replacement,
    }
    return Model(
        "biomed_onnx_transformer", forward, init=init, dims={"nO": None}, attrs=attrs, shims=[shim]
    )


class OnnxShim(Shim):
    """The exported encoder, its tokenizer, and the engine that runs it."""

    def __init__(self, threads: int | None, engine: EngineSetting, precision: EnginePrecision):
        super().__init__(None)
        self.threads = threads
        self.setting = engine
        self.precision = precision
        # With "auto" it is ONNX Runtime until enough text was read to choose by.
        self.choice: EngineName | None = None
        self._is_open = False  # whether an engine is still to be chosen
        self._lock = RLock()
        self.files: dict[str, bytes] = {}  # their content by name
        self.settings: dict[str, Any] = {}  # the content of `encoder.json`
        self.tokenizer: WordPieceTokenizer | None = None
        self._engines: dict[int, Engine] = {}
        self._process: int | None = None

    @property
    def longest(self) -> int:
        """Word pieces, special tokens included, that the encoder can read at once."""
        return self.settings["max_length"]

    def encode(self, batches: list[SequenceBatch]) -> list[Floats2d]:
        """Vectors of the kept positions, (kept, width), of each padded batch.

        A single batch is computed on all threads; several batches get one thread each.
        """
        threads = self.usable_threads()
        if self._is_open:
            self._choose(batches)
        if len(batches) == 1 or threads == 1:
            engine = self.engine(threads)
            return [self._run(engine, batch) for batch in batches]
        return map_concurrently(partial(self._run, self.engine(1)), batches, threads)

    def _run(self, engine: Engine, batch: SequenceBatch) -> Floats2d:
        hidden = engine.run(self._inputs(batch), OUTPUT)
        return hidden.reshape(-1, hidden.shape[-1])[batch.kept]

    def _inputs(self, batch: SequenceBatch) -> Inputs:
        return make_inputs(batch, with_segments=self.settings["segments"])

    def _choose(self, batches: list[SequenceBatch]) -> None:
        """Choose the faster engine, if there is text enough. Other threads wait for the choice."""
        with self._lock:
            if not self._is_open:
                return
            inputs = [self._inputs(batch) for batch in batches]
            choice = choose_engine(self.files[MODEL], self.precision, inputs)
            if choice is None:
                return
            if choice != "onnxruntime":
                self._engines = {}
            self.choice, self._is_open = choice, False

    def usable_threads(self) -> int:
        """The number of encoding threads: one in a forked process, such as those of `nlp.pipe`."""
        if self._process not in (None, os.getpid()):
            # Kept, because a deleted engine waits for its threads, and threads do not fork.
            _INHERITED.append(self._engines)
            self._engines, self.threads, self._lock = {}, 1, RLock()
        self._process = os.getpid()
        return self.threads or default_threads()

    def engine(self, threads: int) -> Engine:
        """The engine whose runs use this number of threads each, created when first needed."""
        with self._lock:
            if threads not in self._engines:
                assert self.choice is not None, "no encoder was loaded"
                self._engines[threads] = self._create(self.choice, self.files[MODEL], threads)
            return self._engines[threads]

    def _create(self, name: EngineName, model: bytes, threads: int) -> Engine:
        runs = max(self.usable_threads() // threads, 1)
        return create_engine(name, model, threads=threads, runs=runs, precision=self.precision)

    def load(self, path: Path) -> None:
        """Read the directory of an exported encoder."""
        missing = [name for name in FILES if not (path / name).is_file()]
        if missing:
            raise BiomedError(
                f"{path}: no exported encoder there ({missing[0]} is missing); "
                "`python -m spacy biomed compress` writes one"
            )
        self._set({name: (path / name).read_bytes() for name in FILES}, path)

    def _set(self, files: dict[str, bytes], place: object = "encoder") -> None:
        try:
            settings = read_settings(files[SETTINGS])
            text = files[TOKENIZER].decode("utf8")
            tokenizer = WordPieceTokenizer.from_str(text, settings["pad"])
            check_weights(files[MODEL])
            setting = read_setting(self.setting)
            # Before it is needed, so that a damaged model is found when it is loaded.
            threads = self.usable_threads()
            engines = settings["engines"]
            name: EngineName = "onnxruntime" if setting == "auto" else setting
            if name not in engines:
                warnings.warn(
                    f"this encoder was made for {engines[0]} alone, which runs it in place of "
                    f"{name}: for both, use `compress` with --calibrate or --precision fp32",
                    stacklevel=2,
                )
                name = engines[0]
            try:
                engine = self._create(name, files[MODEL], threads)
            except Exception as error:  # the engines raise nothing more specific
                if name == "onnxruntime":
                    raise
                engine = self._create("onnxruntime", files[MODEL], threads)
                warnings.warn(
                    f"{name} cannot run this encoder here ({first_line(error)}): ONNX Runtime runs "
                    "it",
                    stacklevel=2,
                )
                name = "onnxruntime"
            expected = {*INPUTS, SEGMENTS} if settings["segments"] else {*INPUTS}
            if engine.inputs != expected or engine.widths.get(OUTPUT) != settings["width"]:
                raise ValueError(f"{MODEL} is not the encoder that {SETTINGS} describes")
        except BiomedError:
            raise
        except Exception as error:  # engines and tokenizers raise nothing more specific
            raise DamagedPipelineError(
                f"{place}: not a readable exported encoder ({first_line(error)}); "
                "export it again with `python -m spacy biomed compress`"
            ) from error
        self.files, self.settings, self.tokenizer = files, settings, tokenizer
        self.choice, self._engines = name, {threads: engine}
        has_choice = "openvino" in engines and find_spec("openvino") is not None
        self._is_open = setting == "auto" and has_choice

    def save(self, path: Path) -> None:
        """Write the encoder's files."""
        path.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (path / name).write_bytes(content)

    def to_bytes(self) -> bytes:
        return srsly.msgpack_dumps(self.files)

    def from_bytes(self, bytes_data: bytes) -> OnnxShim:
        """Load what `to_bytes` gave; raise BiomedError if it is not an encoder's files."""
        files = unpack_files(bytes_data, FILES)
        if files:
            self._set(files)
        return self

    def finish_update(self, optimizer: Optimizer) -> None:
        """Do nothing: there is nothing to train."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: the encoder stays on the CPU; the heads may move."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_engines": {}, "_process": None, "_lock": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=RLock())


def make_inputs(batch: SequenceBatch, *, with_segments: bool) -> Inputs:
    """The inputs of an exported encoder by name."""
    inputs = dict(zip(INPUTS, (batch.ids, batch.mask), strict=True))
    if with_segments:
        segments = batch.segments
        inputs[SEGMENTS] = np.zeros_like(batch.ids) if segments is None else segments
    return inputs


def read_settings(content: bytes) -> dict[str, Any]:
    """Read `encoder.json`; raise ValueError if a required setting is missing."""
    settings = json.loads(content)
    for name, kind in REQUIRED_SETTINGS.items():
        if not (isinstance(settings, dict) and isinstance(settings.get(name), kind)):
            raise ValueError(f"{SETTINGS} has no valid '{name}'")
    return settings


def init(model: Model, X: object = None, Y: object = None) -> Model:
    shim = model.shims[0]
    if shim.tokenizer is None:
        if model.attrs["path"] is None:
            raise BiomedError(
                "'spacy_biomed.OnnxTransformerModel.v1' has no encoder: give `path`, the directory "
                "of one that `python -m spacy biomed compress` exported"
            )
        shim.load(Path(model.attrs["path"]))
    model.set_dim("nO", shim.settings["width"])
    return model


def forward(
    model: Model, docs: list[Doc], is_train: bool
) -> tuple[EncodedBatch, Callable[[Floats2d], list]]:
    batches, encoded = read_documents(model, docs, is_train=False)
    shim = model.shims[0]
    hidden = np.empty((len(encoded.ids), shim.settings["width"]), dtype="float32")
    for batch, own in zip(batches, shim.encode(batches), strict=True):
        hidden[batch.rows] = own
    check_scores(hidden, "the encoder")
    encoded.hidden = model.ops.asarray2f(hidden)
    return encoded, lambda d_hidden: []
