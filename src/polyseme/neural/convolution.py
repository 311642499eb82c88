"""Convolutions, and the highway layers above them.

Convolutions over the characters of words with max pooling, and hand-written gradients (字符卷积及其梯度).

A convolution is a sum over its offsets, so each *distinct character* of a batch is multiplied once by the weights of
every offset where it can occur, and a window of a word is a sum of rows of these products: with 2,048 filters, a tenth
of the work of convolving every word. The character at position p of a word can only occur at offsets up to p, so in
short words few characters need the far offsets of wide filters. In the backward pass only the window with the maximum
gets a gradient.

Convolutions over the tokens of a text with max pooling, and hand-written gradients (窗口卷积的最大池化及其梯度).

    m_f = max_i  w_f · [x_i; …; x_i+h-1] + b_f,    i from ``margin`` positions before the first token on

Texts are concatenated with ``margin`` zeros between them, so there is no padding to multiply, and every window is
contiguous in memory. Only the window with the maximum gets a gradient: autograd also computes those of the others,
which takes two thirds of the training time of a convolution.

Highway layers with hand-written gradients (高速公路层及其梯度).

Srivastava et al., "Highway Networks", 2015:  y = g·relu(x T + t) + (1 - g)·x  with  g = σ(x G + γ).

In training on the CPU in float32, the elementwise part is one compiled loop in each pass instead of sixteen torch
operations, and the two products that give the gradient of the input are accumulated in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.arrays import Ints


def spelling_maxima(letters: Ints, lengths: Ints, slots: int, table: Tensor, convolutions: nn.ModuleList) -> Tensor:
    """Character ids ``(W, C)`` of words with ``lengths (W,)`` → maxima over all windows ``(W, filters)``, plus biases.

    Words are padded to ``slots`` characters. ``table (A, d)`` holds the character embeddings, that of padding last.
    """
    layers = [c for c in convolutions if isinstance(c, nn.Conv1d)]
    weights = (c.weight for c in layers)
    maxima: Tensor = _SpellingMaxima.apply(  # type: ignore[no-untyped-call]
        letters, lengths, slots, len(table) - 1, table, *weights
    )
    return maxima + torch.cat([c.bias for c in layers if c.bias is not None])


@torch.no_grad()
def lay_out_by_offset(convolutions: nn.ModuleList) -> None:
    """Store the weights ``(n, d, w)`` of each convolution as ``(w, d, n)``: the matrix of an offset is then contiguous.

    Their gradients and moments have the same layout, so no training step has to transpose them.
    """
    for convolution in convolutions:
        if isinstance(convolution, nn.Conv1d):
            convolution.weight.data = _by_offset(convolution.weight.data).permute(2, 1, 0)


class _SpellingMaxima(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        letters: Ints,
        lengths: Ints,
        slots: int,
        padding: int,
        table: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        from polyseme.neural.kernels import window_maxima

        padded = np.concatenate([letters, np.full((len(letters), 1), padding)], axis=1)
        distinct, local, reach = _by_reach(padded)
        rows = table[torch.from_numpy(distinct)]  # (A, d)
        found, places = [], []
        for weight in weights:
            matrices = _by_offset(weight)  # (w, d, n)
            width, _, n = matrices.shape
            first = _first_rows(reach, width)
            products = rows.new_empty(first[-1], n)
            for matrix, (start, end) in zip(matrices, pairwise(first), strict=True):
                torch.mm(rows[: end - start], matrix, out=products[start:end])
            best, where = rows.new_empty(len(letters), n), np.empty((len(letters), n), dtype=np.int32)
            window_maxima(products.numpy(), np.array(first[:-1]), local, lengths, slots, best.numpy(), where)
            found.append(best)
            places.append(where)
        ctx.save_for_backward(rows, *weights)
        ctx.places, ctx.letters, ctx.lengths, ctx.slots = places, local, lengths, slots
        ctx.distinct, ctx.reach, ctx.table_shape = distinct, reach, table.shape
        return torch.cat(found, dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from polyseme.neural.kernels import window_gradients

        rows, *weights = ctx.saved_tensors
        d_rows = torch.zeros_like(rows)
        d_weights = []
        parts = torch.split(grad, [len(weight) for weight in weights], dim=1)
        for weight, where, part in zip(weights, ctx.places, parts, strict=True):
            matrices = _by_offset(weight)
            width, _, n = matrices.shape
            first = _first_rows(ctx.reach, width)
            d_products = rows.new_zeros(first[-1], n)
            window_gradients(
                part.contiguous().numpy(), np.array(first[:-1]), ctx.letters, ctx.lengths, ctx.slots, where,
                d_products.numpy(),
            )  # fmt: skip
            d_matrices = torch.empty_like(matrices)
            for j, (start, end) in enumerate(pairwise(first)):
                d_rows[: end - start].addmm_(d_products[start:end], matrices[j].t())
                torch.mm(rows[: end - start].t(), d_products[start:end], out=d_matrices[j])
            d_weights.append(d_matrices.permute(2, 1, 0))
        d_table = rows.new_zeros(ctx.table_shape)
        d_table[torch.from_numpy(ctx.distinct)] = d_rows
        return (*(None,) * 4, d_table, *d_weights)


def _by_offset(weight: Tensor) -> Tensor:
    """``(n, d, w)`` → ``(w, d, n)``, contiguous; without a copy if it has this layout already."""
    return weight.permute(2, 1, 0).contiguous()


def _by_reach(letters: Ints) -> tuple[Ints, Ints, Ints]:
    """The distinct characters by decreasing last position; ``letters (W, C)`` as indices into them; these positions.

    The last column is padding, which occurs at every later position too.
    """
    distinct, local = np.unique(letters, return_inverse=True)
    local = local.reshape(letters.shape)
    reach = np.zeros(len(distinct), dtype=np.int64)
    for place, column in enumerate(local.T):
        reach[column] = place
    reach[local[:, -1]] = np.iinfo(np.int64).max
    order = np.argsort(-reach, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[local], reach[order]


def _first_rows(reach: Ints, width: int) -> list[int]:
    """The first row of each offset's products, and the end: offset j needs the characters that occur at j or later."""
    return [0, *np.cumsum(np.searchsorted(-reach, -np.arange(width), side="right")).tolist()]


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
        maxima: Tensor = _WindowMaxima.apply(flat, starts, sizes, margin, *weights)  # type: ignore[no-untyped-call]
        return maxima + torch.cat(list(biases))
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


