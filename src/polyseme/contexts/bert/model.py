"""BERT (基于掩码语言模型的语境词向量): hidden states of a Transformer trained to predict masked subwords.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2018.

    max Σ over the masked subwords i of log p(x_i | x with 15 % masked)  [+ log p(does B follow A)],
    p = softmax(W_emb · norm(gelu(W h_i)) + b)

What differs from the paper: subwords are learned from the corpus; masks and pairs are drawn anew in every epoch; whole
words are masked, as the corpus segments them (Chinese words too); the head runs on masked positions only; there is no
dropout by default; the output bias starts at the log frequency of each subword; the epsilon of the norms, GELU and the
initial weights are those of ``transformers``. Any masked language model can be trained further, including published
ones.
"""

from __future__ import annotations

from typing import ClassVar

from polyseme.contexts.bert.options import BertOptions
from polyseme.contexts.transformer.trained import TrainedTransformer


class Bert(TrainedTransformer):
    """A masked language model trained here."""

    method: ClassVar[str] = "bert"
    Options: ClassVar[type] = BertOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.bert:train_bert"
    options: BertOptions
