"""Transformer encoders: published ones of every architecture that ``transformers`` knows, and those trained here."""
