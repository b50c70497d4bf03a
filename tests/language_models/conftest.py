"""What all tests of this room share."""

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Models this small are not worth two; and as many threads give the same numbers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
