"""Processes that stay alive and answer requests, alone (`process`) or several (`pool`)."""
