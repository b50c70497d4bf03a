"""Surrogates for personal data, kinds of personal data, and lists of terms."""
