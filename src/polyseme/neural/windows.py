"""Convolutions over the tokens of a text with max pooling, and hand-written gradients (窗口卷积的最大池化及其梯度).

    m_f = max_i  w_f · [x_i; …; x_i+h-1] + b_f,    i from ``margin`` positions before the first token on

Texts are concatenated with ``margin`` zeros between them, so there is no padding to multiply, and every window is
contiguous in memory. Only the window with the maximum gets a gradient: autograd also computes those of the others,
which takes two thirds of the training time of a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F


def window_maxima(x: Tensor, mask: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """``(B, T, D)``, and for each width h a weight ``(n, h, D)`` and a bias ``(n,)`` → maxima ``(B, Σ n)``.

    A text is padded on each side with one zero fewer than the widest window has positions, so its windows do not depend
    on the rest of the batch.
    """
    margin = max(weight.shape[1] for weight in weights) - 1
    lengths = mask.sum(dim=1)
    if x.dtype == torch.float32 and x.device.type == "cpu":
        sizes = np.maximum(lengths.numpy(), 1)
        starts = np.cumsum(sizes + margin) - sizes  # first token of each text in the concatenation
        total = int(starts[-1] + sizes[-1] + margin)
        flat = x.new_zeros(total, x.shape[2])
        row, place = mask.nonzero(as_tuple=True)
        flat = flat.index_put((torch.from_numpy(starts)[row] + place,), x[row, place])
        found: Tensor = _WindowMaxima.apply(flat, starts, sizes, margin, *weights)  # type: ignore[no-untyped-call]
        return found + torch.cat(list(biases))
    padded = F.pad(x * mask.unsqueeze(-1), (0, 0, margin, margin)).transpose(1, 2)  # (B, D, T + 2 margin)
    parts = []
    for weight, bias in zip(weights, biases, strict=True):
        scores = F.conv1d(padded, weight.transpose(1, 2), bias)
        last = (lengths.clamp_min(1) + 2 * margin - weight.shape[1]).unsqueeze(1)
        real = torch.arange(scores.shape[2], device=x.device) <= last
        parts.append(scores.masked_fill(~real.unsqueeze(1), -torch.inf).amax(dim=2))
    return torch.cat(parts, dim=1)


class _WindowMaxima(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, flat: Tensor, starts: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], margin: int, *weights: Tensor
    ) -> Tensor:
        from polyseme.neural.kernels import stretch_maxima

        parts, places = [], []
        for weight in weights:
            n, width, _ = weight.shape
            windows = len(flat) - width + 1
            scores = flat[:windows] @ weight[:, 0].t()  # (windows, n)
            for offset in range(1, width):
                scores.addmm_(flat[offset : offset + windows], weight[:, offset].t())
            first = starts - margin
            last = starts + sizes + margin - width
            best, where = flat.new_empty(len(starts), n), np.empty((len(starts), n), dtype=np.int32)
            stretch_maxima(scores.numpy(), first, last, best.numpy(), where)
            parts.append(best)
            places.append(where)
        ctx.save_for_backward(flat, *weights)
        ctx.places = places
        return torch.cat(parts, dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from polyseme.neural.kernels import stretch_gradients

        flat, *weights = ctx.saved_tensors
        d_flat = torch.zeros_like(flat)
        d_weights = []
        parts = torch.split(grad, [len(weight) for weight in weights], dim=1)
        for weight, where, part in zip(weights, ctx.places, parts, strict=True):
            d_weight = torch.zeros_like(weight)
            stretch_gradients(
                part.contiguous().numpy(), where, flat.shape[1], flat.view(-1).numpy(), weight.flatten(1).numpy(),
                d_flat.view(-1).numpy(), d_weight.flatten(1).numpy(), ctx.needs_input_grad[0],
            )  # fmt: skip
            d_weights.append(d_weight)
        return (d_flat if ctx.needs_input_grad[0] else None, None, None, None, *d_weights)
