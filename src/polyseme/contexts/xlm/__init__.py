"""XLM: one Transformer for several languages (cross-lingual language model)."""
