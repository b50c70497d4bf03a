"""Biomedical and clinical transformers as spaCy pipelines."""

from importlib.metadata import version

__version__ = version("spacy-biomed")
