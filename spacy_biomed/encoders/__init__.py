"""The encoder catalogue, the transformer models, and word-piece alignment."""
