"""The heads of a compressed pipeline with a copy of their layers in ONNX, in int8."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from spacy.language import Language
from thinc.api import Model, to_numpy

from ..encoders.onnx.onnx_export import OPSET, quantize_products
from ..models.exported_layers import NEIGHBOURS, ROWS, SCORES, ExportedLayers
from ..pipeline.encoder_head import EncoderHead

# The node that stays in fp32: it has few multiplications, and its results are the scores.
_OUTPUT = "output"


def quantize_heads(nlp: Language, path: Path) -> None:
    """Add layers in int8 to the models of a pipeline's heads, in the pipeline's directory."""
    for name, head in nlp.components:
        if not isinstance(head, EncoderHead):
            continue
        content = head.model.to_dict()
        is_changed = False
        for node, shims in zip(head.model.walk(), content["shims"], strict=True):
            if any(isinstance(shim, ExportedLayers) for shim in node.shims):
                shims[:] = [export_layers(node)]
                is_changed = True
        if is_changed:
            (path / name / "model").write_bytes(srsly.msgpack_dumps(content))


def export_layers(model: Model) -> bytes:
    """The layers of a token classifier after its rows, as an ONNX model.

    Its inputs are those of `ExportedLayers`. The first product is in int8, all else in fp32.

    Args:
        model: `spacy_biomed.TokenClassifier.v1`.
    """
    import onnx
    from onnx import TensorProto, helper

    first, output = model.get_ref("first"), model.get_ref("output")
    graph = _Graph()
    product = graph.add("MatMul", ROWS, graph.constant(to_numpy(first.get_param("W")).T))
    values = graph.add(
        "Add",
        _add_neighbours(graph, product, first.attrs["window_size"], first.get_dim("nO")),
        graph.constant(to_numpy(first.get_param("b"))),
    )
    if output is not first:
        hidden = graph.add("Relu", values)
        weights = graph.constant(to_numpy(output.get_param("W")).T)
        values = graph.add("MatMul", hidden, weights, name=_OUTPUT)
        values = graph.add("Add", values, graph.constant(to_numpy(output.get_param("b"))))
    graph.nodes.append(helper.make_node("Identity", [values], [SCORES]))
    widths = {ROWS: first.get_dim("nI"), NEIGHBOURS: 2 * first.attrs["window_size"]}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
        for name, width in widths.items()
        if width
    ]
    scores = helper.make_tensor_value_info(
        SCORES, TensorProto.FLOAT, ["rows", output.get_dim("nO")]
    )
    exported = helper.make_model(
        helper.make_graph(graph.nodes, "layers", inputs, [scores], graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
    )
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory) / "fp32.onnx", Path(directory) / "int8.onnx"
        onnx.save(exported, source)
        quantize_products(source, target, exclude=[_OUTPUT])
        return target.read_bytes()


def _add_neighbours(graph: _Graph, product: str, window_size: int, width: int) -> str:
    """For each row the sum of its neighbours' blocks, as in `WindowLinear`."""
    places = 2 * window_size + 1
    if places == 1:
        return product
    sizes = graph.constant(np.full(places, width, dtype="int64"))
    blocks = graph.add("Split", product, sizes, outputs=places, axis=1)
    marks = graph.add(
        "Split",
        NEIGHBOURS,
        graph.constant(np.ones(places - 1, dtype="int64")),
        outputs=places - 1,
        axis=1,
    )
    total = blocks.pop(window_size)
    offsets = [offset for offset in range(-window_size, window_size + 1) if offset]
    for offset, block, mark in zip(offsets, blocks, marks, strict=True):
        # Shifted down for neighbours before a row, and up for those after it.
        moved = graph.constant(np.array([-offset, 0, offset, 0], dtype="int64"))
        shifted = graph.add("Pad", block, moved)
        total = graph.add("Add", total, graph.add("Mul", shifted, mark))
    return total


class _Graph:
    """Nodes and constants of an ONNX graph, with names for their values."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **settings: Any) -> Any:
        """Add a node; return the name of its output, or a list of several."""
        from onnx import helper

        names = [f"value_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **settings))
        return names[0] if outputs == 1 else names
