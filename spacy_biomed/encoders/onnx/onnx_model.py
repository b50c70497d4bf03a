"""An exported encoder as a thinc model, in ONNX Runtime: `spacy_biomed.OnnxTransformerModel.v1`.

Predicts only, on the CPU. Neither torch nor transformers is needed, nor imported.
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
from ..batching.pair_pieces import PairOverflow
from ..batching.sequences import SequenceBatch, make_sequences
from ..batching.word_pieces import WordPieceTokenizer
from ..listener import refuse_replacement
from ..packed_files import unpack_files
from .onnx_weights import check_self_contained

if TYPE_CHECKING:
    import onnxruntime

# The files of an exported encoder, as `spacy biomed compress` writes them.
MODEL, TOKENIZER, SETTINGS = "model.onnx", "tokenizer.json", "encoder.json"
INPUTS, SEGMENTS, OUTPUT = ("input_ids", "attention_mask"), "token_type_ids", "last_hidden_state"

# The fused kernel takes ten times as long as the addition and the normalisation it replaces.
SLOW_FUSIONS = ["SkipLayerNormFusion"]

# Sessions of the process that this one was forked from.
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

    path: directory of an exported encoder, read when the pipeline is initialised, to train new
        heads on it; not needed to load a pipeline, which carries its own.
    threads: to encode on; by default OMP_NUM_THREADS, or the processors this process may use.
    window: word pieces, special tokens included, that the encoder sees at once; at most what its
        position embeddings cover. Longer documents are read in overlapping windows.
    context: word pieces on each side of a window that serve as context only; at most a quarter of
        the window's.
    batch_pieces: padded word pieces in one run, sequences of similar length together; as many runs
        at the same time as there are threads.
    pair_overflow: what becomes of a pair of texts that is longer than `window`. "truncate" leaves
        out the end of its longer text, and once they are equally long of both; words left out have
        no vectors. "window" reads the second text in windows, each with the whole first text.
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
    """Holds the exported encoder, its tokenizer, and ONNX Runtime's sessions.

    files: content of the encoder's files by name; empty before anything is loaded.
    settings: what `encoder.json` says: width, max_length, pad, precision, name, and whether the
        model takes segment ids; encoders exported before there were pairs say nothing of that.
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
        """Vectors of the positions that are kept, (kept, width), of each padded batch.

        A batch alone is computed on all threads; of several batches each has a thread of its own.

        RAISES BiomedError: for segments that an encoder exported before there were pairs cannot
            take.
        """
        if "segments" not in self.settings and any(b.segments is not None for b in batches):
            raise BiomedError(
                "this encoder was exported before pairs of texts could be read and cannot tell the "
                "two apart: write it anew with `python -m spacy biomed compress`"
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
        """The threads to encode on: one in a forked process, as those of `nlp.pipe` are."""
        if self._process not in (None, os.getpid()):
            # Kept, because a session that goes waits for its threads, and threads do not fork.
            _INHERITED.append(self._sessions)
            self._sessions, self.threads = {}, 1
        self._process = os.getpid()
        return self.threads or default_threads()

    def session(self, threads: int) -> onnxruntime.InferenceSession:
        """The session whose runs compute on so many threads each, made when first needed."""
        if threads not in self._sessions:
            self._sessions[threads] = create_session(self.files[MODEL], threads)
        return self._sessions[threads]

    def load(self, path: Path) -> None:
        """Read an exported encoder.

        RAISES BiomedError: if the directory holds none, or a damaged one.
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
            # Before a session is needed: a damaged model shows when it is loaded, not in use.
            threads = self.usable_threads()
            session = create_session(files[MODEL], threads)
            check_session(session, settings)
        except BiomedError:
            raise
        except Exception as error:  # ONNX Runtime and tokenizers raise nothing more specific
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise BiomedError(
                f"{place}: not a readable exported encoder ({reason}); "
                "`python -m spacy biomed compress` writes it anew"
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
        """RAISES BiomedError: if the bytes hold other files than those of an encoder."""
        files = unpack_files(bytes_data, (MODEL, TOKENIZER, SETTINGS))
        if files:
            self._set(files)
        return self

    def finish_update(self, optimizer: Optimizer) -> None:
        """Nothing is learned."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """The encoder stays on the CPU; the heads may go."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sessions": {}, "_process": None}


def create_session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    """An inference session on the CPU, each of whose runs computes on so many threads.

    RAISES BiomedError: where onnxruntime is not installed.
    RAISES ValueError: for a model with weights in other files.
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
    # Plans of memory are kept for each shape of input ever seen, which are without end here.
    options.enable_mem_pattern = False
    # Threads that went on waiting between batches would take the processors from the heads.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # Bytes in its other format would be taken for it, and those are not checked above.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOW_FUSIONS
    )


def read_settings(content: bytes) -> dict[str, Any]:
    """Read `encoder.json`.

    RAISES ValueError: if it lacks what the model needs.
    """
    settings = json.loads(content)
    for name in ("width", "max_length", "pad"):
        if not (isinstance(settings, dict) and isinstance(settings.get(name), int)):
            raise ValueError(f"{SETTINGS} has no number '{name}'")
    return settings


def check_session(session: onnxruntime.InferenceSession, settings: dict[str, Any]) -> None:
    """RAISES ValueError: unless the model takes and gives what an exported encoder does."""
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
    return sequences.encoded(model.ops.asarray2f(hidden), shim.tokenizer), lambda d_hidden: []
