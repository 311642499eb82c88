"""BERT: a Transformer trained to predict masked subwords from both sides."""
