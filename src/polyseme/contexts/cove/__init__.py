"""CoVe: contextual word vectors from the encoder of a translation model. 机器翻译所得的语境向量

in    ``Parallel`` text and, by option, word vectors to read it with
out   ``Cove``: the layers of the translation model's encoder; it also translates

Read ``model.py`` first (the encoder and ``translate``), then ``network.py`` (the MT-LSTM, its decoder with attention).

target_vocabulary   the words that are read and written, by number
train               aligned sentences → batches → a trained model; sampled softmax
files               the weights that were published with the paper
options             the options, without torch
"""
