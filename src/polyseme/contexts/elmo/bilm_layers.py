"""The layers of a biLM (读取层): LSTMs as in the paper, gated convolutions, or a masked transformer.

Peters et al., "Dissecting Contextual Word Embeddings: Architecture and Representation", EMNLP 2018. All have the same
interface: packed vectors of both directions ``(2, N, P)`` in and out, each direction in its own reading order, so that
a token sees itself and the tokens read before it.

    lstm          h = LSTM(x)                                    with projection and clipping (``neural/lstm.py``)
    cnn           y = (x + a·σ(b)) √½,   [a; b] = W x_{t-w+1 … t} + c           Dauphin et al. 2017
    transformer   y = x + attend(norm x);  z = y + feed(norm y)                 a norm after the last layer

What differs from the paper: convolutions have no weight norm, and attention reaches back at most ``SPAN`` tokens, so
that the cost is linear in the length of the text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.neural.layers import sinusoids
from polyseme.neural.lstm import Clips, LstmWeights, State, packed_lstm

if TYPE_CHECKING:
    from polyseme.contexts.elmo.bilm import BiLMConfig

SPAN = 128  # tokens that a token attends to: itself and those before it


class LstmLayer(nn.Module):
    """One layer of both directions, with projection and clipping."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        hidden, size = config.hidden, config.projection
        self.clips = Clips(config.cell_clip, config.projection_clip)
        self.w_input = nn.Parameter(torch.empty(2, 4 * hidden, size))
        self.w_recurrent = nn.Parameter(torch.empty(2, 4 * hidden, size))
        self.bias = nn.Parameter(torch.empty(2, 4 * hidden))
        # bilm-tf neither projects nor clips the state if the projection would not shrink it.
        self.w_projection = nn.Parameter(torch.empty(2, size, hidden)) if size < hidden else None

    def forward(self, inputs: Tensor, sizes: Sequence[int], state: State | None = None) -> tuple[Tensor, State]:
        """Packed inputs ``(2, N, P)`` → packed states ``(2, N, P)``, and the last state of each row."""
        weights = LstmWeights(self.w_input, self.w_recurrent, self.bias, self.w_projection)
        return packed_lstm(inputs, sizes, weights, state, self.clips)

    def reset(self, generator: torch.Generator | None) -> None:
        """Initialise the weights as bilm-tf does."""
        hidden, size = self.bias.shape[1] // 4, self.w_input.shape[2]
        bound = math.sqrt(6 / (2 * size + 4 * hidden))  # Glorot on the joint (2P, 4H) matrix
        self.w_input.uniform_(-bound, bound, generator=generator)
        self.w_recurrent.uniform_(-bound, bound, generator=generator)
        self.bias.zero_()
        self.bias[:, hidden : 2 * hidden] = 1  # the forget gate
        if self.w_projection is not None:
            edge = math.sqrt(6 / (size + hidden))
            self.w_projection.uniform_(-edge, edge, generator=generator)


