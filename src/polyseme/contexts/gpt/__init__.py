"""GPT: a Transformer trained to predict the next subword of a text."""
