"""One vector per word. 静态词向量

in    a ``Corpus``, or a published file
out   ``WordVectors``: a vocabulary and a float32 matrix, and with some methods the vectors of subwords or of contexts

Read ``vectors.py`` first: every query is there, whatever the method. Then ``word2vec.py`` for what a method looks
like: name, paper, formula, class.

word2vec, fasttext, cw2vec, glove, wordrank   trained by compiled loops (``kernels/``); ``epochs`` is their training run
counts, svd                  counted, not trained (``sparse``, ``cooccurrence``); one-hot vectors too
nnlm, polyglot               torch networks (``networks``, ``neural``)
fasttext_classifier, distil  a text classifier; vectors averaged from a context encoder

``nearest`` is the search for neighbours, of words, occurrences and in evaluations. ``files/`` has the published
formats. May import ``training``, ``store`` and what is below; torch only in the files of the neural methods, Numba
only in ``kernels/``.
"""
