"""Training Transformers from a corpus: BERT, GPT, XLM. 预训练

in    a ``Corpus`` (XLM: several, and parallel text), and perhaps a model to go on from
out   a ``TrainedTransformer`` of the method

Read ``bert.py`` first: from options to a trained model in one page, with what differs from the paper; ``gpt.py`` and
``xlm.py`` have the same order. They are made of these:

corpus_tokens       the corpus as subwords, on disk
training_examples   segments of a stream or pairs of segments, drawn anew in every epoch; which subwords are masked
objectives          the tasks of the training loop: predict masked subwords, or the next one
start               the first network: a new one of some shape, or a copy of a given model

MT-DNN, which learns labelled tasks together, is ``tasks/multitask.py``.
"""
