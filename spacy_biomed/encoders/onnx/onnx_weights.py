"""Check that an ONNX model contains all its weights, all finite, without the package `onnx`.

ONNX Runtime reads the files that a model's tensors name, which can be any file the user can read.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np

# Fields of ONNX's messages (onnx.proto3) by number, where tensors can be nested in them.
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        22: "sparse tensor",
        23: "sparse tensor",
    },
    "sparse tensor": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of a tensor; the location is 1 for another file
_DATA_TYPE, _FLOATS, _NAME, _RAW, _DOUBLES = 2, 4, 8, 9, 10
# Formats of floating-point numbers, by the data type of a tensor, as its raw bytes have them.
_FORMATS = {1: "<f4", 10: "<f2", 11: "<f8"}

# How protocol buffers write a field (wire types).
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def check_weights(model: bytes) -> None:
    """Raise ValueError if an ONNX model is not a protocol buffer with all of its tensors.

    Tensors must not be in another file, and weights must be finite numbers.
    """
    stack = [("model", memoryview(model))]
    while stack:
        kind, message = stack.pop()
        if kind == "tensor":
            _check_tensor(message)
            continue
        for number, value in _fields(message):
            if number in _MESSAGES[kind] and isinstance(value, memoryview):
                stack.append((_MESSAGES[kind][number], value))


def _check_tensor(message: memoryview) -> None:
    fields: dict[int, int | memoryview] = {}
    for number, value in _fields(message):
        if number == _EXTERNAL_DATA or (number == _DATA_LOCATION and value != 0):
            raise ValueError("it keeps weights in other files, which are never read")
        fields[number] = value
    data_type = cast(int, fields.get(_DATA_TYPE, 0))
    for number, format in ((_RAW, _FORMATS.get(data_type)), (_FLOATS, "<f4"), (_DOUBLES, "<f8")):
        data = fields.get(number)
        if format is None or not isinstance(data, memoryview):
            continue
        values = np.frombuffer(data, format)
        is_mask = values.size == 1 and values[0] == -np.inf  # what some masks are filled with
        if not (is_mask or np.isfinite(values).all()):
            name = cast(memoryview, fields.get(_NAME, b""))
            raise ValueError(f"its weights {bytes(name).decode(errors='replace')} are not finite")


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The number and the value of each field: an integer, or bytes."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, place = _varint(message, place)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, place = _varint(message, place)
        elif wire_type in (_FIXED32, _FIXED64):
            length = 4 if wire_type == _FIXED32 else 8
        else:  # groups, which ONNX has none of
            raise ValueError("it is not an ONNX model")
        if place + length > len(message):
            raise ValueError("it ends too early")
        yield number, message[place : place + length]
        place += length


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """The integer that begins at a position, and the position after it."""
    value = shift = 0
    while place < len(message) and shift < 70:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
    raise ValueError("it ends too early")
