"""Scores by task, speed, and leakage."""
