"""NNLM and Polyglot in plain torch, as a tutorial would write them: dense gradients, Adam on all weights."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

BATCH, STEPS = 1024, 8


def _speed(network: nn.Module, step: Callable[[torch.Tensor], torch.Tensor], n_words: int, width: int) -> float:
    """Thousand words per CPU-second, measured on a few steps with random words."""
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    torch.manual_seed(0)
    begun = 0.0
    for number in range(STEPS + 1):
        if number == 1:
            begun = time.process_time()
        windows = torch.randint(0, n_words, (BATCH, width))
        optimiser.zero_grad()
        step(windows).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return STEPS * BATCH / 1000 / (time.process_time() - begun)


def plain_nnlm(n_words: int, order: int = 5, dim: int = 100, hidden: int = 100) -> float:
    words, inner, out = nn.Embedding(n_words, dim), nn.Linear((order - 1) * dim, hidden), nn.Linear(hidden, n_words)

    def step(windows: torch.Tensor) -> torch.Tensor:
        scores = out(torch.tanh(inner(words(windows[:, 1:]).flatten(1))))
        return F.cross_entropy(scores, windows[:, 0])

    return _speed(nn.ModuleList([words, inner, out]), step, n_words, order)


def plain_polyglot(n_words: int, radius: int = 2, dim: int = 64, hidden: int = 32) -> float:
    width = 2 * radius + 1
    words, inner, out = nn.Embedding(n_words, dim), nn.Linear(width * dim, hidden), nn.Linear(hidden, 1)

    def step(windows: torch.Tensor) -> torch.Tensor:
        wrong = windows.clone()
        wrong[:, radius] = torch.randint(0, n_words, (len(windows),))
        true, replaced = (out(torch.tanh(inner(words(w).flatten(1)))) for w in (windows, wrong))
        return torch.relu(1 - true + replaced).mean()

    return _speed(nn.ModuleList([words, inner, out]), step, n_words, width)
