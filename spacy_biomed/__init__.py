"""Biomedical and clinical transformers as spaCy pipelines."""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

from .lazy_names import attach

# Set here, before any module of the package imports the libraries that read these variables. ONNX
# Runtime would send telemetry to its makers and store a device id in the home directory; requests
# to the hub for an encoder would include the versions of installed packages.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

__version__ = version("spacy-biomed")

# Imported on demand: the package itself imports neither spaCy nor libraries of a feature.
if TYPE_CHECKING:
    from .annotations.pairs import pair
    from .errors import BiomedError
else:
    __getattr__, __dir__ = attach(
        __name__, {"annotations.pairs": ["pair"], "errors": ["BiomedError"]}
    )

__all__ = ["BiomedError", "pair"]
