"""Configs: sections checked by pydantic, the lines of settings, errors in one line."""
