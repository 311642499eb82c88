"""The bidirectional language model (双向语言模型, biLM) behind ELMo, as a torch module.

Peters et al., "Deep contextualized word representations", NAACL 2018. With the tokens t_1…t_n it maximises

    Σ_k  log p(t_k | t_1 … t_{k-1}; Θ_x, Θ→, Θ_s)  +  log p(t_k | t_{k+1} … t_n; Θ_x, Θ←, Θ_s)

Θ_x: characters → embedding → convolutions → max → activation → highways (→ concatenated to a word embedding) →
projection.
Θ→, Θ←: two stacks of LSTMs with projection, clipped cells and states, and a residual around each layer but the first;
or, by option, of gated convolutions or masked transformer layers (``bilm_layers.py``).
Θ_s: one softmax for both directions.

The two directions are the first axis, of size 2, so that one batched product computes both. Gates are in torch's order
i, f, g, o, and the +1 of the forget gate is part of its bias. Tokens are packed without padding (``Packing``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.elmo.alphabet import Alphabet
from polyseme.contexts.elmo.bilm_layers import make_layers, with_positions
from polyseme.contexts.elmo.options import BiLMShape
from polyseme.errors import OptionError
from polyseme.neural.batches import Packing, mask_of
from polyseme.neural.convolution import highways, spelling_maxima
from polyseme.neural.lstm import State


@dataclass(frozen=True)
class BiLMConfig:
    """The sizes of a biLM."""

    n_characters: int  # rows of the character table, padding last; 0: words are not read by characters
    n_words: int  # rows of the word table; 0: words are not read by word ids
    max_characters: int
    char_dim: int
    word_dim: int
    filters: tuple[tuple[int, int], ...]  # (width, number)
    activation: str  # relu | tanh
    n_highway: int
    project: bool  # whether a linear layer maps the output of the token encoder to ``projection``
    hidden: int  # H
    projection: int  # P
    n_layers: int
    cell_clip: float  # 0: none
    projection_clip: float
    skip: bool
    reader: str = "lstm"  # lstm | cnn | transformer
    width: int = 4  # tokens that a convolution sees
    n_heads: int = 4
    n_classes: int = 0  # V of the softmax; 0: no softmax

    @classmethod
    def of(
        cls, options: BiLMShape, alphabet: Alphabet, *, n_classes: int = 0, project: bool | None = None
    ) -> BiLMConfig:
        """The sizes that follow from these options and this alphabet."""
        config = cls(
            n_characters=alphabet.n_characters,
            n_words=alphabet.n_words,
            max_characters=options.value("max_characters"),
            char_dim=options.value("char_dim"),
            word_dim=options.value("word_dim"),
            filters=options.filter_list(),
            activation=options.activation,
            n_highway=options.value("n_highway"),
            project=True,
            hidden=options.value("hidden"),
            projection=options.value("projection"),
            n_layers=options.n_layers,
            cell_clip=options.cell_clip,
            projection_clip=options.projection_clip,
            skip=options.skip,
            reader=options.reader,
            width=options.width,
            n_heads=options.n_heads,
            n_classes=n_classes,
        )
        if config.reader == "transformer" and config.projection % config.n_heads:
            raise OptionError(f"n_heads ({config.n_heads}) must divide projection ({config.projection})")
        if config.reader == "lstm" and config.projection > config.hidden:
            raise OptionError(f"projection ({config.projection}) must not be larger than hidden ({config.hidden})")
        if config.n_characters and max(width for width, _ in config.filters) > config.max_characters:
            raise OptionError(f"a filter of {options.value('filters')!r} is wider than max_characters")
        wanted = config.token_dim != config.projection if project is None else project
        return replace(config, project=wanted)

    @property
    def n_filters(self) -> int:
        """Dimension of the output of the character CNN."""
        return sum(number for _, number in self.filters) if self.n_characters else 0

    @property
    def token_dim(self) -> int:
        """Dimension of a token before its projection: the word embedding, then the character CNN."""
        return (self.word_dim if self.n_words else 0) + self.n_filters


class WordInputs(NamedTuple):
    """W distinct words as input of the biLM."""

    characters: Tensor | None  # (W, C) character ids, padded with the last id
    lengths: NDArray[np.int64] | None  # (W,) characters of each word, including its boundary marks
    words: Tensor | None  # (W,) word ids

    @classmethod
    def of(cls, alphabet: Alphabet, words: Sequence[str]) -> WordInputs:
        """Words as characters, as word ids, or as both."""
        characters = lengths = names = None
        if alphabet.spells:
            table, lengths = alphabet.spell_all(words)
            characters = torch.from_numpy(table)
        if alphabet.names:
            names = torch.from_numpy(alphabet.name_all(words))
        return cls(characters, lengths, names)

    def at(self, which: NDArray[np.int64], device: torch.device) -> WordInputs:
        """A selection of the words, on a device."""
        lengths, places = None if self.lengths is None else self.lengths[which], torch.from_numpy(which)
        characters = None
        if self.characters is not None and lengths is not None:
            characters = self.characters[places, : int(lengths.max(initial=0))].to(device)
        return WordInputs(characters, lengths, None if self.words is None else self.words[places].to(device))


class TokenEncoder(nn.Module):
    """Context-independent word vectors: ``WordInputs`` of W words → ``(W, P)``."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        width = config.n_filters
        if config.n_words:
            self.words = nn.Parameter(torch.empty(config.n_words, config.word_dim))
        if config.n_characters:
            self.characters = nn.Parameter(torch.empty(config.n_characters, config.char_dim))
            self.convolutions = nn.ModuleList(nn.Conv1d(config.char_dim, n, w) for w, n in config.filters)
            # y = g·relu(x T + t) + (1 - g)·x with g = sigmoid(x G + γ): an open gate passes the transform.
            self.transforms = nn.ModuleList(nn.Linear(width, width) for _ in range(config.n_highway))
            self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(config.n_highway))
        self.projection = nn.Linear(config.token_dim, config.projection) if config.project else None

    def forward(self, tokens: WordInputs, *, sparse: bool = False) -> Tensor:
        """The vectors of the words, ``(W, P)``; with ``sparse`` the gradient of the word table is sparse."""
        parts = []
        if tokens.words is not None:
            parts.append(F.embedding(tokens.words, self.words, sparse=sparse))
        if tokens.characters is not None and tokens.lengths is not None:
            parts.append(self.spelt(tokens.characters, tokens.lengths))
        x = torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        return self.projection(x) if self.projection is not None else x

    def spelt(self, characters: Tensor, lengths: NDArray[np.int64]) -> Tensor:
        """Character ids ``(W, C)`` → ``(W, filters)``: convolutions, max pooling, activation, highways.

        In training on the CPU the maxima are computed by compiled loops (``neural/convolution.py``). Without gradients,
        plain matrix products over words of similar length are as fast, and do not need numba.
        """
        table, config = self.characters, self.config
        learns = torch.is_grad_enabled() and table.requires_grad
        if learns and table.dtype == torch.float32 and table.device.type == "cpu":
            x = spelling_maxima(characters.numpy(), lengths, config.max_characters, table, self.convolutions)
        else:
            order = np.argsort(lengths, kind="stable")
            pieces = [self.convolved(characters[torch.from_numpy(part)], int(lengths[part].max()))
                      for part in _alike(order, lengths)]  # fmt: skip
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            x = torch.cat(pieces)[torch.from_numpy(back)] if pieces else table.new_zeros(0, config.n_filters)
        x = torch.relu(x) if config.activation == "relu" else torch.tanh(x)
        return highways(self.transforms, self.gates, x)

    def convolved(self, characters: Tensor, longest: int) -> Tensor:
        """Max-pooled convolutions over words of similar length, ``(W, C)`` → ``(W, filters)``.

        A word is padded to ``max_characters``, and all windows that contain only padding give the same value. So the
        windows that begin inside the longest word, and one after it, are enough.
        """
        config = self.config
        slots = min(longest + max(width for width, _ in config.filters), config.max_characters)
        empty = max(slots - characters.shape[1], 0)
        characters = F.pad(characters[:, :slots], (0, empty), value=config.n_characters - 1)
        x = F.embedding(characters, self.characters)  # (W, slots, d)
        by_width, biases = [], []
        for convolution, (width, number) in zip(self.convolutions, config.filters, strict=True):
            assert isinstance(convolution, nn.Conv1d)
            assert convolution.bias is not None
            starts = min(longest, config.max_characters - width) + 1
            windows = torch.cat([x[:, k : k + starts] for k in range(width)], dim=2)  # (W, starts, width·d)
            weight = convolution.weight.permute(2, 1, 0).reshape(-1, number)  # (width·d, number)
            by_width.append((windows @ weight).amax(dim=1))
            biases.append(convolution.bias)
        return torch.cat(by_width, dim=1) + torch.cat(biases)


