"""The encoder in ONNX Runtime, for prediction, and the export to it."""
