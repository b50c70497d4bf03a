"""Corpora: the catalogue, the tokenizer, and conversion to .spacy files."""
