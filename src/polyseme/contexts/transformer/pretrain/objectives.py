"""Training a masked language model 掩码语言模型: predict masked subwords and, optionally, the label of a pair.

    loss = mean over the chosen subwords of -log p(subword | masked example)  [+ mean of -log p(label | pair)]

The head, which is most of the work in a small network with a large vocabulary, runs on the chosen positions only. Their
number is rounded up: tensors of a new size in every step would leave holes in memory, which then grows for hours.

Training a causal language model 因果语言模型: predict the next subword.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyseme.contexts.transformer.network import Network, TokenBatch
from polyseme.contexts.transformer.pretrain.training_examples import Example, Masking, TrainingExamples
from polyseme.contexts.transformer.tokenizer import Ints
from polyseme.interfaces import perplexity_of
from polyseme.training.task import BatchTask, Part, Score

PIECES_A_REPORT = 2_000_000
STEP = 64  # the number of chosen positions is a multiple of this
IGNORED = -100  # the target of positions that only fill up, as cross_entropy knows it


@dataclass(frozen=True)
class MaskedBatch:
    """A training batch: the masked input, and the subwords to predict."""

    batch: TokenBatch
    rows: Tensor  # (N,) of the chosen positions
    places: Tensor
    targets: Tensor
    n: int  # positions that count; the last N - n only fill up
    labels: Tensor | None  # (B,) of pairs


class PieceTask(BatchTask, ABC):
    """A language model learns from examples of subwords, which are drawn anew in every epoch."""

    module: Network

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
        numbers = self._numbers(self.examples, epoch, index)[part.rank :: part.of]
        return self.loss_of(epoch, numbers) if len(numbers) else (torch.zeros(()), 0)

    @abstractmethod
    def loss_of(self, epoch: int, numbers: range) -> tuple[Tensor, int]:
        """The sum of the losses over the predictions in the examples of these numbers, and how many there are."""

    def held_out_batches(self) -> Iterator[tuple[TrainingExamples, range]]:
        """The held-out examples, and the numbers of a batch of them; epoch -1 has them."""
        if self.held_out is not None:
            for index in range(-(-self.held_out.n_examples(-1) // self.batch_size)):
                yield self.held_out, self._numbers(self.held_out, -1, index)

    def _numbers(self, examples: TrainingExamples, epoch: int, index: int) -> range:
        """The numbers of the examples in a batch."""
        return range(index * self.batch_size, min((index + 1) * self.batch_size, examples.n_examples(epoch)))


class MaskedTask(PieceTask):
    """Learns to predict masked subwords; examples are masked differently in every epoch."""

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
        super().__init__(module, examples, held_out, batch_size=batch_size, length=length, padding=padding)
        self.masking, self.seed = masking, seed

    def loss_of(self, epoch: int, numbers: range) -> tuple[Tensor, int]:
        masked = self._masked(self.examples, epoch, numbers)
        logits, pair_logits = self._scores(self.module, masked)
        loss = F.cross_entropy(logits, masked.targets, reduction="sum")
        if pair_logits is not None and masked.labels is not None:
            loss = loss + masked.n * F.cross_entropy(pair_logits, masked.labels)
        return loss, masked.n

    @torch.inference_mode()
    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, Network)
        total, n, right, pairs, true_pairs = 0.0, 0, 0, 0, 0
        for examples, numbers in self.held_out_batches():
            masked = self._masked(examples, -1, numbers)
            logits, pair_logits = self._scores(module, masked)
            total += float(F.cross_entropy(logits, masked.targets, reduction="sum"))
            right += int((logits.argmax(dim=1) == masked.targets).sum())
            n += masked.n
            if pair_logits is not None and masked.labels is not None:
                true_pairs += int((pair_logits.argmax(dim=1) == masked.labels).sum())
                pairs += len(masked.labels)
        if not n:
            return None
        facts = {"masked_perplexity": perplexity_of(total / n), "masked_accuracy": right / n}
        return Score(total / n, {**facts, **({"pair_accuracy": true_pairs / pairs} if pairs else {})})

    def _scores(self, module: Network, masked: MaskedBatch) -> tuple[Tensor, Tensor | None]:
        n, (rows, places) = len(masked.rows), (masked.rows, masked.places)
        real = (torch.arange(n, device=rows.device) < masked.n).float()
        if masked.labels is not None:  # which are told from the first token of each pair
            first = torch.arange(len(masked.labels), device=rows.device)
            rows, places = torch.cat([rows, first]), torch.cat([places, torch.zeros_like(first)])
            real = torch.cat([real, real.new_ones(len(first))])
        states = module.top_at(masked.batch, rows, places, real)
        logits = module.head(states[masked.rows, masked.places])
        return logits, module.pair_scores(states) if masked.labels is not None else None

    def _masked(self, examples: TrainingExamples, epoch: int, numbers: range) -> MaskedBatch:
        """A masked batch of these examples, padded to the longest."""
        chosen = [examples.example(epoch, number) for number in numbers]
        longest = max(len(example.ids) for example in chosen)
        ids = np.full((len(chosen), longest), self.padding, dtype=np.int64)
        types = np.zeros_like(ids)
        rows: list[Ints] = []
        places: list[Ints] = []
        targets: list[Ints] = []
        for row, (number, example) in enumerate(zip(numbers, chosen, strict=True)):
            random = np.random.default_rng((self.seed, epoch + 1, number, 3))
            size = len(example.ids)
            ids[row, :size], types[row, :size] = example.ids, example.types
            masked = self.masking.choose(example.words, size, random)
            targets.append(example.ids[masked])
            ids[row, masked] = self.masking.replaced(targets[-1], random)
            rows.append(np.full(len(masked), row))
            places.append(masked)
        device = self.device
        lengths = np.array([len(example.ids) for example in chosen])
        mask = (np.arange(longest) < lengths[:, None]).astype(np.int64) if lengths.min() < longest else None

        def tensor(array: Ints) -> Tensor:
            return torch.from_numpy(array).to(device)

        batch = TokenBatch(
            tensor(ids), None if mask is None else tensor(mask), tensor(types) if types.any() else None,
            **{name: tensor(array) for name, array in extras(chosen, longest).items()},
        )  # fmt: skip
        labels = np.array([example.label for example in chosen])
        n = sum(map(len, targets))
        filled = ((rows, 0), (places, 0), (targets, IGNORED))
        at, where, wanted = (tensor(np.concatenate([*arrays, np.full(-n % STEP, value)])) for arrays, value in filled)
        return MaskedBatch(batch, at, where, wanted, n, tensor(labels) if labels.min() >= 0 else None)


def extras(examples: list[Example], longest: int) -> dict[str, Ints]:
    """Languages and positions, if the examples have them, ``(B, T)`` each."""
    extra = {}
    for name in ("languages", "positions"):
        arrays = [getattr(example, name) for example in examples]
        if arrays[0] is not None:
            extra[name] = np.stack([np.pad(array, (0, longest - len(array)), mode="edge") for array in arrays])
    return extra


class CausalTask(PieceTask):
    """Learns to predict every subword of an example from those before it."""

    unit = "pieces"

    def loss_of(self, epoch: int, numbers: range) -> tuple[Tensor, int]:
        return self._loss(self.module, self.examples, epoch, numbers)

    @torch.inference_mode()
    def evaluate(self, module: nn.Module) -> Score | None:
        assert isinstance(module, Network)
        total, n = 0.0, 0
        for examples, numbers in self.held_out_batches():
            loss, n_predictions = self._loss(module, examples, -1, numbers)
            total, n = total + float(loss), n + n_predictions
        return Score(total / n, {"perplexity": perplexity_of(total / n)}) if n else None

    def _loss(self, module: Network, examples: TrainingExamples, epoch: int, numbers: range) -> tuple[Tensor, int]:
        """The sum of -log p over all subwords but the first of each example, and their number."""
        chosen = [examples.example(epoch, number) for number in numbers]
        longest = max(len(example.ids) for example in chosen)
        if longest < 2:
            return torch.zeros((), requires_grad=True), 0
        ids = np.full((len(chosen), longest), self.padding, dtype=np.int64)
        targets = np.full((len(chosen), longest - 1), IGNORED, dtype=np.int64)
        for row, example in enumerate(chosen):
            ids[row, : len(example.ids)] = example.ids
            targets[row, : len(example.ids) - 1] = example.ids[1:]
        # In a causal network no position sees the padding after it, so no mask is needed.
        inputs = {
            name: torch.from_numpy(array[:, :-1].copy()).to(self.device)
            for name, array in {"ids": ids, **extras(chosen, longest)}.items()
        }
        states = module.top(TokenBatch(**inputs)).reshape(-1, module.dim)
        wanted = torch.from_numpy(targets).to(self.device).reshape(-1)
        real = wanted != IGNORED
        if not bool(real.all()):
            states, wanted = states[real], wanted[real]
        return F.cross_entropy(module.head(states), wanted, reduction="sum"), len(wanted)
