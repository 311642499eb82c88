"""Pooling 池化: one vector from the token vectors of a text, without padding.

A text may have no tokens, but a batch must have T >= 1.
"""

from __future__ import annotations

import torch
from torch import Tensor


def mean_over(x: Tensor, mask: Tensor) -> Tensor:
    """Mean of the token vectors, ``(B, T, D), (B, T) -> (B, D)``; zeros for a text without tokens."""
    real = mask.unsqueeze(-1).to(x.dtype)
    return (x * real).sum(dim=1) / real.sum(dim=1).clamp_min(1)


def max_over(x: Tensor, mask: Tensor) -> Tensor:
    """Maximum of the token vectors, ``(B, T, D), (B, T) -> (B, D)``; zeros for a text without tokens."""
    highest = x.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)
    return highest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


def softmax_over(scores: Tensor, mask: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the unmasked positions; all zeros if there are none."""
    weights = torch.softmax(scores.masked_fill(~mask, -1e30), dim=dim)
    return weights * mask


def k_max(x: Tensor, lengths: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """k-max pooling: the ``k[b]`` greatest of the first ``lengths[b]`` values of every row, in their original order.

    ``(B, …, T) -> (B, …, K)`` with K the greatest k; zeros after the first ``min(k, length)`` values. Also returns
    these numbers of values, ``(B,)``.
    """
    widest, places = int(k.max()), x.shape[-1]
    shape = (len(x), *(1,) * (x.dim() - 1))
    kept = torch.minimum(k, lengths)
    real = torch.arange(places, device=x.device) < lengths.view(shape)
    ranked = x.masked_fill(~real, -torch.inf).sort(dim=-1, descending=True, stable=True)  # ties: the first
    order = ranked.indices[..., : min(widest, places)]
    inside = torch.arange(order.shape[-1], device=x.device) < kept.view(shape)
    order = order.masked_fill(~inside, places).sort(dim=-1).values  # those that are not kept go to the end
    padded = torch.cat([x, x.new_zeros(*x.shape[:-1], 1)], dim=-1)
    found = padded.gather(-1, order)
    if order.shape[-1] < widest:
        found = torch.cat([found, found.new_zeros(*found.shape[:-1], widest - found.shape[-1])], dim=-1)
    return found, kept


def grid_bounds(lengths: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """The start and end ``(B, cells)`` of ``cells`` equal segments of each row; in short rows segments overlap.

    Segment i of n positions is ⌊i·n/cells⌋ … ⌈(i+1)·n/cells⌉, so that none is empty and every position is covered.
    """
    number = torch.arange(cells, device=lengths.device)
    n = lengths.clamp_min(1).unsqueeze(1)
    return n * number // cells, -(-n * (number + 1) // cells)


def dynamic_max(x: Tensor, lengths: Tensor, cells: int) -> Tensor:
    """Dynamic pooling: maxima over ``cells`` segments of the first ``lengths[b]`` values of each row.

    ``(B, …, T) -> (B, …, cells)``. Socher et al. 2011. An empty row gives zeros.
    """
    starts, ends = grid_bounds(lengths, cells)
    places = torch.arange(x.shape[-1], device=x.device)
    inside = (places >= starts.unsqueeze(2)) & (places < ends.unsqueeze(2))  # (B, cells, T)
    inside &= (places < lengths.unsqueeze(1)).unsqueeze(1)
    middle = (1,) * (x.dim() - 2)
    masked = x.unsqueeze(-2).masked_fill(~inside.view(len(x), *middle, cells, -1), -torch.inf)
    found = masked.amax(dim=-1)
    return found.masked_fill(found == -torch.inf, 0.0)
