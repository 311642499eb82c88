"""Corpus and encoder → an index of every occurrence of every word → its uses. 词的用法索引"""
