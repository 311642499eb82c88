"""ELMo: the biLM, its training, its vectors and its published files."""
