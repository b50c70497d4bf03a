"""Arrays that stand for those of a GPU, for tests on machines without one.

They compute with NumPy. But as CuPy's do, they refuse to be mixed with arrays in main memory, or to
become such an array unless it is asked for. What is not tested by them: PyTorch, whose tensors stay
in main memory, and CuPy's own kernels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from thinc.api import CupyOps, Ops, get_current_ops, set_current_ops

MIXED = "Unsupported type <class 'numpy.ndarray'>"
METHODS = (
    *("all", "any", "argmax", "argsort", "astype", "copy", "cumsum", "dot", "fill", "max", "mean"),
    *("min", "nonzero", "prod", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum"),
    *("transpose", "var", "view"),
)
ATTRIBUTES = ("T", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides")


class DeviceArray(NDArrayOperatorsMixin):
    """An array that stands for `cupy.ndarray`."""

    def __init__(self, values: np.ndarray):
        self.values = values

    def get(self) -> np.ndarray:
        """A copy in main memory."""
        return self.values.copy()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Use `.get()`.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
        return compute(getattr(ufunc, method), inputs, settings)

    def __array_function__(self, function: Any, _: Any, inputs: Any, settings: Any) -> Any:
        return compute(function, inputs, settings)

    def __dlpack__(self, **settings: Any) -> Any:
        return self.values.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __getitem__(self, index: Any) -> Any:
        return on_device(self.values[in_memory(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[in_memory(index)] = in_memory(value)

    def __iter__(self) -> Iterator[Any]:
        return map(on_device, self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __int__(self) -> int:
        return int(self.values)

    __index__ = __int__

    def item(self, *place: int) -> Any:
        return self.values.item(*place)

    def tolist(self) -> Any:
        return self.values.tolist()


def _delegate(name: str) -> None:
    def method(self: DeviceArray, *inputs: Any, **settings: Any) -> Any:
        return compute(getattr(self.values, name), inputs, settings)

    setattr(DeviceArray, name, method)


for _name in METHODS:
    _delegate(_name)
for _name in ATTRIBUTES:
    own = property(lambda self, name=_name: on_device(getattr(self.values, name)))
    setattr(DeviceArray, _name, own)


def on_device(value: Any) -> Any:
    """Arrays and numbers of NumPy as arrays of the device, also in tuples and lists."""
    if isinstance(value, np.ndarray | np.generic):
        return DeviceArray(np.asarray(value))
    if isinstance(value, tuple | list):
        return type(value)(map(on_device, value))
    return value


def in_memory(value: Any) -> Any:
    """The values of arrays of the device, also in tuples, lists and dictionaries.

    Raises:
        TypeError: for arrays that are not on the device; numbers may be anywhere.
    """
    if isinstance(value, DeviceArray):
        return value.values
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError(MIXED)
    if isinstance(value, tuple | list):
        return type(value)(map(in_memory, value))
    if isinstance(value, dict):
        return {key: in_memory(one) for key, one in value.items()}
    return value


def compute(function: Any, inputs: Any, settings: Any) -> Any:
    return on_device(function(*in_memory(tuple(inputs)), **in_memory(settings)))


class DeviceFunction:
    """A function of NumPy for arrays of the device."""

    def __init__(self, function: Any):
        self.function = function

    def __call__(self, *inputs: Any, **settings: Any) -> Any:
        return compute(self.function, inputs, settings)

    def at(self, *inputs: Any) -> None:
        compute(self.function.at, inputs, {})


class DeviceModule:
    """Stands for `cupy`, or for `cupy.random` or `cupy.linalg`."""

    ndarray = DeviceArray

    def __init__(self, module: Any = np):
        self.module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.module, name)
        if name in ("random", "linalg"):
            return DeviceModule(value)
        if callable(value) and not isinstance(value, type):
            return DeviceFunction(value)
        return value

    def asarray(self, value: Any, dtype: Any = None) -> DeviceArray:
        """An array on the device, of one there or in main memory."""
        if isinstance(value, list | tuple):
            value = [one.values if isinstance(one, DeviceArray) else one for one in value]
        values = value.values if isinstance(value, DeviceArray) else np.asarray(value)
        return DeviceArray(values.astype(dtype or values.dtype, copy=False))

    def split(self, value: DeviceArray, places: Any) -> list[DeviceArray]:
        """Parts of an array; as in CuPy, the places may be in main memory."""
        if isinstance(places, np.ndarray):
            places = places.tolist()
        return compute(np.split, (value, places), {})

    def save(self, file: Any, value: Any) -> None:
        """Write an array to a file, from wherever it is."""
        np.save(file, value.get() if isinstance(value, DeviceArray) else value)

    def array(self, value: Any, dtype: Any = None) -> DeviceArray:
        return DeviceArray(self.asarray(value, dtype).values.copy())


class DeviceOps(CupyOps):
    """Stands for thinc's `CupyOps`, without its kernels."""

    xp = DeviceModule()

    def __init__(self, device_type: str = "gpu", device_id: int = 0, **settings: Any):
        Ops.__init__(self, device_type, device_id)

    def to_numpy(self, data: Any, *, byte_order: str | None = None) -> np.ndarray:
        values = data if isinstance(data, np.ndarray) else data.get()
        return values.astype(values.dtype.newbyteorder(byte_order)) if byte_order else values

    def asarray(self, data: Any, dtype: Any = None) -> DeviceArray:
        return self.xp.asarray(data, dtype)

    def hash(self, ids: DeviceArray, seed: int) -> DeviceArray:
        from thinc.api import NumpyOps

        return DeviceArray(NumpyOps().hash(ids.values, seed))


# All others compute as thinc's class of all devices does.
for _name in set(vars(CupyOps)) & set(vars(Ops)) - set(vars(DeviceOps)):
    setattr(DeviceOps, _name, vars(Ops)[_name])


@contextmanager
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let thinc's models that are created inside compute with arrays of the device."""
    import thinc.util
    from thinc.backends import get_array_ops

    replaced = {
        "torch2xp": lambda tensor, **_: DeviceArray(tensor.detach().numpy()),
        "get_array_ops": lambda array: (
            DeviceOps() if isinstance(array, DeviceArray) else get_array_ops(array)
        ),
        "get_torch_default_device": lambda: torch.device("cpu"),
    }
    before = get_current_ops()
    with monkeypatch.context() as patch:
        patch.setattr(thinc.util, "has_cupy", True)
        patch.setattr(thinc.util, "cupy", DeviceOps.xp)
        for module in list(sys.modules.values()):
            if module.__name__.startswith(("thinc.", "spacy_biomed.")):
                for name in replaced.keys() & vars(module).keys():
                    patch.setattr(module, name, replaced[name])
        set_current_ops(DeviceOps())
        try:
            yield
        finally:
            set_current_ops(before)
