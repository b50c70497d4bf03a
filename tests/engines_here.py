"""Which engines of exported encoders are installed where the tests run."""

import pytest

from spacy_biomed.encoders.onnx.engines import is_installed

# Not imported here: OpenVINO reports that it was imported, unless the package prevents it.
needs_openvino = pytest.mark.skipif(
    not is_installed("openvino"), reason="OpenVINO is not installed: pip install openvino"
)
