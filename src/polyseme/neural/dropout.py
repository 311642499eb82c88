"""Fast dropout (随机失活) on the CPU, where torch draws a double for every number, slower than an embedding lookup.

    dropped = x ⊙ m / (1 - p),   m = 1 where 16 random bits are at least p · 2¹⁶

The bits come from a fast generator seeded by torch's, so training stays reproducible. p is rounded to 1/65,536.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

BITS = 1 << 16


def dropout(x: Tensor, share: float, training: bool = True) -> Tensor:
    """``x`` with a ``share`` of its numbers set to zero and the others scaled up; ``x`` itself when not training."""
    if not training or not share:
        return x
    if x.device.type != "cpu" or share >= 1:
        return F.dropout(x, share)
    bits = np.random.SFC64(int(torch.randint(1 << 62, ()))).random_raw(-(-x.numel() // 4))  # 64 bits for 4 numbers
    kept = torch.from_numpy(bits.view(np.uint16)[: x.numel()] >= round(share * BITS)).view(x.shape)
    return x * kept.to(x.dtype).mul_(1 / (1 - share))


class Dropout(nn.Dropout):
    """``dropout`` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p, self.training)
