"""The encoder in PyTorch, for training and prediction."""
