"""The component `biomed_linker`, its candidates, and their ranking."""
