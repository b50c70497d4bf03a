"""The layers of a token classifier in ONNX, for prediction on the CPU."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from thinc.api import Optimizer, Shim
from thinc.types import Floats2d, Ints1d

from ..encoders.batching.concurrency import default_threads
from ..encoders.onnx.onnx_weights import check_weights
from ..errors import BiomedError
from .window_linear import find_neighbours

# The names of the exported model's inputs and of its output.
ROWS, NEIGHBOURS, SCORES = "rows", "neighbours", "scores"

# Sessions of the parent process of this fork.
_INHERITED: list[Any] = []


class ExportedLayers(Shim):
    """A copy of a token classifier's layers in int8, if `spacy biomed compress` has made one.

    It is dropped when the layers are trained.

    Args:
        window_size: number of neighbours on each side that a row's scores depend on.
    """

    def __init__(self, window_size: int):
        super().__init__(None)
        self._window_size = window_size
        self._content = b""
        self._session: Any = None
        self._process: int | None = None

    def can_predict(self, rows: Floats2d) -> bool:
        """Whether there is a copy, and more rows than it needs neighbours."""
        is_usable = isinstance(rows, np.ndarray) and len(rows) > self._window_size
        return is_usable and bool(self._content)

    def predict(self, rows: Floats2d, lengths: Ints1d) -> Floats2d:
        """The scores of rows, (rows, outputs).

        The numbers of the rows are rounded to 256 steps between the least and the largest of all.

        Args:
            rows: (rows, width).
            lengths: (documents,) number of rows of each document.
        """
        inputs = {ROWS: rows}
        if self._window_size:
            inputs[NEIGHBOURS] = self._mark_neighbours(lengths, len(rows))
        [scores] = self._get_session().run([SCORES], inputs)
        return scores

    def _mark_neighbours(self, lengths: Ints1d, count: int) -> Floats2d:
        """(rows, places) 1 where a row's neighbour is of the same document, else 0.

        The places are those before the row, from left to right, and those after it.
        """
        marks = np.zeros((count, 2 * self._window_size), dtype="float32")
        places = find_neighbours(np, lengths, count, self._window_size)
        others = [place for i, place in enumerate(places) if i != self._window_size]
        for column, (own, _, is_outside) in zip(marks.T, others, strict=True):
            column[own] = ~is_outside
        return marks

    def _get_session(self) -> Any:
        if self._process != os.getpid():
            # Kept, because a deleted session waits for its threads, and threads do not fork.
            if self._session is not None:
                _INHERITED.append(self._session)
            self._session = _create_session(self._content)
            self._process = os.getpid()
        return self._session

    def clear(self) -> None:
        """Drop the layers."""
        self._content, self._session, self._process = b"", None, None

    def to_bytes(self) -> bytes:
        """The layers as an ONNX model; nothing if there are none."""
        return self._content

    def from_bytes(self, data: bytes) -> ExportedLayers:
        """Load what `to_bytes` gave; raise BiomedError if it is no model."""
        self.clear()
        if data:
            try:
                check_weights(data)
                self._content = data
                self._get_session()
            except Exception as error:  # ONNX Runtime raises nothing more specific
                self.clear()
                raise BiomedError(
                    "the layers in int8 of a head of this pipeline are damaged: make them again "
                    "with `python -m spacy biomed compress`"
                ) from error
        return self

    def finish_update(self, optimizer: Optimizer) -> None:
        """Drop the layers: the weights are others now."""
        self.clear()

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: on a GPU the head computes in fp32."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None, "_process": None}


def _create_session(content: bytes) -> Any:
    from ..encoders.onnx.onnxruntime_engine import create_session

    return create_session(content, default_threads())
