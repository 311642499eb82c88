"""The hot loops of the word methods, compiled by Numba."""
