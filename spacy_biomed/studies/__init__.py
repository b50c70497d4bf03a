"""Experiments over many trainings, and their reports."""
