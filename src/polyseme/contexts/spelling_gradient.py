"""Convolutions over the letters of words, and their maxima, with gradients of their own (字符卷积及其梯度).

A convolution is a sum over its offsets, so each *distinct letter* of a batch is multiplied once with all offsets of all
filters, and a window of a word is a sum of rows of that product: with 2,048 filters a fifth of the work of convolving
every word. Back, only the window that held the maximum gets a gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.contexts.bilm import TokenEncoder


def spelling_maxima(encoder: TokenEncoder, letters: NDArray[np.int64], lengths: NDArray[np.int64]) -> Tensor:
    """Letters ``(W, C)`` of words with ``lengths (W,)`` → maxima over the slots ``(W, filters)``, biases added."""
    convolutions = [c for c in encoder.convolutions if isinstance(c, nn.Conv1d)]
    config = encoder.config
    maxima: Tensor = _SpellingMaxima.apply(  # type: ignore[no-untyped-call]
        letters, lengths, config.max_characters, config.n_characters - 1, encoder.characters,
        *(c.weight for c in convolutions),
    )  # fmt: skip
    return maxima + torch.cat([c.bias for c in convolutions if c.bias is not None])


class _SpellingMaxima(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        letters: NDArray[np.int64],
        lengths: NDArray[np.int64],
        slots: int,
        padding: int,
        table: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        from polyseme.contexts.kernels_bilm import window_maxima

        padded = np.concatenate([letters, np.full((len(letters), 1), padding)], axis=1)
        distinct, local = np.unique(padded, return_inverse=True)
        local = local.reshape(padded.shape)
        rows = table[torch.from_numpy(distinct)]  # (A, d)
        found, places = [], []
        for weight in weights:
            n, _, width = weight.shape
            products = (rows @ _by_offset(weight)).view(len(rows), width, n)
            best, where = torch.empty(len(letters), n), np.empty((len(letters), n), dtype=np.int32)
            window_maxima(products.numpy(), local, lengths, slots, best.numpy(), where)
            found.append(best)
            places.append(where)
        ctx.save_for_backward(rows, *weights)
        ctx.places, ctx.letters, ctx.distinct, ctx.table_shape = places, local, distinct, table.shape
        return torch.cat(found, dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from polyseme.contexts.kernels_bilm import window_gradients

        rows, *weights = ctx.saved_tensors
        d_rows = torch.zeros_like(rows)
        d_weights = []
        parts = torch.split(grad, [len(weight) for weight in weights], dim=1)
        for weight, where, part in zip(weights, ctx.places, parts, strict=True):
            n, size, width = weight.shape
            d_products = torch.zeros(len(rows), width, n)
            window_gradients(part.contiguous().numpy(), ctx.letters, where, d_products.numpy())
            flat = d_products.view(len(rows), -1)
            d_rows.addmm_(flat, _by_offset(weight).t())
            d_weights.append((rows.t() @ flat).view(size, width, n).permute(2, 0, 1))
        d_table = rows.new_zeros(ctx.table_shape)
        d_table[torch.from_numpy(ctx.distinct)] = d_rows
        return (*(None,) * 4, d_table, *d_weights)


def _by_offset(weight: Tensor) -> Tensor:
    """``(n, d, w)`` → ``(d, w·n)``."""
    return weight.permute(1, 2, 0).reshape(weight.shape[1], -1)
