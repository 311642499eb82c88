"""One training loop for every torch model."""
