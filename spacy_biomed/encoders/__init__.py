"""The catalogue of encoders, loading, PyTorch and ONNX, and the listener of the heads."""

from typing import TYPE_CHECKING

from ..lazy_names import attach

if TYPE_CHECKING:
    from .batching.encoded import EncodedBatch, EncodedDoc, get_encoding, set_encoding
    from .encoder_catalogue import EncoderEntry, all_encoders, find_encoder
    from .listener import EncoderListener, EncoderListener_v1
    from .loading import load_pretrained, load_tokenizer, save_encoder
    from .onnx.onnx_export import export_encoder
    from .onnx.onnx_model import OnnxTransformerModel_v1
    from .pickled import read_pickled
    from .transformer_model import TransformerModel_v1
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "batching.encoded": ["EncodedBatch", "EncodedDoc", "get_encoding", "set_encoding"],
            "encoder_catalogue": ["EncoderEntry", "all_encoders", "find_encoder"],
            "listener": ["EncoderListener", "EncoderListener_v1"],
            "loading": ["load_pretrained", "load_tokenizer", "save_encoder"],
            "onnx.onnx_export": ["export_encoder"],
            "onnx.onnx_model": ["OnnxTransformerModel_v1"],
            "pickled": ["read_pickled"],
            "transformer_model": ["TransformerModel_v1"],
        },
    )

__all__ = [
    "EncodedBatch",
    "EncodedDoc",
    "EncoderEntry",
    "EncoderListener",
    "EncoderListener_v1",
    "OnnxTransformerModel_v1",
    "TransformerModel_v1",
    "all_encoders",
    "export_encoder",
    "find_encoder",
    "get_encoding",
    "load_pretrained",
    "load_tokenizer",
    "read_pickled",
    "save_encoder",
    "set_encoding",
]
