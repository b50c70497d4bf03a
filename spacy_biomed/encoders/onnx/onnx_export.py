"""From a PyTorch encoder to the directory that `spacy_biomed.OnnxTransformerModel.v1` reads."""

from __future__ import annotations

import copy
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model

from ...errors import BiomedError, install_command
from .. import encoder_model
from ..encoder_model import count_segments, get_module, max_sequence_length, read_documents
from .engines import ENGINES, Inputs
from .onnx_model import INPUTS, MODEL, OUTPUT, SEGMENTS, SETTINGS, TOKENIZER, make_inputs

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

Quantization = Literal["fp32", "int8"]

OPSET = 17  # the first with layer normalisation as one operator


def export_encoder(
    model: Model,
    path: Path,
    *,
    precision: Quantization,
    quantize_embeddings: bool = True,
    calibration: Sequence[Doc] = (),
) -> None:
    """Write an exported encoder: model.onnx, tokenizer.json, encoder.json.

    Args:
        model: `spacy_biomed.TransformerModel.v1` with its encoder loaded; it is not changed.
        path: directory to write; created if it does not exist.
        precision: "int8" quantises the weights of the matrix products, with one scale for each
            output channel, and their inputs. Weights use seven of the eight bits, so that
            processors without VNNI instructions do not saturate in 16-bit sums.
        quantize_embeddings: with "int8", the embedding tables too, one scale for each row.
        calibration: with "int8", documents on which the ranges of the products' inputs are
            measured (`static_quantization.py`). Without any, each batch has ranges of its own, and
            attention like BERT's becomes an operator that only ONNX Runtime has.

    Raises:
        BiomedError: if onnx is not installed.
    """
    if find_spec("onnx") is None:
        raise BiomedError(f"exporting an encoder needs onnx: {install_command('train')}")
    import onnx

    shim = model.shims[0]
    encoder = get_module(shim)
    with_segments = count_segments(encoder) > 1
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        exported = Path(directory) / MODEL
        _export(encoder, exported)
        if precision == "int8":
            # Each window is a batch, without padding.
            batches, _ = read_documents(model, list(calibration), is_train=False, budget=1)
            inputs = [make_inputs(batch, with_segments=with_segments) for batch in batches]
            if not inputs:
                _fuse_attention(exported, encoder.config)
            _quantize(exported, path / MODEL, quantize_embeddings, inputs)
        else:
            (path / MODEL).write_bytes(exported.read_bytes())
    # Only ONNX Runtime has its own quantised operators.
    operators = {node.op_type for node in onnx.load(path / MODEL).graph.node}
    engines = ["onnxruntime"] if "QAttention" in operators else [*ENGINES]
    (path / TOKENIZER).write_text(shim.tokenizer.to_str(), encoding="utf8")
    settings = {
        "name": model.attrs["name"],
        "precision": precision,
        "static": precision == "int8" and len(calibration) > 0,
        "quantized_embeddings": precision == "int8" and quantize_embeddings,
        "width": model.get_dim("nO"),
        "max_length": max_sequence_length(encoder),
        "pad": shim.tokenizer.pad,
        "segments": with_segments,
        "engines": engines,
    }
    (path / SETTINGS).write_text(json.dumps(settings, indent=2), encoding="utf8")


