"""How good a model is: one file → one table. 评测

in    a model (vectors of words, contexts or sentences, a language model) and a file in one of the field's formats
out   a ``Report``: a row for each section of the file and one for the whole, with the figures, and of how many items
      (``used`` of ``total``) the model could be asked

Read ``kinds.py`` first: the table of the kinds of files, each recognised by its content, and ``evaluate_file``. A kind
is two functions in one of the next four files, ``fits_KIND`` and ``evaluate_KIND``; ``report.py`` has their settings,
the report, and how a file of any encoding is read.

word_pairs       similarity, analogies (their inner loop in ``kernels_analogy``)
sentence_pairs   similarity of sentences (STS), a word in two contexts (WiC)
retrieval        the right texts among others, translations, the perplexity of plain text
transfer         labelled texts and pairs under a logistic regression, which is here too; ``probing`` asks it what a
                 vector knows of its sentence

compare          several models on several files, side by side
dimension        which vector length suits a corpus (PIP loss)
tag_agreement    whether near occurrences of a word have the same tag

Texts become vectors through ``lift``, so every model is asked every question that it can be. Nothing is learned here
but the regression; heads that learn are in ``tasks``. May import ``search`` and what is below, but not torch.
"""
