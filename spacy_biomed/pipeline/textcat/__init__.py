"""The component `biomed_textcat`, and its scores."""
