"""Training a masked language model 掩码语言模型: predict masked subwords and, optionally, the label of a pair.

    loss = mean over the chosen subwords of -log p(subword | masked example)  [+ mean of -log p(label | pair)]

The head, which is most of the work in a small network with a large vocabulary, runs on the chosen positions only. Their
number is rounded up: tensors of a new size in every step would leave holes in memory, which then grows for hours.

Training a causal language model 因果语言模型: predict the next subword.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.pretrain.training_examples import Example, Masking, TrainingExamples
from polyseme.contexts.transformer.tokenizer import Ints
from polyseme.training.task import BatchTask, Part, Score

PIECES_A_REPORT = 2_000_000
STEP = 64  # the number of chosen positions is a multiple of this
IGNORED = -100  # the target of positions that only fill up, as cross_entropy knows it


@dataclass(frozen=True)
class Masked:
    """A training batch: the masked input, and the subwords to predict."""

    batch: TokenBatch
    rows: Tensor  # (N,) of the chosen positions
    places: Tensor
    targets: Tensor
    n: int  # positions that count; the last N - n only fill up
    labels: Tensor | None  # (B,) of pairs


class MaskedTask(BatchTask):
    """Learns to predict masked subwords; examples are masked differently in every epoch."""

    module: Network
    unit = "predictions"

    def __init__(
        self,
        module: Network,
        examples: TrainingExamples,
        held_out: TrainingExamples | None,
        masking: Masking,
        *,
        batch_size: int,
        length: int,
        padding: int,
        seed: int,
    ) -> None:
        self.module, self.examples, self.held_out, self.masking = module, examples, held_out, masking
        self.batch_size, self.padding, self.seed = batch_size, padding, seed
        self.reports = max(round(examples.n_examples(0) * length / PIECES_A_REPORT), 1)

    def n_steps(self, epoch: int) -> int:
        return -(-self.examples.n_examples(epoch) // self.batch_size)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        last = min((index + 1) * self.batch_size, self.examples.n_examples(epoch))
        numbers = range(index * self.batch_size, last)[part.rank :: part.of]
        if not len(numbers):
            return torch.zeros(()), 0
        masked = self._masked(self.examples, epoch, numbers)
        told, pairs = self._scores(self.module, masked)
        n = masked.n
        loss = F.cross_entropy(told, masked.targets, reduction="sum")
        if pairs is not None and masked.labels is not None:
            loss = loss + n * F.cross_entropy(pairs, masked.labels)
        return loss, n

    @torch.inference_mode()
    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, Network)
        total, n, right, pairs, true_pairs = 0.0, 0, 0, 0, 0
        for masked in self._held_out_batches():
            told, judged = self._scores(module, masked)
            total += float(F.cross_entropy(told, masked.targets, reduction="sum"))
            right += int((told.argmax(dim=1) == masked.targets).sum())
            n += masked.n
            if judged is not None and masked.labels is not None:
                true_pairs += int((judged.argmax(dim=1) == masked.labels).sum())
                pairs += len(masked.labels)
        if not n:
            return None
        facts = {"masked_perplexity": math.exp(min(total / n, 700)), "masked_accuracy": right / n}
        return Score(total / n, {**facts, **({"pair_accuracy": true_pairs / pairs} if pairs else {})})

    def _held_out_batches(self) -> Iterator[Masked]:
        if self.held_out is None:
            return
        n = self.held_out.n_examples(-1)
        for start in range(0, n, self.batch_size):
            yield self._masked(self.held_out, -1, range(start, min(start + self.batch_size, n)))

    def _scores(self, module: Network, masked: Masked) -> tuple[Tensor, Tensor | None]:
        n, (rows, places) = len(masked.rows), (masked.rows, masked.places)
        real = (torch.arange(n, device=rows.device) < masked.n).float()
        if masked.labels is not None:  # which are told from the first token of each pair
            first = torch.arange(len(masked.labels), device=rows.device)
            rows, places = torch.cat([rows, first]), torch.cat([places, torch.zeros_like(first)])
            real = torch.cat([real, real.new_ones(len(first))])
        states = module.top_at(masked.batch, rows, places, real)
        told = module.head(states[masked.rows, masked.places])
        return told, module.pair_scores(states) if masked.labels is not None else None

    def _masked(self, examples: TrainingExamples, epoch: int, numbers: range) -> Masked:
        """A masked batch of these examples, padded to the longest."""
        found = [examples.example(epoch, number) for number in numbers]
        longest = max(len(example.ids) for example in found)
        ids = np.full((len(found), longest), self.padding, dtype=np.int64)
        types = np.zeros_like(ids)
        rows: list[Ints] = []
        places: list[Ints] = []
        targets: list[Ints] = []
        for row, (number, example) in enumerate(zip(numbers, found, strict=True)):
            random = np.random.default_rng((self.seed, epoch + 1, number, 3))
            size = len(example.ids)
            ids[row, :size], types[row, :size] = example.ids, example.types
            chosen = self.masking.choose(example.words, size, random)
            targets.append(example.ids[chosen])
            ids[row, chosen] = self.masking.replaced(targets[-1], random)
            rows.append(np.full(len(chosen), row))
            places.append(chosen)
        device = self.device
        lengths = np.array([len(example.ids) for example in found])
        mask = (np.arange(longest) < lengths[:, None]).astype(np.int64) if lengths.min() < longest else None

        def tensor(array: Ints) -> Tensor:
            return torch.from_numpy(array).to(device)

        batch = TokenBatch(
            tensor(ids), None if mask is None else tensor(mask), tensor(types) if types.any() else None,
            **{name: tensor(array) for name, array in extras(found, longest).items()},
        )  # fmt: skip
        labels = np.array([example.label for example in found])
        n = sum(map(len, targets))
        filled = ((rows, 0), (places, 0), (targets, IGNORED))
        at, where, told = (tensor(np.concatenate([*arrays, np.full(-n % STEP, value)])) for arrays, value in filled)
        return Masked(batch, at, where, told, n, tensor(labels) if labels.min() >= 0 else None)


def extras(examples: list[Example], longest: int) -> dict[str, Ints]:
    """Languages and positions, if the examples have them, ``(B, T)`` each."""
    found = {}
    for name in ("languages", "positions"):
        arrays = [getattr(example, name) for example in examples]
        if arrays[0] is not None:
            found[name] = np.stack([np.pad(array, (0, longest - len(array)), mode="edge") for array in arrays])
    return found


# target at padding


class CausalTask(BatchTask):
    """Learns to predict every subword of an example from those before it."""

    module: Network
    unit = "pieces"

    def __init__(
        self,
        module: Network,
        examples: TrainingExamples,
        held_out: TrainingExamples | None,
        *,
        batch_size: int,
        length: int,
        padding: int,
    ) -> None:
        self.module, self.examples, self.held_out = module, examples, held_out
        self.batch_size, self.padding = batch_size, padding
        self.reports = max(round(examples.n_examples(0) * length / PIECES_A_REPORT), 1)

    def n_steps(self, epoch: int) -> int:
        return -(-self.examples.n_examples(epoch) // self.batch_size)

    def loss(self, epoch: int, index: int, part: Part) -> tuple[Tensor, int]:
        last = min((index + 1) * self.batch_size, self.examples.n_examples(epoch))
        numbers = range(index * self.batch_size, last)[part.rank :: part.of]
        return self._loss(self.module, self.examples, epoch, numbers) if len(numbers) else (torch.zeros(()), 0)

    @torch.inference_mode()
    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, Network)
        if self.held_out is None:
            return None
        total, n, count = 0.0, 0, self.held_out.n_examples(-1)
        for start in range(0, count, self.batch_size):
            numbers = range(start, min(start + self.batch_size, count))
            loss, more = self._loss(module, self.held_out, -1, numbers)
            total, n = total + float(loss), n + more
        return Score(total / n, {"perplexity": math.exp(min(total / n, 700))}) if n else None

    def _loss(self, module: Network, examples: TrainingExamples, epoch: int, numbers: range) -> tuple[Tensor, int]:
        """The sum of -log p over all subwords but the first of each example, and their number."""
        read_examples = [examples.example(epoch, number) for number in numbers]
        found = [example.ids for example in read_examples]
        longest = max(len(ids) for ids in found)
        if longest < 2:
            return torch.zeros((), requires_grad=True), 0
        table = np.full((len(found), longest), self.padding, dtype=np.int64)
        targets = np.full((len(found), longest - 1), IGNORED, dtype=np.int64)
        for row, ids in enumerate(found):
            table[row, : len(ids)] = ids
            targets[row, : len(ids) - 1] = ids[1:]
        read, told = (torch.from_numpy(array).to(self.device) for array in (table[:, :-1].copy(), targets))
        # In a causal network no position sees the padding after it, so no mask is needed.
        more = {name: torch.from_numpy(array[:, :-1].copy()) for name, array in extras(read_examples, longest).items()}
        batch = TokenBatch(read, **{name: array.to(self.device) for name, array in more.items()})
        states = module.top(batch).reshape(-1, module.dim)
        wanted = told.reshape(-1)
        real = wanted != IGNORED
        if not bool(real.all()):
            states, wanted = states[real], wanted[real]
        return F.cross_entropy(module.head(states), wanted, reduction="sum"), len(wanted)
