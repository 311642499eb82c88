"""Transformer encoders: published ones of every architecture in ``transformers``, and those trained here."""
