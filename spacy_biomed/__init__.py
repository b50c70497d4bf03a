"""Biomedical and clinical transformers as spaCy pipelines."""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

from .lazy_names import attach

# Here, because this runs before anything of the package can import the libraries that read them.
# ONNX Runtime would report to its makers and keep a device id in the home directory; calls to the
# hub, where an encoder is asked for by its hub id, would say what is installed here.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

__version__ = version("spacy-biomed")

# The package itself imports neither spaCy nor anything that a feature needs.
if TYPE_CHECKING:
    from .annotations.pairs import pair
    from .errors import BiomedError
else:
    __getattr__, __dir__ = attach(
        __name__, {"annotations.pairs": ["pair"], "errors": ["BiomedError"]}
    )

__all__ = ["BiomedError", "pair"]
