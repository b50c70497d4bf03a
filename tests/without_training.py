"""Run code in a process, as if the packages of the extra `train` were not installed or as it is."""

import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "transformers", "spacy_transformers", "accelerate")

# At the beginning of code: the packages of the extra `train` are not to be found.
WITHOUT_TRAINING = f"""
import importlib.metadata
import sys
from importlib.machinery import PathFinder

class Present(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        is_absent = name.partition(".")[0] in {HEAVY}
        return None if is_absent else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Present
discover = importlib.metadata.Distribution.discover
importlib.metadata.Distribution.discover = lambda **context: (
    found for found in discover(**context) if found.name.replace("-", "_") not in {HEAVY}
)
import spacy
"""


def run_code(code: str, folder: Path | None = None) -> str:
    """Run code in a new process; return what it prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
