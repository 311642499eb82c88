"""ELMo: the bidirectional language model (biLM), its training, its vectors and its published files. 双向语言模型

in    a ``Corpus``, or published files (``files/``)
out   ``Elmo``: the layers of the biLM as word vectors, with learned weights to mix them, and predictions of words

Read ``bilm.py`` first (the model and its objective), then ``model.py`` (the encoder that users hold).

alphabet, options   how a word is spelt: bytes, characters, a word id
bilm_layers         what reads a sentence: LSTMs, gated convolutions, a masked Transformer
encode              sentences → vectors: each distinct word once, sentences packed by length, a cache of words
training_batches, train   a corpus → packed batches → a trained biLM; sampled softmax, reports on held-out sentences
perplexity          what a text costs: -log p of every word and boundary
plain               the same model in NumPy, for commands that read one sentence and should not wait for torch
allennlp            the classes that programs written for AllenNLP import
"""
