"""The heads of a compressed pipeline with a copy of their largest weights in int8."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import srsly
from spacy.language import Language
from thinc.api import to_numpy
from thinc.types import Floats2d

from ..encoders.onnx.onnx_export import OPSET, quantize_products
from ..models.int8_product import PRODUCT, ROWS, Int8Product
from ..pipeline.encoder_head import EncoderHead


def quantize_heads(nlp: Language, path: Path) -> None:
    """Add weights in int8 to the models of a pipeline's heads, in the pipeline's directory.

    These are the weights of layers that can predict with them (`Int8Product`).
    """
    for name, head in nlp.components:
        if not isinstance(head, EncoderHead):
            continue
        content = head.model.to_dict()
        products = 0
        for node, shims in zip(head.model.walk(), content["shims"], strict=True):
            for place, shim in enumerate(node.shims):
                if isinstance(shim, Int8Product):
                    shims[place] = quantize_product(to_numpy(node.get_param("W")))
                    products += 1
        if products:
            (path / name / "model").write_bytes(srsly.msgpack_dumps(content))


def quantize_product(weights: Floats2d) -> bytes:
    """The product of rows with weights, (outputs, width), as an ONNX model in int8."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    outputs, width = weights.shape
    factor = numpy_helper.from_array(np.ascontiguousarray(weights.T, dtype="float32"), "weights")
    graph = helper.make_graph(
        [helper.make_node("MatMul", [ROWS, factor.name], [PRODUCT])],
        "product",
        [helper.make_tensor_value_info(ROWS, TensorProto.FLOAT, ["rows", width])],
        [helper.make_tensor_value_info(PRODUCT, TensorProto.FLOAT, ["rows", outputs])],
        [factor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    with tempfile.TemporaryDirectory() as directory:
        source, target = Path(directory) / "fp32.onnx", Path(directory) / "int8.onnx"
        onnx.save(model, source)
        quantize_products(source, target)
        return target.read_bytes()
