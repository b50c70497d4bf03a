"""Readers of published formats, one module each; all of them give Document objects."""