def _alike(order: NDArray[np.int64], lengths: NDArray[np.int64], least: int = 16) -> list[NDArray[np.int64]]:
    """Cut words sorted by length into groups of at least ``least`` words, with lengths within 30 % or 2 characters."""
    groups: list[NDArray[np.int64]] = []
    start = 0
    while start < len(order):
        limit = max(lengths[order[start]] * 1.3, lengths[order[start]] + 2)
        end = start + int(np.searchsorted(lengths[order[start:]], limit, side="right"))
        end = max(end, start + least) if len(order) - max(end, start + least) >= least else len(order)
        groups.append(order[start:end])
        start = end
    return groups


def _as_it_is(x: Tensor) -> Tensor:
    return x


class BiLM(nn.Module):
    """Token encoder, the layers of both directions, and the softmax if there is one."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = TokenEncoder(config)
        self.layers = make_layers(config)
        if config.n_classes:
            self.softmax_weight = nn.Parameter(torch.empty(config.n_classes, config.projection))
            self.softmax_bias = nn.Parameter(torch.empty(config.n_classes))

    def forward(self, tokens: WordInputs, index: Tensor, lengths: Sequence[int]) -> tuple[Tensor, Tensor]:
        """All layers ``(L+1, B, T, 2P)``, zero at padding, and the mask ``(B, T)``.

        ``tokens`` are distinct words, ``index (B, T)`` the word at each position; sentence boundaries are tokens too.
        """
        packing = Packing.of(lengths)
        planes, _ = self.run(self.packed(self.encoder(tokens), index, packing), packing.sizes)
        mask = mask_of(lengths, index.shape[1], index.device)
        return torch.stack([self.unpacked(plane, packing, index.shape) for plane in planes]), mask

    @staticmethod
    def packed(vectors: Tensor, index: Tensor, packing: Packing) -> Tensor:
        """The word vectors ``(W, P)`` at the positions that ``index (B, T)`` gives, packed ``(2, N, P)``."""
        row, time = (torch.from_numpy(places).to(index.device) for places in (packing.row, packing.time))
        return F.embedding(index[row, time], vectors)

    def run(
        self,
        x: Tensor,
        sizes: Sequence[int],
        states: Sequence[State] | None = None,
        *,
        upto: int | None = None,
        dropped: Callable[[Tensor], Tensor] = _as_it_is,
    ) -> tuple[list[Tensor], list[State]]:
        """Packed token vectors ``(2, N, P)`` → packed layers, ``upto`` + 1 of ``(2, N, P)``, and their last states.

        Training, fine-tuning and encoding all use this; ``packed_lstm`` checks whether gradients are needed. ``sizes``
        are those of the packing, or of consecutive steps of it, starting from the ``states`` after the step before, in
        packed order. ``dropped`` is the dropout on the input of each layer in training.
        """
        planes, last = [x], []
        residual = self.config.skip and self.config.reader == "lstm"  # the other readers have their own residuals
        for number in range(self.config.n_layers if upto is None else upto):
            if not number and self.config.reader == "transformer":
                x = with_positions(x, sizes)
            x = dropped(x)
            out, end = self.layers[number](x, sizes, states[number] if states else None)
            if number and residual:
                out = out + x if out.requires_grad else out.add_(x)
            x = out
            planes.append(x)
            last.append(end)
        return planes, last

    def zero_states(self, n_rows: int, *, like: Tensor) -> list[State]:
        """The zero states that every sentence starts from."""
        sizes = (self.config.projection, self.config.hidden)
        return [State(*(like.new_zeros(2, n_rows, size) for size in sizes)) for _ in self.layers]

    @staticmethod
    def unpacked(plane: Tensor, packing: Packing, shape: Sequence[int]) -> Tensor:
        """Packed ``(2, N, P)`` → ``(B, T, 2P)`` in sentence order, with the forward half first."""
        row = torch.from_numpy(packing.row).to(plane.device)
        time = torch.from_numpy(packing.time).to(plane.device)
        halves = []
        for direction in (0, 1):
            half = plane.new_zeros(*shape, plane.shape[2])
            halves.append(half.index_put((row, time[direction]), plane[direction]))
        return torch.cat(halves, dim=-1)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise the weights as bilm-tf does."""

        def normal(tensor: Tensor, fan: int) -> None:
            tensor.normal_(0, 1 / math.sqrt(fan), generator=generator)

        encoder, config = self.encoder, self.config
        if config.n_words:
            encoder.words.normal_(0, 0.1, generator=generator)
        if config.n_characters:
            encoder.characters.uniform_(-1, 1, generator=generator)
            for convolution, (width, _) in zip(encoder.convolutions, config.filters, strict=True):
                assert isinstance(convolution, nn.Conv1d)
                assert convolution.bias is not None
                if config.activation == "relu":
                    convolution.weight.uniform_(-0.05, 0.05, generator=generator)
                else:
                    normal(convolution.weight, width * config.char_dim)
                convolution.bias.zero_()
            for linear, bias in [*((t, 0.0) for t in encoder.transforms), *((g, -2.0) for g in encoder.gates)]:
                assert isinstance(linear, nn.Linear)
                normal(linear.weight, config.n_filters)
                linear.bias.fill_(bias)
        if encoder.projection is not None:
            normal(encoder.projection.weight, config.token_dim)
            encoder.projection.bias.zero_()
        if config.reader == "transformer":  # else the positions, which are added to the small vectors, drown them
            last = encoder.projection.weight if encoder.projection is not None else getattr(encoder, "words", None)
            if last is not None:
                last.mul_(math.sqrt(config.projection))
        for layer in self.layers:
            layer.reset(generator)  # type: ignore[operator]
        if config.n_classes:
            normal(self.softmax_weight, config.projection)
            self.softmax_bias.zero_()
