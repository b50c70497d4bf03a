"""From texts to padded batches and back to rows per token, in NumPy arrays."""
