"""An exported encoder as a thinc model, in ONNX Runtime: `spacy_biomed.OnnxTransformerModel.v1`.

It only predicts, on the CPU. Neither torch nor transformers is needed or imported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import srsly
from spacy.errors import Errors
from spacy.tokens import Doc
from thinc.api import Model, Optimizer, Shim
from thinc.types import Floats2d

from ...errors import BiomedError
from ..batching.concurrency import default_threads, map_concurrently
from ..batching.encoded import EncodedBatch
from ..batching.padding import SequenceBatch
from ..batching.pair_pieces import PairOverflow
from ..batching.sequences import make_sequences
from ..batching.word_pieces import WordPieceTokenizer
from ..listener import refuse_replacement
from ..packed_files import unpack_files
from .onnx_weights import check_self_contained

if TYPE_CHECKING:
    import onnxruntime

# The files of an exported encoder, as `spacy biomed compress` writes them.
MODEL, TOKENIZER, SETTINGS = "model.onnx", "tokenizer.json", "encoder.json"
INPUTS, SEGMENTS, OUTPUT = ("input_ids", "attention_mask"), "token_type_ids", "last_hidden_state"

# The fused kernel takes ten times as long as the separate addition and normalisation.
SLOW_FUSIONS = ["SkipLayerNormFusion"]

# Sessions of the parent process of this fork.
_INHERITED: list[dict[int, onnxruntime.InferenceSession]] = []


def OnnxTransformerModel_v1(
    path: str | None = None,
    threads: int | None = None,
    window: int = 512,
    context: int = 64,
    batch_pieces: int = 128,
    pair_overflow: PairOverflow = "truncate",
) -> Model[list[Doc], EncodedBatch]:
    """An encoder that `spacy biomed compress` exported, for prediction on the CPU.

    Args:
        path: directory of an exported encoder, read when the pipeline is initialised, to train new
            heads on it; not needed to load a pipeline, which contains its encoder.
        threads: number of threads; by default OMP_NUM_THREADS, or the processors available to this
            process.
        window: word pieces, special tokens included, that the encoder sees at once; at most the
            number that its position embeddings cover. Longer documents are read in overlapping
            windows.
        context: word pieces on each side of a window that serve only as context; at most a quarter
            of the window's.
        batch_pieces: padded word pieces in one run, with sequences of similar length together; as
            many runs in parallel as there are threads.
        pair_overflow: how to handle a pair of texts that is longer than `window`. "truncate" leaves
            out the end of the longer text, and once both are equally long of both; words left out
            have no vectors. "window" reads the second text in windows, each with the whole first
            text.
    """
    return Model(
        "biomed_onnx_transformer",
        forward,
        init=init,
        dims={"nO": None},
        attrs={
            "path": path,
            "window": window,
            "context": context,
            "batch_pieces": batch_pieces,
            "pair_overflow": pair_overflow,
            "replace_listener_cfg": refuse_replacement,
        },
        shims=[OnnxShim(threads)],
    )


class OnnxShim(Shim):
    """The exported encoder, its tokenizer, and ONNX Runtime's sessions.

    Attributes:
        files: content of the encoder's files by name; empty before anything is loaded.
        settings: the content of `encoder.json`: width, max_length, pad, precision, name, and
            whether the model takes segment ids (missing for encoders exported before pairs were
            supported).
    """

    def __init__(self, threads: int | None = None):
        super().__init__(None)
        self.threads = threads
        self.files: dict[str, bytes] = {}
        self.settings: dict[str, Any] = {}
        self.tokenizer: WordPieceTokenizer | None = None
        self._sessions: dict[int, onnxruntime.InferenceSession] = {}
        self._process: int | None = None

    def encode(self, batches: list[SequenceBatch]) -> list[Floats2d]:
        """Vectors of the kept positions, (kept, width), of each padded batch.

        A single batch is computed on all threads; several batches get one thread each.

        Raises:
            BiomedError: for segment ids, if the encoder was exported before pairs were supported.
        """
        if "segments" not in self.settings and any(b.segments is not None for b in batches):
            raise BiomedError(
                "this encoder was exported before pairs of texts could be read and cannot tell the "
                "two apart: export it again with `python -m spacy biomed compress`"
            )
        threads = self.usable_threads()
        if len(batches) == 1 or threads == 1:
            session = self.session(threads)
            return [self._run(session, batch) for batch in batches]
        session = self.session(1)
        return map_concurrently(lambda batch: self._run(session, batch), batches, threads)

    def _run(self, session: onnxruntime.InferenceSession, batch: SequenceBatch) -> Floats2d:
        inputs = dict(zip(INPUTS, (batch.ids, batch.mask), strict=True))
        if self.settings.get("segments"):
            no_segments = batch.segments is None
            inputs[SEGMENTS] = np.zeros_like(batch.ids) if no_segments else batch.segments
        [hidden] = session.run([OUTPUT], inputs)
        return hidden.reshape(-1, hidden.shape[-1])[batch.kept]

    def usable_threads(self) -> int:
        """The number of encoding threads: one in a forked process, such as those of `nlp.pipe`."""
        if self._process not in (None, os.getpid()):
            # Kept, because a deleted session waits for its threads, and threads do not fork.
            _INHERITED.append(self._sessions)
            self._sessions, self.threads = {}, 1
        self._process = os.getpid()
        return self.threads or default_threads()

    def session(self, threads: int) -> onnxruntime.InferenceSession:
        """The session whose runs use this number of threads each, created when first needed."""
        if threads not in self._sessions:
            self._sessions[threads] = create_session(self.files[MODEL], threads)
        return self._sessions[threads]

    def load(self, path: Path) -> None:
        """Read an exported encoder.

        Raises:
            BiomedError: if the directory contains no encoder, or a damaged one.
        """
        missing = [name for name in (MODEL, TOKENIZER, SETTINGS) if not (path / name).is_file()]
        if missing:
            raise BiomedError(
                f"{path}: no exported encoder there ({missing[0]} is missing); "
                "`python -m spacy biomed compress` writes one"
            )
        self._set({name: (path / name).read_bytes() for name in (MODEL, TOKENIZER, SETTINGS)}, path)

    def _set(self, files: dict[str, bytes], place: object = "encoder") -> None:
        try:
            settings = read_settings(files[SETTINGS])
            text = files[TOKENIZER].decode("utf8")
            tokenizer = WordPieceTokenizer.from_str(text, settings["pad"])
            # Before a session is needed, so that a damaged model is found when it is loaded.
            threads = self.usable_threads()
            session = create_session(files[MODEL], threads)
            check_session(session, settings)
        except BiomedError:
            raise
        except Exception as error:  # ONNX Runtime and tokenizers raise nothing more specific
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise BiomedError(
                f"{place}: not a readable exported encoder ({reason}); "
                "export it again with `python -m spacy biomed compress`"
            ) from error
        self.files, self.settings, self.tokenizer = files, settings, tokenizer
        self._sessions = {threads: session}

    def save(self, path: Path) -> None:
        """Write the encoder's files."""
        path.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (path / name).write_bytes(content)

    def to_bytes(self) -> bytes:
        return srsly.msgpack_dumps(self.files)

    def from_bytes(self, bytes_data: bytes) -> OnnxShim:
        """Load what `to_bytes` gave; raise BiomedError if it is not an encoder's files."""
        files = unpack_files(bytes_data, (MODEL, TOKENIZER, SETTINGS))
        if files:
            self._set(files)
        return self

    def finish_update(self, optimizer: Optimizer) -> None:
        """Do nothing: there is nothing to train."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: the encoder stays on the CPU; the heads may move."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sessions": {}, "_process": None}


def create_session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    """An inference session on the CPU, whose runs use this number of threads each.

    Raises:
        BiomedError: if onnxruntime is not installed.
        ValueError: for a model with weights in other files.
    """
    check_self_contained(model)
    try:
        import onnxruntime
    except ImportError as error:
        raise BiomedError(
            f"'spacy_biomed.OnnxTransformerModel.v1' needs ONNX Runtime ({error}): "
            "pip install onnxruntime"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Memory plans would be kept for every input shape ever seen, and these are unlimited here.
    options.enable_mem_pattern = False
    # Threads that busy-wait between batches would take the processors from the heads.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # Otherwise bytes in its other format would be accepted, which are not checked above.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOW_FUSIONS
    )


def read_settings(content: bytes) -> dict[str, Any]:
    """Read `encoder.json`.

    Raises:
        ValueError: if a required setting is missing.
    """
    settings = json.loads(content)
    for name in ("width", "max_length", "pad"):
        if not (isinstance(settings, dict) and isinstance(settings.get(name), int)):
            raise ValueError(f"{SETTINGS} has no number '{name}'")
    return settings


def check_session(session: onnxruntime.InferenceSession, settings: dict[str, Any]) -> None:
    """Raise ValueError if a model lacks the inputs and outputs of an exported encoder."""
    inputs = {value.name for value in session.get_inputs()}
    widths = {value.name: value.shape[-1] for value in session.get_outputs()}
    expected = {*INPUTS, SEGMENTS} if settings.get("segments") else {*INPUTS}
    if inputs != expected or widths.get(OUTPUT) != settings["width"]:
        raise ValueError(f"{MODEL} is not the encoder that {SETTINGS} describes")


def init(model: Model, X: Any = None, Y: Any = None) -> Model:
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
    shim = model.shims[0]
    if shim.tokenizer is None:
        raise ValueError(Errors.E109.format(name=model.name))
    sequences = make_sequences(
        docs,
        shim.tokenizer,
        window=min(model.attrs["window"], shim.settings["max_length"]),
        context=model.attrs["context"],
        budget=model.attrs["batch_pieces"],
        pair_overflow=model.attrs["pair_overflow"],
    )
    hidden = np.empty((len(sequences.ids), shim.settings["width"]), dtype="float32")
    for batch, own in zip(sequences.batches, shim.encode(sequences.batches), strict=True):
        hidden[batch.rows] = own
    return sequences.encoded(model.ops.asarray2f(hidden)), lambda d_hidden: []
