"""Processes that stay alive and answer requests, alone or in a pool."""
