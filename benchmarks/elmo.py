"""ELMo encoding: tokens per CPU-second on one thread, against a plain torch implementation in the same run.

    python benchmarks/elmo.py [small medium original]

The text is English news (the Lee corpus of gensim's test data, with natural repetition of words); weights are random,
of the published shapes. The peer runs all 50 slots of every token through the CNN and steps an LSTM cell with clipping,
as AllenNLP does.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn
from torch.nn import functional as F

from polyseme.contexts.elmo.allennlp import batch_to_ids
from polyseme.contexts.elmo.bilm import BiLM, BiLMConfig
from polyseme.contexts.elmo.encode import SentenceRunner
from polyseme.contexts.elmo.model import Elmo, make_alphabet
from polyseme.contexts.elmo.options import ElmoOptions

# minimum tokens per CPU-second, and minimum ratio to the peer without the word cache
BARS = {"small": (3500, 2.0), "medium": (1100, 2.0), "original": (0, 2.0)}
BATCH = 32
PEER_SENTENCES = {"small": 32, "medium": 32, "original": 8}  # the peer takes minutes over the whole text


class PlainBiLM(nn.Module):
    """A straightforward biLM with the same weights."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm, self.config = bilm, bilm.config
        self.characters = nn.Parameter(torch.cat([torch.zeros(1, self.config.char_dim), bilm.encoder.characters]))

    def token_vectors(self, ids: torch.Tensor) -> torch.Tensor:
        """``(B, T, 50)`` → ``(B, T, P)``."""
        encoder = self.bilm.encoder
        x = F.embedding(ids.view(-1, ids.shape[-1]), self.characters).transpose(1, 2)
        x = torch.cat([torch.relu(convolution(x).max(dim=2).values) for convolution in encoder.convolutions], dim=1)
        for transform, gate in zip(encoder.transforms, encoder.gates, strict=True):
            g = torch.sigmoid(gate(x))
            x = g * torch.relu(transform(x)) + (1 - g) * x
        return encoder.projection(x).view(*ids.shape[:2], -1)

    def forward(self, ids: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
        x = self.token_vectors(ids)
        order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
        x, lengths = x[order], [lengths[row] for row in order]
        halves = [self.direction(x, lengths, 0), self.direction(x, lengths, 1)]
        return [torch.cat(pair, dim=-1) for pair in zip(*halves, strict=True)]

    def direction(self, x: torch.Tensor, lengths: list[int], number: int) -> list[torch.Tensor]:
        steps, clip = x.shape[1], self.config.cell_clip
        planes = [x]
        for depth, layer in enumerate(self.bilm.layers):
            inputs = planes[-1]
            h = x.new_zeros(len(x), self.config.projection)
            c = x.new_zeros(len(x), self.config.hidden)
            out = torch.zeros_like(inputs)
            for t in range(steps) if number == 0 else reversed(range(steps)):
                n = sum(length > t for length in lengths)
                gates = F.linear(inputs[:n, t], layer.w_input[number], layer.bias[number])
                gates = gates + F.linear(h[:n], layer.w_recurrent[number])
                i, f, g, o = gates.chunk(4, dim=1)
                cell = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f) * c[:n]
                cell = torch.clamp(cell, -clip, clip)
                state = F.linear(torch.sigmoid(o) * torch.tanh(cell), layer.w_projection[number]).clamp(-clip, clip)
                c, h = torch.cat([cell, c[n:]]), torch.cat([state, h[n:]])
                out[:n, t] = state
            planes.append(out + inputs if depth else out)
        return planes


def news() -> list[list[str]]:
    """The Lee background corpus: 300 documents, 60k tokens."""
    try:
        from gensim.test.utils import datapath

        path = datapath("lee_background.cor")
    except ImportError:
        sys.exit("this benchmark reads gensim's test data: pip install 'polyseme[bench]'")
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.split() for line in file]


def model_of(size: str) -> Elmo:
    options = ElmoOptions(size=size)
    alphabet = make_alphabet(options, characters=[], words=[])
    bilm = BiLM(BiLMConfig.of(options, alphabet))
    bilm.reset_parameters(torch.Generator().manual_seed(0))
    return Elmo(options, alphabet, bilm)


def rate(sentences: list[list[str]], model: Elmo) -> float:
    start = time.process_time()
    for _ in model.encode_tokens(sentences):
        pass
    return sum(map(len, sentences)) / (time.process_time() - start)


def peer_rate(sentences: list[list[str]], plain: PlainBiLM) -> float:
    start = time.process_time()
    with torch.no_grad():
        for begin in range(0, len(sentences), BATCH):
            batch = [["<S>", *sentence, "</S>"] for sentence in sentences[begin : begin + BATCH]]
            plain(batch_to_ids(batch), [len(sentence) for sentence in batch])
    return sum(map(len, sentences)) / (time.process_time() - start)


def same(sentences: list[list[str]], model: Elmo, plain: PlainBiLM) -> float:
    """The largest difference between the two implementations, over all layers."""
    (sentence,) = model.encode_tokens(sentences[:1])
    with torch.no_grad():
        layers = plain(batch_to_ids([["<S>", *sentences[0], "</S>"]]), [len(sentences[0]) + 2])
    return max(abs(a[0, 1:-1].numpy() - b).max() for a, b in zip(layers, sentence.layers, strict=True))


def main() -> int:
    torch.set_num_threads(1)
    sentences = news()
    failed = False
    for size in sys.argv[1:] or ["small", "medium"]:
        model = model_of(size)
        plain = PlainBiLM(model.bilm)
        some = sentences[: PEER_SENTENCES[size]]
        difference = same(sentences, model, plain)
        peer = peer_rate(some, plain)
        model.runner = SentenceRunner(model.bilm, model.alphabet, cache_bytes=0)
        forgetful = rate(some, model)
        del model.runner
        first = rate(sentences, model)
        again = rate(sentences, model)
        bar, times = BARS[size]
        parameters = sum(p.numel() for p in model.bilm.parameters())
        print(f"{size}: {parameters:,} parameters; differs from the plain implementation by {difference:.1e}")
        print(f"  plain torch                    {peer:7,.0f} tokens per CPU-second")
        print(f"  polyseme, no word remembered   {forgetful:7,.0f}  = {forgetful / peer:.1f} times (bar {times})")
        print(f"  polyseme, a new text           {first:7,.0f}  (bar {bar:,})")
        print(f"  polyseme, its words known      {again:7,.0f}")
        failed |= forgetful < times * peer or first < bar
    print("bars missed" if failed else "bars held")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
