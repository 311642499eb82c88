"""Blocks of torch networks, none of which knows a method by name. 网络部件

in    tensors of a batch, padded ``(B, T, D)`` with a mask, or packed ``(N, D)`` without padding
out   tensors of the same batch

Read ``batches.py`` first (a batch without padding, in the order in which an LSTM reads it), then ``recurrent.py``: LSTM
and GRU as methods use them.

lstm, gru, decoder, convolution   layers with gradients written by hand, for training on a CPU; ``kernels`` has their
                                  inner loops, compiled by Numba
softmax     over a sample of a large vocabulary
layers      attention, pooling, dropout, Transformer blocks, a learned sum of an encoder's layers
crf         a chain of tags
batches     texts of similar length in one batch, packed without padding
weights     torch files, read without executing anything

Whatever the batch, a row comes out the same: padding is masked or left out. May import torch, and of this package
what is below; methods are above.
"""
