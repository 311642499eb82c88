"""Context encoders as sources of token vectors (语境编码器作为词元向量的来源): frozen, or fine-tuned with the task.

γ Σ s_j h_j   of the layers h_j, at the input, at the hidden states, or at both, each with its own weights
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from polyseme.arrays import Ints
from polyseme.contexts.fine_tuning import GivenEncoder, Tunable, TunableEncoder, transformer_of
from polyseme.errors import FormatError, OptionError
from polyseme.interfaces import ContextEncoder, Layers, Progress, silent
from polyseme.learn.token_vectors import (
    Flat,
    SourceModule,
    TokenInputs,
    TokenLists,
    TokenVectorSource,
    offsets_of,
)
from polyseme.neural.layers import ScalarMix

IN_MEMORY = 1 << 30  # bytes of an encoder's vectors; if there are more, they are kept in a file


class FrozenLayers(TokenVectorSource):
    """Layers of a frozen context encoder: it runs once over the texts, and its vectors are kept.

    ``layers`` is ``mix`` (a learned weighted sum, separate for input and hidden states) or the choice of one layer.
    """

    def __init__(self, encoder: ContextEncoder, layers: str, at: str) -> None:
        self.encoder, self.layers = encoder, Layers.read("all" if layers == "mix" else layers, encoder.n_layers)
        self.choice = "all" if layers == "mix" else layers
        self.module = LayerSums(self.layers.n_planes, encoder.dim, at, learned=layers == "mix")

    def prepare(self, lists: TokenLists, progress: Progress = silent) -> TokenInputs:
        offsets = offsets_of(lists)
        shape = (int(offsets[-1]), self.layers.n_planes, self.encoder.dim)
        values = _room_for(shape)
        done = 0
        for encoded in self.encoder.encode_tokens(lists, layers=self.choice):
            size = len(encoded.tokens)
            values[done : done + size] = encoded.layers.transpose(1, 0, 2)
            done += size
            progress("encoding", done, shape[0])
        if done != shape[0]:
            raise FormatError(f"the encoder gave vectors for {done:,} tokens, but there are {shape[0]:,}")
        return _Layers(Flat(values, offsets))


def _room_for(shape: tuple[int, ...]) -> NDArray[np.float32]:
    size = int(np.prod(shape)) * 4
    if size <= IN_MEMORY:
        return np.empty(shape, dtype=np.float32)
    file = tempfile.TemporaryFile(prefix="polyseme-features-")  # noqa: SIM115 (it lives as long as the map)
    return np.memmap(file, dtype=np.float32, mode="w+", shape=shape)


class _Layers(TokenInputs):
    def __init__(self, flat: Flat) -> None:
        self.flat = flat

    def batch(self, rows: Ints, longest: int) -> tuple[Tensor, ...]:
        return (torch.from_numpy(self.flat.padded(rows, longest)),)  # (B, T, L, D)


class TunedLayers(TokenVectorSource):
    """Layers of a context encoder that is fine-tuned with the task: it runs on every batch.

    ``overlapping`` is False for what an older version fine-tuned: long sentences are read as they were learned from.
    """

    def __init__(self, encoder: ContextEncoder, layers: str, at: str, *, overlapping: bool = True) -> None:
        if not isinstance(encoder, Tunable):
            name = getattr(encoder, "method", type(encoder).__name__)
            raise OptionError(f"method {name} cannot be fine-tuned: use encoder_mode=frozen")
        chosen = Layers.read("all" if layers == "mix" else layers, encoder.n_layers)
        transformer = transformer_of(encoder)
        self.encoder, self.has_windows, self.overlapping = encoder, transformer is not None, overlapping
        self.tuned = (
            encoder.tuned(chosen.numbers)
            if transformer is None
            else transformer.tuned(chosen.numbers, overlapping=overlapping)
        )
        sums = LayerSums(len(chosen.numbers), encoder.dim, at, learned=layers == "mix")
        self.module = TunedSums(self.tuned, sums)

    def prepare(self, lists: TokenLists, progress: Progress = silent) -> TokenInputs:
        return _Sentences(self.tuned.read, lists)


class _Sentences(TokenInputs):
    def __init__(self, read: Callable[[TokenLists], tuple[Tensor, ...]], lists: TokenLists) -> None:
        self.read, self.lists = read, lists

    def batch(self, rows: Ints, longest: int) -> tuple[Tensor, ...]:
        return self.read([self.lists[row] for row in rows.tolist()])


class TunedSums(GivenEncoder, SourceModule):
    """A network that is fine-tuned, and the weighted sums of its layers."""

    def __init__(self, tuned: TunableEncoder, sums: LayerSums) -> None:
        super().__init__(tuned.network, tuned.layers)
        self.sums = sums
        self.dim, self.beside = sums.dim, sums.beside

    def forward(self, *batch: Tensor) -> tuple[Tensor | None, Tensor | None]:
        layers: Tensor = self.network(*batch)
        if self.sums.mixes is None and layers.shape[2] > 1:
            layers = layers.mean(dim=2, keepdim=True)
        at_places: tuple[Tensor | None, Tensor | None] = self.sums(layers)
        return at_places


class LayerSums(SourceModule):
    """γ Σ s_j h_j at the input, at the hidden states, or at both with separate weights."""

    def __init__(self, n_layers: int, dim: int, at: str, *, learned: bool) -> None:
        super().__init__()
        self.dim = dim if at in ("input", "both") else 0
        self.beside = dim if at in ("hidden", "both") else 0
        self.mixes = nn.ModuleList(ScalarMix(n_layers) for _ in range(2)) if learned else None

    def forward(self, *batch: Tensor) -> tuple[Tensor | None, Tensor | None]:
        layers = batch[0]  # (B, T, L, D)
        return (self._sum(layers, 0) if self.dim else None), (self._sum(layers, 1) if self.beside else None)

    def _sum(self, layers: Tensor, place: int) -> Tensor:
        if self.mixes is None:
            return layers[:, :, 0]
        mixed: Tensor = self.mixes[place](layers.permute(2, 0, 1, 3))
        return mixed

    def penalty(self, strength: float, toward: str) -> Tensor | None:
        """λ Σ s² over the weights in use, or λ ‖softmax(s) - 1/L‖² toward a uniform sum."""
        if self.mixes is None:
            return None
        used = [mix for mix, width in zip(self.mixes, (self.dim, self.beside), strict=True) if width]
        return torch.stack([mix.penalty(strength, toward) for mix in used if isinstance(mix, ScalarMix)]).sum()
