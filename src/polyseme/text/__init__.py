"""Raw text → a Corpus on disk. 文本

in    files, folders, stdin or lists of sentences; any common encoding, compressed or not; text, web pages, JSON lines,
      word/TAG
out   a ``Corpus``: a folder of arrays that stay on disk (the words of the text as numbers, where sentences, paragraphs
      and documents begin, the text as it was written), and a ``Vocabulary``

Read ``corpus.py`` first: ``Corpus.build`` is the whole way in ten lines. The steps, in their order:

source, encoding      files → blocks of decoded text, streamed
blocks, sentences     documents, paragraphs, sentences; what a line of each format is
normalise             NFKC, simplified or traditional, case
segment, segmenter    text → words; ``segment`` chooses, ``segmenter`` does it and is all that a worker process imports
workers               the cores share the segmentation, results stay in order
numbering             words → numbers, in order of appearance
corpus_files          numbers → files; at the end by frequency

Besides: ``vocabulary`` (words and counts), ``spacing`` (the one rule for a space between two words; words back to their
place in the text), ``strings`` (text that UTF-8 cannot hold), ``tagged`` (tag sets), ``byte_pairs`` and
``tokenizer_files`` (subwords), ``survey`` (``polyseme info``), ``options`` (how text is read, as flags).

A model keeps its ``Segmentation``: text that is given to it later is segmented as its training text was. May import
``disk`` and what is below; neither torch nor Numba, and nothing that knows of models.
"""
