"""File formats in which word vectors are published."""
