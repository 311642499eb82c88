"""GPT (生成式语言模型的语境词向量): hidden states of a Transformer trained to predict the next subword.

Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018.

    max Σ_i log p(x_i | x_1 … x_{i-1}),   p = softmax(W_emb · h)

What differs from the paper: subwords are learned from the corpus, and each Chinese character is one; norms come before
the layers unless ``norm="post"`` (``post`` is that of GPT, ``pre`` that of GPT-2); documents end with a special token,
so that the model learns to stop; there is no dropout by default. Any causal language model can be trained further,
including published ones.
"""

from __future__ import annotations

from typing import ClassVar

from polyseme.contexts.gpt.options import GptOptions
from polyseme.contexts.transformer.trained import TrainedTransformer


class Gpt(TrainedTransformer):
    """A causal language model trained here."""

    method: ClassVar[str] = "gpt"
    Options: ClassVar[type] = GptOptions
    recipe: ClassVar[str] = "polyseme.contexts.transformer.pretrain.gpt:train_gpt"
    options: GptOptions
