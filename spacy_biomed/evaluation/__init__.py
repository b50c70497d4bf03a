"""Metrics, protocols and reports."""
