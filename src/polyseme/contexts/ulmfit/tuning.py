"""An AWD-LSTM that learns with a task: words from units, long texts in stretches whose state is handed on (BPT3C)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.ulmfit.awd import AwdLstm
from polyseme.contexts.ulmfit.units import BOUNDARY, Units
from polyseme.neural.lstm import State
from polyseme.neural.packing import Packing

STRETCH = 70  # units through which a gradient goes back in time
LEARNING = 20  # stretches at the end of a text that a gradient reaches at all, so that memory is bounded


class UnitReader:
    """Sentences of words as units, and which unit's state is each word's."""

    def __init__(self, units: Units, direction: str) -> None:
        self.units, self.backward = units, direction == "backward"

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        """``(B, U)`` units after a boundary, in the order in which they are read; their lengths; ``(B, T)`` places."""
        numbered = [self.units.numbers(list(words)) for words in sentences]
        lengths = [len(units) + 1 for units, _ in numbered]
        index = np.full((len(sentences), max(lengths)), BOUNDARY, dtype=np.int64)
        places = np.zeros((len(sentences), max(max(map(len, sentences)), 1)), dtype=np.int64)
        for row, (units, sizes) in enumerate(numbered):
            ends = np.cumsum(np.array(sizes, dtype=np.int64))
            index[row, 1 : lengths[row]] = units[::-1] if self.backward else units
            places[row, : len(ends)] = len(units) - (ends - sizes) if self.backward else ends
        return torch.from_numpy(index), torch.tensor(lengths), torch.from_numpy(places)


class UlmfitLayers(nn.Module):
    """Layers of an AWD-LSTM as vectors of words."""

    def __init__(self, awd: AwdLstm, dim: int, wanted: Sequence[int]) -> None:
        super().__init__()
        self.awd, self.dim, self.wanted = awd, dim, list(wanted)

    def forward(self, index: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """``(B, T, L, D)``; layers narrower than D are filled up with zeros."""
        packing = Packing.of(lengths.tolist())
        rows, times = (torch.from_numpy(of).to(index.device) for of in (packing.row, packing.time[0]))
        packed = torch.zeros_like(index)
        packed[rows, times] = torch.arange(len(rows), device=index.device)
        wanted = packed.gather(1, places)  # (B, T) among the packed units
        planes = self._planes(index[rows, times], packing.sizes)
        return torch.stack([F.pad(planes[n], (0, self.dim - planes[n].shape[1]))[wanted] for n in self.wanted], dim=2)

    def _planes(self, units: Tensor, sizes: list[int]) -> list[Tensor]:
        """For each layer, the states after all packed units, ``(N, width)``."""
        starts = list(range(0, len(sizes), STRETCH))
        found, states, done = [], None, 0
        for number, start in enumerate(starts):
            steps = sizes[start : start + STRETCH]
            n = sum(steps)
            with torch.set_grad_enabled(torch.is_grad_enabled() and number >= len(starts) - LEARNING):
                read = self.awd(units[done : done + n], steps, states)
            states = [State(state.h.detach(), state.c.detach()) for state in read.states]
            found.append(read.planes)
            done += n
        return [torch.cat(parts) for parts in zip(*found, strict=True)]
