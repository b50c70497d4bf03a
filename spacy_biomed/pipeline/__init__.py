"""spaCy components, one module each."""
