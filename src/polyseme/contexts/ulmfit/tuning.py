"""Fine-tuning an AWD-LSTM with a task: long texts are read in stretches, with the state carried over (BPT3C)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.ulmfit.network import AwdLstm
from polyseme.contexts.ulmfit.units import BOUNDARY, Units
from polyseme.neural.lstm import State
from polyseme.neural.packing import Packing

STRETCH = 70  # units of backpropagation through time
LEARNING = 20  # stretches at the end of a text that get gradients, so that memory is bounded


class UnitReader:
    """Turns sentences of words into units, with the unit whose state is the vector of each word."""

    def __init__(self, units: Units, direction: str) -> None:
        self.units, self.backward = units, direction == "backward"

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, ...]:
        """Units ``(B, U)`` after a boundary, in reading order; their lengths; the position of each word ``(B, T)``."""
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
    """The chosen layers of an AWD-LSTM as word vectors."""

    def __init__(self, awd: AwdLstm, dim: int, wanted: Sequence[int]) -> None:
        super().__init__()
        self.awd, self.dim, self.wanted = awd, dim, list(wanted)

    def forward(self, index: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """The layers ``(B, T, L, D)``; those narrower than D are padded with zeros."""
        packing = Packing.of(lengths.tolist())
        rows, times = (torch.from_numpy(of).to(index.device) for of in (packing.row, packing.time[0]))
        packed = torch.zeros_like(index)
        packed[rows, times] = torch.arange(len(rows), device=index.device)
        wanted = packed.gather(1, places)  # (B, T) among the packed units
        planes = self._planes(index[rows, times], packing.sizes)
        return torch.stack([F.pad(planes[n], (0, self.dim - planes[n].shape[1]))[wanted] for n in self.wanted], dim=2)

    def _planes(self, units: Tensor, sizes: list[int]) -> list[Tensor]:
        """For each layer, the states at all packed units, ``(N, width)``."""
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
