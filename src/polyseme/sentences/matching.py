"""Convolutional matching of two texts 卷积匹配网络: ARC-I, ARC-II, CNN-SM, Bi-CNN and MP-CNN.

Each computes features of a pair, ``(B, dim)``, as input of a classifier. Texts may have any length: where a paper pads
all texts to one length, the last layer is pooled to a fixed number of segments (dynamic pooling) instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.elmo.options import parse_filters
from polyseme.errors import OptionError
from polyseme.learn.modules import TextTokens
from polyseme.learn.pairs import PairModule, compared
from polyseme.neural.layers import dynamic_max, k_max
from polyseme.sentences.encoders import dynamic_k, folded, folded_rows, wide_convolution

STRETCHES = 4  # segments of a text in the last pooling
GRID = 4  # cells on each side of a pooled similarity matrix


def gated_convolution(layer: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    """relu of the convolution, 0 if a window sees only padding: ``(B, C, T) -> (B, C', T)``."""
    features = torch.relu(layer(x))
    real = torch.arange(features.shape[2], device=x.device) < lengths.clamp_min(0).unsqueeze(1)
    return features * real.unsqueeze(1)


class Arc1Module(PairModule):
    """ARC-I: Hu et al., "Convolutional Neural Network Architectures for Matching Natural Language Sentences", 2014.

    Each text separately goes through convolutions of width 3 and max pooling by two; both vectors are concatenated.
    """

    def __init__(self, dim: int, maps: int, n_layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(dim if n == 0 else maps, maps, 3, padding=1) for n in range(n_layers))
        self.dim = 2 * maps * STRETCHES

    def forward(self, first: TextTokens, second: TextTokens) -> Tensor:
        return torch.cat([self.encode(first), self.encode(second)], dim=1)

    def encode(self, tokens: TextTokens) -> Tensor:
        """One text's features, ``(B, maps · stretches)``."""
        x, lengths = (tokens.x * tokens.mask.unsqueeze(-1)).transpose(1, 2), tokens.mask.sum(dim=1)
        for layer in self.layers:
            x = F.max_pool1d(gated_convolution(layer, x, lengths), 2, ceil_mode=True)
            lengths = -(-lengths // 2)
        return dynamic_max(x, lengths, STRETCHES).flatten(1)


class Arc2Module(PairModule):
    """ARC-II, of the same paper: the texts interact before either is reduced to a vector.

    Layer 1 sees every pair of a window in one text and a window in the other, relu(A x_i:i+3 + B y_j:j+3 + c): a sum of
    two convolutions, broadcast. Then 2×2 max pooling, a 3×3 convolution and 2×2 max pooling again.
    """

    def __init__(self, dim: int, maps: int) -> None:
        super().__init__()
        self.left = nn.Conv1d(dim, maps, 3, padding=1)
        self.right = nn.Conv1d(dim, maps, 3, padding=1, bias=False)
        self.above = nn.Conv2d(maps, maps, 3, padding=1)
        self.dim = maps * GRID * GRID

    def forward(self, first: TextTokens, second: TextTokens) -> Tensor:
        a, b = first.mask.sum(dim=1), second.mask.sum(dim=1)
        left = self.left((first.x * first.mask.unsqueeze(-1)).transpose(1, 2))  # (B, maps, T)
        right = self.right((second.x * second.mask.unsqueeze(-1)).transpose(1, 2))  # (B, maps, T')
        x = torch.relu(left.unsqueeze(3) + right.unsqueeze(2)) * _both(first.mask, second.mask)
        x = F.max_pool2d(x, 2, ceil_mode=True)
        a, b = -(-a // 2), -(-b // 2)
        x = torch.relu(self.above(x)) * _both(_first(x.shape[2], a), _first(x.shape[3], b))
        x = F.max_pool2d(x, 2, ceil_mode=True)
        return grid_max(x, -(-a // 2), -(-b // 2)).flatten(1)


def _first(places: int, lengths: Tensor) -> Tensor:
    return torch.arange(places, device=lengths.device) < lengths.unsqueeze(1)


def _both(left: Tensor, right: Tensor) -> Tensor:
    return (left.unsqueeze(2) & right.unsqueeze(1)).unsqueeze(1)  # (B, 1, T, T')


def grid_max(x: Tensor, heights: Tensor, widths: Tensor) -> Tensor:
    """Maxima over a fixed grid of the real part of every map: ``(B, M, T, T') -> (B, M, GRID, GRID)``."""
    across = dynamic_max(x, widths, GRID)  # (B, M, T, GRID)
    return dynamic_max(across.transpose(2, 3), heights, GRID).transpose(2, 3)


class SentenceModel(nn.Module):
    """CNN-SM, the sentence model of Bi-CNN: blocks of wide convolution by row, means of pairs of rows, tanh, k-max.

    Yin and Schütze, "Convolutional Neural Network for Paraphrase Identification", NAACL 2015.
    """

    def __init__(self, dim: int, widths: Sequence[int], maps: Sequence[int], k_top: int) -> None:
        super().__init__()
        self.k_top, rows, into = k_top, dim, 1
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for width, out in zip(widths, maps, strict=True):
            bound = math.sqrt(6 / (width * (into + out)))
            self.weights.append(nn.Parameter(torch.empty(rows, out, into, width).uniform_(-bound, bound)))
            rows = folded_rows(rows)
            self.biases.append(nn.Parameter(torch.zeros(rows, out)))
            into = out
        self.dim = rows * into * k_top

    def forward(self, tokens: TextTokens) -> list[tuple[Tensor, Tensor]]:
        """The text at every granularity, words first: units of each map ``(B, R, M, T)``, and how many are real."""
        lengths = tokens.mask.sum(dim=1)
        x = (tokens.x * tokens.mask.unsqueeze(-1)).transpose(1, 2).unsqueeze(2)  # (B, D, 1, T)
        levels, places = [(x, lengths)], lengths
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True), start=1):
            x, places = wide_convolution(x, weight, places)
            x = torch.tanh(folded(x) / 2 + bias[:, :, None])
            x, places = k_max(x, places, dynamic_k(lengths, number, len(self.weights), self.k_top))
            levels.append((x, places))
        return levels


class CnnSmModule(PairModule):
    """Both texts through CNN-SM, compared at the top: [u; v; |u - v|; u∗v]."""

    def __init__(self, dim: int, widths: Sequence[int] = (3, 5), maps: Sequence[int] = (5, 5), k_top: int = 4) -> None:
        super().__init__()
        self.sentence = SentenceModel(dim, widths, maps, k_top)
        self.dim = 4 * self.sentence.dim

    def forward(self, first: TextTokens, second: TextTokens) -> Tensor:
        return compared(*(self.sentence(tokens)[-1][0].flatten(1) for tokens in (first, second)))


class BiCnnModule(PairModule):
    """Bi-CNN 四粒度匹配: compares both texts as words, short n-grams, long n-grams and whole sentences.

    similarity of two units = exp(-‖a - b‖² / 2β),  for every map; each matrix pooled to a grid; β = their length
    """

    def __init__(self, dim: int, widths: Sequence[int] = (3, 5), maps: Sequence[int] = (5, 5), k_top: int = 4) -> None:
        super().__init__()
        self.sentence = SentenceModel(dim, widths, maps, k_top)
        grids = GRID * GRID * (1 + sum(maps))
        self.dim = grids + 1  # and one similarity of the whole texts

    def forward(self, first: TextTokens, second: TextTokens) -> Tensor:
        levels = list(zip(self.sentence(first), self.sentence(second), strict=True))
        features = []
        for (x, n), (y, m) in levels:
            matrix = unit_similarity(x, y)
            inside = _both(_first(matrix.shape[2], n), _first(matrix.shape[3], m))
            features.append(grid_max(matrix * inside, n, m).flatten(1))
        (x, _), (y, _) = levels[-1]
        whole = torch.exp(-((x - y) ** 2).flatten(1).mean(dim=1, keepdim=True) / 2)
        return torch.cat([*features, whole], dim=1)


def unit_similarity(x: Tensor, y: Tensor) -> Tensor:
    """exp(-‖x_i - y_j‖² / 2D) of all units of every map: ``(B, D, M, T), (B, D, M, T') -> (B, M, T, T')``."""
    a, b = x.permute(0, 2, 3, 1), y.permute(0, 2, 3, 1)  # (B, M, T, D)
    squares = (a**2).sum(dim=3).unsqueeze(3) + (b**2).sum(dim=3).unsqueeze(2) - 2 * a @ b.transpose(2, 3)
    return torch.exp(-squares.clamp_min(0) / (2 * x.shape[1]))


class MpCnnModule(PairModule):
    """MP-CNN 多视角卷积: He, Gimpel and Lin, "Multi-Perspective Sentence Similarity Modeling with CNNs", EMNLP 2015.

    Block A: filters over whole vectors (widths 1 … w, and the words themselves as width ∞) with max, min and mean.
    Block B: filters over single dimensions with max and min. Two texts are compared filter by filter over the widths
    (horizontally: L2, cosine) and width by width (vertically: L2, cosine, |a - b|; in A every pair of widths).
    """

    POOLS = ("max", "min", "mean")

    def __init__(self, dim: int, maps: int | None = None, dimension_maps: int = 20, width: int = 3) -> None:
        super().__init__()
        self.input = dim
        maps = dim if maps is None else maps
        widths = range(1, width + 1)
        self.whole = nn.ModuleList(nn.Conv1d(dim, maps, w) for w in widths)
        self.single = nn.ModuleList(nn.Conv1d(dim, dim * dimension_maps, w, groups=dim) for w in widths)
        # Word vectors have ``dim`` numbers, not ``maps``: if these differ, the words are mapped linearly.
        self.words = nn.Identity() if maps == dim else nn.Linear(dim, maps)
        self.dimension_maps = dimension_maps
        n = width + 1
        horizontal, vertical = 2 * maps, n * n * (2 + maps)
        self.dim = 3 * (horizontal + vertical) + 2 * width * dimension_maps * (2 + dim)

    def forward(self, first: TextTokens, second: TextTokens) -> Tensor:
        pair = [self._padded(tokens) for tokens in (first, second)]
        features = []
        for pool in self.POOLS:
            left, right = (self._whole(*side, pool) for side in pair)  # (B, widths, maps)
            features += [_l2(left, right, 1), _cosine(left, right, 1)]
            u, v = left.unsqueeze(2), right.unsqueeze(1)  # every width of one text with every width of the other
            features += [_l2(u, v, 3), _cosine(u, v, 3), (u - v).abs()]
        for pool in self.POOLS[:2]:
            left, right = (self._single(*side, pool) for side in pair)  # (B, widths, maps, D)
            features += [_l2(left, right, 3), _cosine(left, right, 3), (left - right).abs()]
        return torch.cat([feature.flatten(1) for feature in features], dim=1)

    def _padded(self, tokens: TextTokens) -> tuple[Tensor, Tensor]:
        """``(B, D, T)``, padded to the width of the widest filter; a shorter text counts as one of that width."""
        width = len(self.whole)
        x = (tokens.x * tokens.mask.unsqueeze(-1)).transpose(1, 2)
        x = F.pad(x, (0, max(0, width - x.shape[2])))
        return x, tokens.mask.sum(dim=1).clamp_min(width)

    def _whole(self, x: Tensor, lengths: Tensor, pool: str) -> Tensor:
        pooled = [_pooled(torch.tanh(layer(x)), lengths - n, pool) for n, layer in enumerate(self.whole)]
        words = self.words(_pooled(x, lengths, pool))
        return torch.stack([*pooled, words], dim=1)

    def _single(self, x: Tensor, lengths: Tensor, pool: str) -> Tensor:
        pooled = [_pooled(torch.tanh(layer(x)), lengths - n, pool) for n, layer in enumerate(self.single)]
        return torch.stack([f.view(len(x), self.input, self.dimension_maps).transpose(1, 2) for f in pooled], dim=1)


def _pooled(x: Tensor, lengths: Tensor, pool: str) -> Tensor:
    """``(B, C, T) -> (B, C)`` over the first ``lengths`` positions."""
    real = _first(x.shape[2], lengths).unsqueeze(1)
    if pool == "mean":
        return (x * real).sum(dim=2) / lengths.unsqueeze(1)
    sign = 1 if pool == "max" else -1
    return sign * (sign * x).masked_fill(~real, -torch.inf).amax(dim=2)


def _l2(a: Tensor, b: Tensor, dim: int) -> Tensor:
    return ((a - b) ** 2).sum(dim=dim).clamp_min(1e-12).sqrt()  # the root of zero has no gradient


def _cosine(a: Tensor, b: Tensor, dim: int) -> Tensor:
    return F.cosine_similarity(a, b, dim=dim, eps=1e-6)


# ---- by name


def new_matcher(name: str, dim: int, options: Any) -> PairModule:
    """The matching network of that name over token vectors of this length."""
    filters = parse_filters(options.filters)
    widths, maps = [width for width, _ in filters], [number for _, number in filters]
    if name == "arc1":
        return Arc1Module(dim, maps[0])
    if name == "arc2":
        return Arc2Module(dim, maps[0])
    if name == "cnn-sm":
        return CnnSmModule(dim, widths, maps, options.k_top)
    if name == "bi-cnn":
        return BiCnnModule(dim, widths, maps, options.k_top)
    return MpCnnModule(dim, maps[0], options.dimension_maps, widths[0])


def check_filters(head: str, filters: str) -> None:
    """Refuse filters that the head would not have."""
    parsed = parse_filters(filters)
    if head in ("arc1", "arc2", "mpcnn") and len(parsed) > 1:
        raise OptionError(f"the head {head} has filters of one kind, such as 3x50, not {filters!r}")
    if head in ("arc1", "arc2") and parsed[0][0] != 3:
        raise OptionError(f"the filters of {head} are 3 wide: give 3x{parsed[0][1]}, not {filters!r}")
