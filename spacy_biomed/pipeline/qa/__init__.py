"""The component `biomed_qa`, and its scores."""
