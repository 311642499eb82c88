"""BERT: a Transformer that learns to tell masked pieces from both sides of them."""
