"""An exported encoder in ONNX Runtime."""

import onnxruntime

from ...arrays import Floats3d
from .engines import EnginePrecision, Inputs

# The fused kernel takes ten times as long as the separate addition and normalisation.
SLOW_FUSIONS = ["SkipLayerNormFusion"]


class Engine:
    """A model in an inference session; see `create_engine`."""

    def __init__(self, model: bytes, threads: int, runs: int, precision: EnginePrecision):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Memory plans would be kept for every input shape ever seen, and these are unlimited here.
        options.enable_mem_pattern = False
        # Threads that busy-wait between batches would take the processors from the heads.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        # Otherwise bytes in its other format would be accepted, whose weights are not checked.
        options.add_session_config_entry("session.load_model_format", "ONNX")
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOW_FUSIONS
        )
        self.inputs = frozenset(value.name for value in self.session.get_inputs())
        self.widths = {value.name: value.shape[-1] for value in self.session.get_outputs()}

    def run(self, inputs: Inputs, output: str) -> Floats3d:
        [values] = self.session.run([output], inputs)
        return values
