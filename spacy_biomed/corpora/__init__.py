"""Text and annotations in: one module per published format, the corpus catalogue, conversion."""
