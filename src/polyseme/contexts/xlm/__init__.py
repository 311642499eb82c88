"""XLM: one Transformer for several languages."""
