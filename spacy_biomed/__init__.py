"""Biomedical and clinical transformers as spaCy pipelines."""

import os
from importlib.metadata import version
from typing import Any

# Here, because this runs before anything of the package can import the libraries that read them.
# ONNX Runtime would report to its makers and keep a device id in the home directory; calls to the
# hub, where an encoder is asked for by its hub id, would say what is installed here.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

__all__ = ["pair"]
__version__ = version("spacy-biomed")


def __getattr__(name: str) -> Any:
    # The package itself imports neither spaCy nor anything that a feature needs.
    if name == "pair":
        from .annotations.pairs import pair

        return pair
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
