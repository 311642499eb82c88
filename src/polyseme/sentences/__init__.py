"""One vector per text. 句向量"""
