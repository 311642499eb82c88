"""Speed of ULMFiT's training and of CoVe's encoder against plain torch, on one thread, per CPU-second.

    python benchmarks/contexts.py

AWD-LSTM: one training step on rows of consecutive text, against its authors' recipe in plain torch (nn.LSTM with weight
drop, tied full softmax, both penalties). CoVe: sentences of mixed length through the two-layer bidirectional encoder,
against nn.LSTM on padded batches of 32 in the file's order.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polyseme.contexts.cove.model import Cove
from polyseme.contexts.cove.network import Translator
from polyseme.contexts.cove.options import CoveOptions
from polyseme.contexts.cove.target_vocabulary import TargetVocabulary
from polyseme.contexts.ulmfit.network import AwdLstm
from polyseme.contexts.ulmfit.options import UlmfitOptions
from polyseme.contexts.ulmfit.train import LanguageModelTask
from polyseme.training.optimisers import Optimiser
from polyseme.training.task import Part

UNITS = 10_000


class PlainAwd(nn.Module):
    """The authors' recipe: nn.LSTM layers with dropout on the recurrent weights before every batch."""

    def __init__(self, options: UlmfitOptions) -> None:
        super().__init__()
        self.options = options
        self.table = nn.Parameter(torch.empty(UNITS, options.dim).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(UNITS))
        self.layers = nn.ModuleList(nn.LSTM(*sizes) for sizes in options.layer_sizes())
        self.raw = nn.ParameterList(layer.weight_hh_l0.detach().clone() for layer in self.layers)

    def loss(self, read: Tensor, wanted: Tensor) -> Tensor:
        """Cross entropy over all units, plus the penalties."""
        options = self.options
        kept = F.dropout(torch.ones(UNITS, 1), options.dropout_embedding)
        x = _locked(F.embedding(read, self.table * kept), options.dropout_input)
        for number, (layer, raw) in enumerate(zip(self.layers, self.raw, strict=True)):
            del layer._parameters["weight_hh_l0"]
            layer.weight_hh_l0 = F.dropout(raw, options.dropout_weight)
            layer._flat_weights = [getattr(layer, name) for name in layer._flat_weights_names]
            x, _ = layer(x)
            layer._parameters["weight_hh_l0"] = nn.Parameter(raw.detach(), requires_grad=False)
            raw_output = x
            last = number == len(self.layers) - 1
            x = _locked(x, options.dropout_output if last else options.dropout_hidden)
        loss = F.cross_entropy((x.reshape(-1, x.shape[2]) @ self.table.t() + self.bias), wanted.reshape(-1))
        change = (raw_output[1:] - raw_output[:-1]).square().mean()
        return loss + options.activation_penalty * x.square().mean() + options.change_penalty * change


def _locked(x: Tensor, share: float) -> Tensor:
    return x * F.dropout(torch.ones(1, *x.shape[1:]), share)


def cpu_seconds(work: Callable[[], object], rounds: int) -> float:
    """The CPU-seconds of one round, the minimum over ``rounds``."""
    work()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def awd(rounds: int, negative: int) -> tuple[float, float]:
    """Units per CPU-second in training: ours, plain torch."""
    options = UlmfitOptions(batch_size=32, unroll=70, negative=negative, dropout_output=0.1)
    text = np.minimum(np.random.default_rng(0).zipf(1.3, 200_000), UNITS - 3) + 2
    torch.manual_seed(0)
    ours = AwdLstm(UNITS, options).train()
    task = LanguageModelTask(ours, text, np.empty(0, np.int64), options)
    optimiser = Optimiser(dict(ours.named_parameters()), "adamw")
    counted = 0

    def step() -> None:
        nonlocal counted
        for parameter in ours.parameters():
            parameter.grad = None
        counted = task.gradients(0, 1, Part()).n
        optimiser.step(1e-3)

    plain = PlainAwd(options).train()
    adam = torch.optim.AdamW([p for p in plain.parameters() if p.requires_grad], 1e-3)
    read, wanted = task.stream.step(0, 1)

    def plain_step() -> None:
        adam.zero_grad()
        plain.loss(read, wanted).backward()
        adam.step()

    return counted_rate(step, rounds, lambda: counted), counted_rate(plain_step, rounds, read.numel)


def counted_rate(work: Callable[[], object], rounds: int, n: Callable[[], int]) -> float:
    """Items per CPU-second."""
    seconds = cpu_seconds(work, rounds)
    return n() / seconds


def cove(rounds: int) -> tuple[float, float]:
    """Words per CPU-second: ours, nn.LSTM on batches of 32 in the file's order."""
    options = CoveOptions(dim=300, hidden=300)
    torch.manual_seed(0)
    words = TargetVocabulary([f"w{n}" for n in range(5000)])
    network = Translator(options, n_source=len(words), n_target=0, dim=300)
    model = Cove(options, network, words, TargetVocabulary([]))
    random = np.random.default_rng(0)
    lengths = np.maximum(random.lognormal(2.9, 0.6, 400).astype(int), 1)
    sentences = [[f"w{n}" for n in random.integers(0, 5000, size)] for size in lengths]
    plain = nn.LSTM(300, 300, num_layers=2, bidirectional=True, batch_first=True).eval()

    def in_order() -> None:
        with torch.inference_mode():
            for start in range(0, len(sentences), 32):
                batch = sentences[start : start + 32]
                ids = torch.zeros(len(batch), max(map(len, batch)), dtype=torch.int64)
                for row, one in enumerate(batch):
                    ids[row, : len(one)] = torch.tensor(words.numbers(one))
                assert network.table is not None
                plain(F.embedding(ids, network.table))

    n = int(lengths.sum())
    ours = cpu_seconds(lambda: [None for _ in model.encode_tokens(sentences, layers="top")], rounds)
    return n / ours, n / cpu_seconds(in_order, rounds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for name, (ours, plain) in {
        "AWD-LSTM training, whole softmax, units": awd(rounds, 0),
        "AWD-LSTM training, sampled softmax, units": awd(rounds, 1024),
        "CoVe's encoder, words": cove(rounds),
    }.items():
        print(f"{name:45} {ours:9,.0f} / CPU-s   plain torch {plain:9,.0f}   {ours / plain:.2f}×")


if __name__ == "__main__":
    main()