class ConvolutionLayer(nn.Module):
    """One gated convolution of both directions."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.width, size = config.width, config.projection
        self.weight = nn.Parameter(torch.empty(2, self.width * size, 2 * size))
        self.bias = nn.Parameter(torch.empty(2, 2 * size))

    def forward(self, inputs: Tensor, sizes: Sequence[int], state: State | None = None) -> tuple[Tensor, State]:
        """As ``LstmLayer``, but the state is empty."""
        rows, places = sizes[0] if sizes else 0, _places(sizes, inputs.device)
        grid = _on_grid(inputs, places, rows, len(sizes))  # (2, B, T, P)
        padded = F.pad(grid, (0, 0, self.width - 1, 0))
        windows = torch.cat([padded[:, :, k : k + len(sizes)] for k in range(self.width)], dim=3)
        mixed = torch.baddbmm(self.bias.unsqueeze(1), windows.flatten(1, 2)[:, places], self.weight)
        return (inputs + F.glu(mixed, dim=2)) * math.sqrt(0.5), _no_state(inputs, rows)

    def reset(self, generator: torch.Generator | None) -> None:
        """Initialise from a normal distribution that keeps the variance from input to output."""
        self.weight.normal_(0, math.sqrt(4 / self.weight.shape[1]), generator=generator)
        self.bias.zero_()


class TransformerLayer(nn.Module):
    """One layer of masked attention and feed-forward for both directions, with the norms first (pre-norm)."""

    def __init__(self, config: BiLMConfig, *, last: bool) -> None:
        super().__init__()
        size, inner = config.projection, 4 * config.projection
        self.n_heads, self.last = config.n_heads, last
        self.w_attend = nn.Parameter(torch.empty(2, size, 3 * size))
        self.w_join = nn.Parameter(torch.empty(2, size, size))
        self.w_up, self.b_up = nn.Parameter(torch.empty(2, size, inner)), nn.Parameter(torch.empty(2, inner))
        self.w_down, self.b_down = nn.Parameter(torch.empty(2, inner, size)), nn.Parameter(torch.empty(2, size))
        n_norms = 3 if last else 2
        self.scales = nn.Parameter(torch.ones(n_norms, 2, size))
        self.shifts = nn.Parameter(torch.zeros(n_norms, 2, size))

    def forward(self, inputs: Tensor, sizes: Sequence[int], state: State | None = None) -> tuple[Tensor, State]:
        """As ``LstmLayer``, but the state is empty."""
        rows = sizes[0] if sizes else 0
        x = inputs + torch.bmm(self._attended(self._normed(inputs, 0), sizes), self.w_join)
        inner = torch.relu(torch.baddbmm(self.b_up.unsqueeze(1), self._normed(x, 1), self.w_up))
        x = x + torch.baddbmm(self.b_down.unsqueeze(1), inner, self.w_down)
        return (self._normed(x, 2) if self.last else x), _no_state(inputs, rows)

    def _normed(self, x: Tensor, number: int) -> Tensor:
        plain = F.layer_norm(x, x.shape[2:])
        return plain * self.scales[number].unsqueeze(1) + self.shifts[number].unsqueeze(1)

    def _attended(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """``(2, N, P) -> (2, N, P)``: blocks of ``SPAN`` queries attend to their own block and the one before."""
        size, n_steps, rows = x.shape[2], len(sizes), sizes[0] if sizes else 0
        if not n_steps:
            return x
        places = _places(sizes, x.device)
        grid = _on_grid(torch.bmm(x, self.w_attend), places, rows, n_steps)  # (2, B, T, 3P)
        span = min(SPAN, n_steps)
        blocks = -(-n_steps // span)
        grid = F.pad(grid, (0, 0, 0, blocks * span - n_steps))
        q, k, v = grid.view(2, rows, blocks, span, 3, self.n_heads, size // self.n_heads).unbind(4)
        earlier = [torch.cat([torch.zeros_like(states[:, :, :1]), states[:, :, :-1]], dim=2) for states in (k, v)]
        k, v = (
            torch.cat(both, dim=3) for both in zip(earlier, (k, v), strict=True)
        )  # (2, B, blocks, 2·span, heads, d)
        query = torch.arange(span, device=x.device)[:, None] + span
        key = torch.arange(2 * span, device=x.device)[None]
        seen = (key <= query) & (key > query - span)
        seen = seen.expand(blocks, span, 2 * span).clone()
        seen[0, :, :span] = False  # nothing precedes the first block
        q, k, v = (states.transpose(3, 4) for states in (q, k, v))  # (2, B, blocks, heads, places, d)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None])
        flat = attended.transpose(3, 4).reshape(2, rows, blocks * span, size)[:, :, :n_steps]
        return flat.flatten(1, 2)[:, places]

    def reset(self, generator: torch.Generator | None) -> None:
        """Initialise from normal distributions scaled by the input width, smaller where a residual is added."""
        size = self.w_join.shape[1]
        self.w_attend.normal_(0, 1 / math.sqrt(size), generator=generator)
        self.w_join.normal_(0, 0.5 / math.sqrt(size), generator=generator)
        self.w_up.normal_(0, 1 / math.sqrt(size), generator=generator)
        self.w_down.normal_(0, 0.5 / math.sqrt(4 * size), generator=generator)
        self.b_up.zero_()
        self.b_down.zero_()
        self.scales.fill_(1)
        self.shifts.zero_()


def make_layers(config: BiLMConfig) -> nn.ModuleList:
    """The layers of a biLM."""
    if config.reader == "lstm":
        return nn.ModuleList(LstmLayer(config) for _ in range(config.n_layers))
    if config.reader == "cnn":
        return nn.ModuleList(ConvolutionLayer(config) for _ in range(config.n_layers))
    return nn.ModuleList(TransformerLayer(config, last=n == config.n_layers - 1) for n in range(config.n_layers))


def with_positions(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Packed vectors plus position embeddings, with positions in the reading order of each direction."""
    step = np.repeat(np.arange(len(sizes)), sizes)
    return x + sinusoids(len(sizes), x.shape[2], x.device)[torch.from_numpy(step).to(x.device)]


def _places(sizes: Sequence[int], device: torch.device) -> Tensor:
    """The index ``(N,)`` of each packed token in a grid of ``sizes[0]`` rows and one column per step."""
    step = np.repeat(np.arange(len(sizes)), sizes)
    row = np.concatenate([np.arange(size) for size in sizes]) if len(sizes) else step
    return torch.from_numpy(row * len(sizes) + step).to(device)


def _on_grid(packed: Tensor, places: Tensor, rows: int, n_steps: int) -> Tensor:
    """Packed ``(2, N, D)`` → ``(2, B, T, D)``, zero at padding."""
    grid = packed.new_zeros(2, rows * n_steps, packed.shape[2]).index_copy(1, places, packed)
    return grid.view(2, rows, n_steps, packed.shape[2])


def _no_state(inputs: Tensor, rows: int) -> State:
    nothing = inputs.new_zeros(2, rows, 0)
    return State(nothing, nothing)
