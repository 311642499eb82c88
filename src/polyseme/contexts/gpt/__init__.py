"""GPT: a Transformer that learns to go on with a text."""
