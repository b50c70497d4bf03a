"""Which engines of exported encoders are installed where the tests run."""

from importlib.util import find_spec

import pytest

# Not imported here: OpenVINO reports that it was imported, unless the package prevents it.
needs_openvino = pytest.mark.skipif(
    find_spec("openvino") is None, reason="OpenVINO is not installed: pip install openvino"
)
