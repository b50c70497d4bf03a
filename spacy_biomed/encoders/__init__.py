"""Encoders: the catalogue, loading, and the listener through which heads read them."""
