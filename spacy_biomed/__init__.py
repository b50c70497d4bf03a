"""Biomedical and clinical transformers as spaCy pipelines."""

import os
from importlib.metadata import version

from lazy_loader import attach_stub

# Set here, before any module of the package imports the libraries that read these variables. ONNX
# Runtime would send telemetry to its makers and store a device id in the home directory; requests
# to the hub for an encoder would include the versions of installed packages.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

__version__ = version("spacy-biomed")

# A module is imported when one of its names is used. `__init__.pyi` lists them.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
