"""Formats in which word vectors are published. 词向量的公开格式

Read ``models.py`` first: a file → ``WordVectors``, and back. ``word2vec`` has the text and binary format and its
relatives (GloVe, fastText's .vec), ``fasttext`` the .bin and .ftz models, ``polyglot`` its pickle, read without
running it. How a file is recognised is a row in ``catalog/formats.py``. Every size in a header is checked against the
size of the file before memory is taken.
"""
