"""Static int8: the ranges of all values are measured once, on texts.

Dynamic quantisation measures the range of each batch when it is encoded. A text's vectors then
depend on the texts in the same batch, and a few values that are far larger than the others make the
others coarse. With static ranges they do not depend on it, every engine can run the file, and large
values are evened out first (SmoothQuant, Xiao et al. 2023, https://arxiv.org/abs/2211.10438).
"""

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from ...arrays import Floats1d
from .engines import Inputs

# How much of the range of large inputs moves to the weights: alpha of SmoothQuant's equation 4. On
# MiniLM, rows agree best with fp32 from 0.8 to 0.9, and at 0.5 hardly better than without.
ALPHA = 0.8
SMALLEST = 1e-5


def quantize_statically(source: Path, target: Path, batches: list[Inputs]) -> None:
    """Quantise the products with weights in an exported encoder; the others stay in fp32.

    Ranges are measured on the batches, at least one, without padding.
    """
    model = onnx.load(source)
    weights = {tensor.name for tensor in model.graph.initializer}
    matmuls = [node for node in model.graph.node if node.op_type == "MatMul"]
    products = [node for node in matmuls if node.input[1] in weights]
    attention = [node.name for node in matmuls if node.input[1] not in weights]
    _smooth(model, products, _largest_values(source, {n.input[0] for n in products}, batches))
    with tempfile.TemporaryDirectory() as directory:
        smoothed = Path(directory) / "smoothed.onnx"
        onnx.save(model, smoothed)
        quantize_static(
            str(smoothed),
            str(target),
            _Batches(batches),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=attention,
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            # The sums stay in 32 bits until the bias is added.
            extra_options={"OpTypesToExcludeOutputQuantization": ["MatMul"]},
        )


def _largest_values(
    path: Path, names: Iterable[str], batches: Iterable[Inputs]
) -> dict[str, Floats1d]:
    """The largest absolute value in each channel, (width,), of inner values over all batches."""
    names = sorted(names)
    model = onnx.load(path)
    model.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    largest: dict[str, Any] = dict.fromkeys(names, 0.0)
    for batch in batches:
        for name, values in zip(names, session.run(names, dict(batch)), strict=True):
            channels = np.abs(values).reshape(-1, values.shape[-1]).max(axis=0)
            largest[name] = np.maximum(largest[name], channels)
    return largest


def _smooth(
    model: onnx.ModelProto, products: list[onnx.NodeProto], largest: dict[str, Floats1d]
) -> None:
    """Divide the inputs of products by a factor for each channel, and multiply the weights by it.

    The products stay the same. The factor of channel j is max|X_j|^alpha / max|W_j|^(1 - alpha);
    products with the same input share it.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    sharing_by_input = defaultdict(list)
    for node in products:
        sharing_by_input[node.input[0]].append(node)
    for name, sharing in sorted(sharing_by_input.items()):
        matrices = [numpy_helper.to_array(weights[node.input[1]]) for node in sharing]
        rows = np.max([np.abs(matrix).max(axis=1) for matrix in matrices], axis=0)
        factors = np.maximum(largest[name], SMALLEST) ** ALPHA
        factors /= np.maximum(rows, SMALLEST) ** (1 - ALPHA)
        # Only their ratios matter.
        factors = (factors / np.exp(np.log(factors).mean())).astype("float32")
        # The products read the input divided by the factors.
        model.graph.initializer.append(numpy_helper.from_array(1 / factors, f"{name}_factors"))
        division = helper.make_node(
            "Mul", [name, f"{name}_factors"], [f"{name}_smooth"], name=f"{name}_smooth"
        )
        nodes = enumerate(model.graph.node)
        place = next(i for i, node in nodes if any(node is one for one in sharing))
        model.graph.node.insert(place, division)
        for node in sharing:
            node.input[0] = f"{name}_smooth"
        for node, matrix in zip(sharing, matrices, strict=True):
            tensor = weights[node.input[1]]
            tensor.CopyFrom(numpy_helper.from_array(matrix * factors[:, None], tensor.name))


class _Batches(CalibrationDataReader):
    def __init__(self, batches: list[Inputs]):
        self._batches: Iterator[Inputs] = iter(batches)

    def get_next(self) -> Inputs | None:
        return next(self._batches, None)
