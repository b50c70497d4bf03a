"""Scores by task, benchmarks of speed and size, and leakage of personal data."""
