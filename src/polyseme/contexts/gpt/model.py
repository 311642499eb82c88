"""GPT (生成式语言模型的语境词向量): states of a Transformer that learned to predict the next piece.

Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018.

    max Σ_i log p(x_i | x_1 … x_{i-1}),   p = softmax(W_emb · h)

What differs from the paper: pieces are learned from the corpus, a Chinese character each one of its own; norms stand
before the layers unless ``norm="post"`` (GPT's own, ``pre`` is GPT-2's); documents end in a special piece, so that the
model finds an end; no dropout unless it is requested. Training further starts from any causal model, published ones
included.
"""

from __future__ import annotations

from typing import ClassVar

from polyseme.contexts.gpt.options import GptOptions
from polyseme.contexts.transformer.trained import TrainedTransformer


class Gpt(TrainedTransformer):
    """A causal language model that was trained here."""

    method: ClassVar[str] = "gpt"
    Options: ClassVar[type] = GptOptions
    recipe: ClassVar[str] = "polyseme.contexts.gpt.train:train_gpt"
    options: GptOptions
