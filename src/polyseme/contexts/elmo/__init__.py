"""ELMo: the bidirectional language model (biLM), its training, its vectors and its published files."""
