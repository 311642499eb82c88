"""Texts by meaning, by words, or by both. 语义检索

in    lines or documents of files or of a corpus, and any model, which is lifted to a ``SentenceEncoder``
out   a ``TextIndex``, a folder to save and append to; its answers are ``TextHit``: text, source, marks, neighbours

Read ``text_index.py`` first: ``build``, ``open``, ``append``, ``search``. ``text_units`` reads the texts and says where
each came from, ``text_builder`` encodes and counts them batch by batch, ``text_vectors`` holds and compares the vectors
(all of them, or those in the nearest cells, sparse ones as they are) and names the files, ``bm25`` ranks by words.
Rankings by meaning and by words are joined by reciprocal rank fusion.
"""
