"""The published formats of word vectors."""
