"""Compression of a trained pipeline, and the model card of its wheel."""
