"""Vocabularies and encoders made from text."""
