"""Thinc architectures of the heads, and the decoding of what they predict."""
