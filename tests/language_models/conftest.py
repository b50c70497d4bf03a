"""What all tests of this room share."""

from pathlib import Path

import pytest
import torch
from distillation_recipe import SENTENCES


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Models this small are not worth two; and as many threads give the same numbers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    """A few sentences over and over, one a line."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(SENTENCES * 6))
    return path
