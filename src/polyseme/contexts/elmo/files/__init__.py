"""The published formats of ELMo."""