def _export(encoder: torch.nn.Module, path: Path) -> None:
    """Trace a copy of the encoder on the CPU in fp32, for batches and sequences of any size."""
    import torch
    from transformers import AutoModel

    # The fused attention kernels cannot be exported to an ONNX graph.
    with torch.random.fork_rng(devices=[]):  # the random weights are replaced below
        config = copy.deepcopy(encoder.config)  # transformers 5 would set its attention
        copied = AutoModel.from_config(
            config, trust_remote_code=False, attn_implementation="eager"
        ).float()
    encoder_model.drop_pooler(copied)
    copied.load_state_dict(encoder.state_dict())

    names = [*INPUTS, SEGMENTS] if count_segments(copied) > 1 else [*INPUTS]

    class LastHiddenState(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = copied

        def forward(self, input_ids: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
            # Vectors, as in training: given ids, RoBERTa gives no position to a padding token that
            # a text spells out.
            vectors = self.encoder.get_input_embeddings()(input_ids)
            inputs = dict(zip(names[1:], others, strict=True))
            return self.encoder(inputs_embeds=vectors, **inputs).last_hidden_state

    example = torch.ones((2, 8), dtype=torch.long)
    axes = {0: "sequences", 1: "pieces"}
    with torch.no_grad(), _quiet():
        torch.onnx.export(
            LastHiddenState().eval(),
            (example,) * len(names),
            str(path),
            input_names=names,
            output_names=[OUTPUT],
            dynamic_axes={name: axes for name in (*names, OUTPUT)},
            opset_version=OPSET,
            dynamo=False,
        )


def _fuse_attention(path: Path, config: PretrainedConfig) -> None:
    """Make attention, with its products before, one operator of ONNX Runtime in each layer.

    One short text then takes less time on two threads, and no more on one (`docs/internals.md`). In
    encoders whose attention is not like BERT's, nothing is changed.
    """
    from onnxruntime.transformers.fusion_options import AttentionMaskFormat, FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options = FusionOptions("bert")
    options.attention_mask_format = AttentionMaskFormat.AttentionMask
    # ONNX Runtime makes all other fusions that are faster when it loads the file.
    for name in vars(options):
        if name.startswith("enable_") and name != "enable_attention":
            setattr(options, name, False)
    with _quiet():
        optimized = optimize_model(
            str(path),
            model_type="bert",
            num_heads=config.num_attention_heads,
            hidden_size=config.hidden_size,
            optimization_options=options,
            opt_level=0,
        )
        optimized.save_model_to_file(str(path))


def _quantize(source: Path, target: Path, embeddings: bool, calibration: list[Inputs]) -> None:
    """Quantise the matrix products of an ONNX model, and with `embeddings` its tables.

    Without inputs for calibration, products have one range for each input and run.
    """
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from .static_quantization import quantize_statically

    with _quiet():
        if calibration:
            quantize_statically(source, target, calibration)
        else:
            quantize_dynamic(
                str(source),
                str(target),
                op_types_to_quantize=["MatMul", "Gemm", "Attention"],
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                # The type of values behind operators of ONNX Runtime, which it cannot infer.
                extra_options={"DefaultTensorType": TensorProto.FLOAT},
            )
    if embeddings:
        _quantize_embeddings(target)


def _quantize_embeddings(path: Path) -> None:
    """Store embedding tables in eight bits, with a scale for each row.

    ONNX Runtime's quantisation has one scale for a whole table, which a few large values determine.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(path)
    graph = model.graph
    tables = {one.name: one for one in graph.initializer if len(one.dims) == 2}
    lookups = [node for node in graph.node if node.op_type == "Gather" and node.input[0] in tables]
    for node in lookups:
        table, place = node.input[0], list(graph.node).index(node)
        if not any(one.name == f"{table}_codes" for one in graph.initializer):
            rows = numpy_helper.to_array(tables[table])
            scales = np.abs(rows).max(axis=1, keepdims=True) / 127
            codes = np.rint(rows / np.maximum(scales, np.finfo("float32").tiny)).astype("int8")
            graph.initializer.append(numpy_helper.from_array(codes, f"{table}_codes"))
            graph.initializer.append(numpy_helper.from_array(scales, f"{table}_scales"))
        ids, output = node.input[1], node.output[0]
        names = [f"{output}_{part}" for part in ("codes", "values", "scales")]
        replacement = [
            helper.make_node("Gather", [f"{table}_codes", ids], names[:1]),
            helper.make_node("Cast", names[:1], names[1:2], to=TensorProto.FLOAT),
            helper.make_node("Gather", [f"{table}_scales", ids], names[2:]),
            helper.make_node("Mul", names[1:], [output]),
        ]
        graph.node.remove(node)
        for offset, new in enumerate(replacement):
            graph.node.insert(place + offset, new)
    used = {name for node in graph.node for name in node.input}
    for name, one in tables.items():
        if name not in used:
            graph.initializer.remove(one)
    onnx.save(model, path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of the tracer and the quantiser about intended behaviour."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.setLevel(level)
