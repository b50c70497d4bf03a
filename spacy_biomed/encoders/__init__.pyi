from .batching.encoded import EncodedBatch, EncodedDoc, get_encoding, set_encoding
from .encoder_catalogue import EncoderEntry, all_encoders, find_encoder
from .listener import EncoderListener
from .loading import load_pretrained, load_tokenizer, save_encoder
from .onnx.onnx_export import export_encoder
from .onnx.onnx_model import OnnxTransformerModel_v1
from .pickled import read_pickled
from .transformer_model import TransformerModel_v1

__all__ = [
    "EncodedBatch",
    "EncodedDoc",
    "EncoderEntry",
    "EncoderListener",
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
