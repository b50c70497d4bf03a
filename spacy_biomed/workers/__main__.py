"""A process of `process.start_worker`: `python -m spacy_biomed.workers MODULE:CLASS`."""

import sys
from pkgutil import resolve_name

from .process import serve

if __name__ == "__main__":
    serve(resolve_name(sys.argv[1])())
