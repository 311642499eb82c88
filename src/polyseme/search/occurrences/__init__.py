"""Corpus and encoder → an index of every occurrence of every word → its uses. 词的用法索引

in    a ``Corpus``, any ``ContextEncoder`` (a word's state, or for ELMo the states that predict it)
out   a folder: one short code per occurrence, ordered by word; answers as ``WordSenses``, ``Hit`` and ``Listing``

Read ``index.py`` first: what can be asked, and how few lines a question takes. Then, in the order of the data:

build          reads the corpus once, writes each code to its place, goes on where it was stopped
short_codes    states → codes → scores: a projection learned from a sample, int8 or float16
sorting        the place of each occurrence, in memory that does not grow with the text
index_folder   the files, and how an index finds its model and corpus again
cells          inverted lists for questions to all words of a large index, with their measured recall
uses           clusters of a word's occurrences, what labels them, every occurrence put to one of them
cluster        principal components, Gaussian mixtures by BIC, silhouettes: pure functions of arrays
splits         what an index learns of itself: cut-offs of scores, words that split
hits           what the index answers with

A word's occurrences are contiguous, so questions about one word are exact. May import ``kwic`` and what is below
``search``; ``texts`` takes its cells from here.
"""
