"""Surrogates for personal data, the kinds of it, and the lists of terms."""
