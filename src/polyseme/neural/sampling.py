"""Sampling 采样 the next unit from the probabilities of a language model."""

from __future__ import annotations

import torch
from torch import Tensor

from polyseme.errors import OptionError


class Sampling:
    """Temperature, top-k and top-p (nucleus) sampling; temperature 0 takes the most likely, ``top_k`` 0 is no limit."""

    def __init__(self, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 1) -> None:
        if temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
            raise OptionError("temperature and top_k must be at least 0, top_p in (0, 1]")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self._random = torch.Generator().manual_seed(seed)

    def draw(self, log_chances: Tensor) -> int:
        """Draw an index from log probabilities ``(V,)``."""
        if not self.temperature:
            return int(log_chances.argmax())
        chances = torch.softmax(log_chances.float() / self.temperature, dim=0)
        order = torch.argsort(chances, descending=True, stable=True)
        kept = chances[order]
        if self.top_k:
            kept[self.top_k :] = 0
        kept[torch.cumsum(kept, dim=0) - kept >= self.top_p * kept.sum()] = 0  # the first always stays
        return int(order[torch.multinomial(kept, 1, generator=self._random)])
