"""The inner loops of the word methods, compiled by Numba."""
