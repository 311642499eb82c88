"""Contextual word vectors 语境词向量: one vector per occurrence of a word."""
