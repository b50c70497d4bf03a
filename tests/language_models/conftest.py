"""Shared fixtures of the tests of language models."""

from pathlib import Path

import pytest
import torch
from distillation_recipe import SENTENCES


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """Use one thread: faster for such small models, and the numbers are reproducible."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def text(tmp_path_factory) -> Path:
    """A few repeated sentences, one per line."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(SENTENCES * 6))
    return path
