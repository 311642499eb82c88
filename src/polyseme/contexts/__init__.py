"""One vector per occurrence of a word. 语境词向量"""
