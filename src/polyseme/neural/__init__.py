"""Building blocks of torch models."""
