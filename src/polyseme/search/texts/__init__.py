"""Texts by meaning, by words, or by both. 语义检索"""
