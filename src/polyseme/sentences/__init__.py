"""One vector per text. 句向量

in    texts (a Corpus, labelled texts or pairs, parallel text, as the method's catalog row says), and encoders of words
      or of words in context that are lifted to texts
out   a ``SentenceEncoder``: ``encode(texts)`` → ``(n, dim)``

Read ``lift.py`` and ``pooled.py`` first: vectors of texts from vectors of words, by a mean or better. Then, by what a
method learns from:

bag_of_words, softbow, doc2vec    texts; counts and documents, no torch
encoders, learned                 labelled texts: DAN, TextCNN, DCNN, RNN, self-attention, HAN, each a page long
infersent, matching               labelled pairs
sentence_order, rae               the order of sentences, the trees over them
conversation, universal           answers to questions; several tasks at once (GenSen, USE)
transformer, token_table, use_multilingual   published encoders; ``files/`` has their formats

``word_weights`` has what a pooling is fitted on, ``options`` the options of poolings and of encoders that learn,
without torch. How an encoder learns from labels is in ``learn``, one room below; tasks over encoders are in
``tasks``, one above.
"""
