"""Transformer encoders: published ones of every architecture in ``transformers``, and those trained here.

in    a published folder (``files/``), or what ``pretrain/`` has trained
out   ``TransformerEncoder``: the layers as vectors of words, attention between words, predictions of a language model

Read ``model.py`` first. A sentence goes through these, in order:

tokenizer   text → subwords with their places in it, so that those of each word are known
encode      subwords → batches of like length; long sentences in overlapping windows; states pooled into words
network     any architecture of ``transformers`` behind one interface, built from settings and tensors read as data
language    what a masked or causal model predicts: words in a place, -log p of a text, its continuation

inference_speed, int8_kernels   int8, and layers packed for the CPU
tuning                          what a task that trains the Transformer further is given
subwords                        WordPiece and BPE learned from a corpus
trained, options                the base class of BERT, GPT and XLM trained here; their options, without torch
offline                         ``transformers`` without the hub and without output

Nothing is downloaded, and no code from a folder is executed.
"""
