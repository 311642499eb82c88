"""Measure vectors: similarity, analogy, perplexity."""
