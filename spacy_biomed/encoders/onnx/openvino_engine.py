"""An exported encoder in OpenVINO."""

import os
import sys
from functools import cache
from io import BytesIO
from threading import local

import numpy as np

from ...arrays import Floats3d
from .engines import EnginePrecision, Inputs

# OpenVINO reports to its makers that it was imported, unless this module, which pip installs with
# it, cannot be imported.
_REPORTING = "openvino_telemetry"
_imported = sys.modules.get(_REPORTING)
sys.modules[_REPORTING] = None  # type: ignore[assignment]
try:
    import openvino
    from openvino.frontend import FrontEndManager
finally:
    del sys.modules[_REPORTING]
    if _imported is not None:
        sys.modules[_REPORTING] = _imported

# With its first array OpenVINO fills tables of types. Two threads that do so at the same time wait
# for each other for ever, and only one imports this module.
openvino.Tensor(np.zeros(1)).element_type.to_dtype()

# OpenVINO compiles kernels for every new shape, and keeps this many of each kind in memory.
KEPT_KERNELS = "16"


class Engine:
    """A model compiled for the CPU; see `create_engine`."""

    def __init__(self, model: bytes, threads: int, runs: int, precision: EnginePrecision):
        # OpenVINO would find out the format by itself; only the weights of ONNX are checked.
        frontend = FrontEndManager().load_by_framework("onnx")
        graph = frontend.convert(frontend.load(BytesIO(model)))
        if precision == "auto":
            precision = "bf16" if "BF16" in describe_processor() else "fp32"
        self.compiled = _core(os.getpid()).compile_model(
            graph,
            "CPU",
            {
                "INFERENCE_NUM_THREADS": threads * runs,
                "NUM_STREAMS": runs,
                "INFERENCE_PRECISION_HINT": {"bf16": "bf16", "fp32": "f32"}[precision],
                # Processes that are pinned compete for the same processors.
                "ENABLE_CPU_PINNING": False,
                "CPU_RUNTIME_CACHE_CAPACITY": KEPT_KERNELS,
            },
        )
        self.inputs = frozenset(port.any_name for port in self.compiled.inputs)
        shapes = {port.any_name: port.partial_shape for port in self.compiled.outputs}
        self.widths = {
            name: shape[-1].get_length() if shape[-1].is_static else None
            for name, shape in shapes.items()
        }
        self._threads = local()

    def run(self, inputs: Inputs, output: str) -> Floats3d:
        # One request cannot have two runs at a time.
        if not hasattr(self._threads, "request"):
            self._threads.request = self.compiled.create_infer_request()
        request = self._threads.request
        return request.infer(dict(inputs), share_inputs=True, share_outputs=True)[output]


def describe_processor() -> str:
    """The processor by name, and the number formats that it computes fast."""
    core = _core(os.getpid())
    formats = " ".join(sorted(core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")))
    return f"{core.get_property('CPU', 'FULL_DEVICE_NAME')} ({formats})"


@cache
def _core(process: int) -> openvino.Core:
    """A process that was forked inherits no threads, so that it needs a core with new threads."""
    return openvino.Core()
