"""ULMFiT: the AWD-LSTM language model, its training and its vectors. 通用语言模型微调

in    a ``Corpus``; to go on from an older model, that model too
out   ``Ulmfit``: the hidden states at each word, predictions of the next unit, and, reading forward, new text

Read ``network.py`` first (the AWD-LSTM and its dropouts), then ``model.py`` (the encoder that users hold).

units     words, characters or subwords: text → numbers, and numbers → text
train     the text as one stream in parallel rows → a trained model, from scratch or from another
options   the options, without torch

The classifier over it, the third stage of the paper, is a head of ``fit classify``.
"""
