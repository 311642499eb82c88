"""GPT: a Transformer that learns to continue with a text."""