def highways(transforms: nn.ModuleList, gates: nn.ModuleList, x: Tensor) -> Tensor:
    """Pass ``x (W, n)`` through the highway layers, each with a linear transform and a linear gate."""
    learns = torch.is_grad_enabled() and (x.requires_grad or any(p.requires_grad for p in transforms.parameters()))
    compiled = learns and x.dtype == torch.float32 and x.device.type == "cpu"
    for transform, gate in zip(transforms, gates, strict=True):
        assert isinstance(transform, nn.Linear)
        assert isinstance(gate, nn.Linear)
        if compiled:
            weights = transform.weight, transform.bias, gate.weight, gate.bias
            x = _Highway.apply(x, *weights)  # type: ignore[no-untyped-call]
        else:
            opened = torch.sigmoid(gate(x))
            x = opened * torch.relu(transform(x)) + (1 - opened) * x
    return x


class _Highway(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w_transform: Tensor, b_transform: Tensor, w_gate: Tensor, b_gate: Tensor
    ) -> Tensor:
        from polyseme.neural.kernels import highway_forward

        x = x.contiguous()
        transformed = torch.addmm(b_transform, x, w_transform.t())  # (W, n)
        opened = torch.addmm(b_gate, x, w_gate.t())  # (W, n)
        y = torch.empty_like(x)
        highway_forward(x.numpy(), transformed.numpy(), opened.numpy(), y.numpy())
        ctx.save_for_backward(x, w_transform, w_gate, transformed, opened)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        from polyseme.neural.kernels import highway_backward

        x, w_transform, w_gate, transformed, opened = ctx.saved_tensors
        d_transformed, d_opened, dx = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        highway_backward(
            grad.contiguous().numpy(), x.numpy(), transformed.numpy(), opened.numpy(),
            d_transformed.numpy(), d_opened.numpy(), dx.numpy(),
        )  # fmt: skip
        dx.addmm_(d_transformed, w_transform).addmm_(d_opened, w_gate)
        return (
            dx,
            d_transformed.t() @ x,
            d_transformed.sum(dim=0),
            d_opened.t() @ x,
            d_opened.sum(dim=0),
        )
