"""Every place where a string, a pattern or words stand, in context. 语料检索

in    a ``Corpus`` and a query: a string, a regular expression (with a limit of time), words with wildcards and tags
out   a ``Concordance``: how often, how evenly, each match in its sentence, sorted; frequencies of documents; collocates

``patterns`` finds the matches in the corpus's bytes or word numbers; ``concordance`` is what one does with them, and
has the formulas of the scores of collocates and of dispersion. Read ``concordance`` first. Positions are of words where
words were asked for, else of bytes, which become words only when they are needed.
"""
