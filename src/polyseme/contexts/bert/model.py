"""BERT (基于掩码语言模型的语境词向量): states of a Transformer that learned to tell masked pieces.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2018.

    max Σ over the masked pieces i of log p(x_i | x with 15 % masked)  [+ log p(does B follow A)],
    p = softmax(W_emb · norm(gelu(W h_i)) + b)

What differs from the paper: pieces are learned from the corpus; masks and pairs are drawn in every epoch; whole
words are masked, as the corpus cuts them (Chinese words too); the head runs on masked places only; no dropout unless it
is requested; the output's bias begins at the log frequency of each piece; the norm's epsilon, GELU and the initial
weights are those of ``transformers``. Training further starts from any masked language model, published ones included.
"""

from __future__ import annotations

from typing import ClassVar

from polyseme.contexts.bert.options import BertOptions
from polyseme.contexts.transformer.trained import TrainedTransformer


class Bert(TrainedTransformer):
    """A masked language model that was trained here."""

    method: ClassVar[str] = "bert"
    Options: ClassVar[type] = BertOptions
    recipe: ClassVar[str] = "polyseme.contexts.bert.train:train_bert"
    options: BertOptions
