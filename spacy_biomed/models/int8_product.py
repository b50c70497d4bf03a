"""The product with a layer's weights in int8, for prediction on the CPU."""

from __future__ import annotations

import os
from typing import Any

from thinc.api import Optimizer, Shim
from thinc.types import Floats2d

from ..encoders.batching.concurrency import default_threads
from ..encoders.onnx.onnx_weights import check_self_contained
from ..errors import BiomedError

# The names of an exported product's input and output.
ROWS, PRODUCT = "rows", "product"

# Sessions of the parent process of this fork.
_INHERITED: list[Any] = []


class Int8Product(Shim):
    """A layer's weights in int8; empty unless `spacy biomed compress` has made them.

    It is empty again once the layer is trained, whose weights are then others.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._content = b""
        self._session: Any = None
        self._process: int | None = None

    @property
    def is_empty(self) -> bool:
        return not self._content

    def clear(self) -> None:
        self._content, self._session, self._process = b"", None, None

    def multiply(self, rows: Floats2d) -> Floats2d:
        """The product of rows, (rows, width), with the layer's weights: (rows, outputs).

        The numbers of the rows are rounded to 256 steps between the least and the largest of all.
        """
        [product] = self._get_session().run([PRODUCT], {ROWS: rows})
        return product

    def _get_session(self) -> Any:
        if self._process != os.getpid():
            # Kept, because a deleted session waits for its threads, and threads do not fork.
            if self._session is not None:
                _INHERITED.append(self._session)
            self._session = _create_session(self._content)
            self._process = os.getpid()
        return self._session

    def to_bytes(self) -> bytes:
        """The weights as an ONNX model; nothing if there are none."""
        return self._content

    def from_bytes(self, data: bytes) -> Int8Product:
        """Load what `to_bytes` gave; raise BiomedError if it is not a product."""
        self.clear()
        if data:
            try:
                check_self_contained(data)
                self._content = data
                self._get_session()
            except Exception as error:  # ONNX Runtime raises nothing more specific
                self.clear()
                raise BiomedError(
                    "the weights in int8 of a head of this pipeline are damaged: make them again "
                    "with `python -m spacy biomed compress`"
                ) from error
        return self

    def finish_update(self, optimizer: Optimizer) -> None:
        """Forget the weights: the layer has others now."""
        self.clear()

    def to_device(self, device_type: str, device_id: int) -> None:
        """Do nothing: on a GPU the layer computes in fp32."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None, "_process": None}


def _create_session(content: bytes) -> Any:
    from ..encoders.onnx.onnxruntime_engine import create_session

    return create_session(content, default_threads())
