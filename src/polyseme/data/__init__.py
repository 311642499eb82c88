"""Labelled and parallel data, recognised by content. 标注数据与平行语料

in    tables (TSV, CSV, JSON lines), CoNLL columns, SQuAD, multiple choice, aligned texts; files, folders or rows in
      memory
out   ``Examples`` (rows of one kind with their labels) or ``Parallel`` (two texts, line by line), each with facts, a
      fingerprint and a segmentation, as a Corpus has

Read ``examples.py`` first, then ``rows.py``: the five kinds of rows (texts, pairs, tags, spans, choices) and how many
of them are stored. How a file becomes rows:

detect                 which kind of file it is; rows of several files together, unreadable ones reported by line
tables, columns        tables: the format, then which column is the text and which the label
labels                 classes or scores
conll, squad, choices  the formats with a shape of their own
parallel               two texts, aligned line by line

``statistics`` counts labels and splits rows (held out, folds). ``training_data`` is the gate for ``train`` and
``fit``: it turns what a person gives (a path, files, a mapping) into the kinds of data that the method's catalog row
``learns_from``, or says in one line what to give. May import ``text``, ``disk`` and what is below.
"""
