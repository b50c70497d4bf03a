"""Annotation layers of a Doc: where they are stored, and their extension attributes."""
