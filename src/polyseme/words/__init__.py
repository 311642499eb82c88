"""One vector per word. 静态词向量"""
