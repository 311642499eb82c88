"""Softmax over a sample of the classes (采样 softmax), with hand-written gradients.

After Bengio & Senécal, "Quick Training of Probabilistic Neural Nets by Importance Sampling", AISTATS 2003, and Jean et
al., "On Using Very Large Target Vocabulary", ACL 2015. For a state h with the target y

    loss = -s_y + log( e^{s_y} + Σ_{c ∈ C, c ≠ y} e^{s_c} / π_c ),        s_c = h·w_c + b_c

where C is one set of classes for the whole batch and π_c the probability that c is in it, so the expected sum is that
over all classes, and with π = 1 the loss is that of the full softmax. C contains every target of the batch, the most
frequent classes (π = 1), and each of the others independently with its own probability. Unlike TensorFlow's sampled
softmax, no class is drawn twice, the targets of other rows serve as negatives too, and the target itself is not
corrected.

Sampling 采样 the next unit from the probabilities of a language model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polyseme.arrays import Ints
from polyseme.errors import OptionError

POWER = 0.75  # probabilities are proportional to count^POWER, flatter than the counts
SCORES_AT_ONCE = 1 << 22  # floats
REPORT_CLASSES = 4096  # sample size for the scores of reports


@dataclass(frozen=True)
class SampledClasses:
    """The classes sampled for a batch: sorted ids ``(C,)``, and log π of each."""

    classes: Tensor
    log_chance: Tensor

    def to(self, device: torch.device) -> SampledClasses:
        """A copy on the device."""
        return SampledClasses(self.classes.to(device), self.log_chance.to(device))


class ClassSampler:
    """Draws the classes for the softmax of a batch."""

    def __init__(self, counts: Ints, negatives: int) -> None:
        """``counts`` are the counts of every class in the training text; about ``negatives`` classes are drawn."""
        self.counts = counts
        frequency = np.maximum(np.asarray(counts, dtype=np.float64), 1)
        self.frequency = frequency / frequency.sum()
        self.chance = _capped_chances(frequency**POWER, negatives)

    @cached_property
    def reported(self) -> SampledClasses | None:
        """A fixed sample of classes to estimate the scores of reports with; None if there are few enough to use all."""
        if len(self.counts) <= REPORT_CLASSES:
            return None
        return ClassSampler(self.counts, REPORT_CLASSES).sample(np.random.default_rng(0))

    def sample(self, random: np.random.Generator) -> SampledClasses:
        """Classes drawn by their probabilities alone, without the targets of a text.

        Systematic sampling: the classes, sorted by frequency, are laid end to end on a line, each as long as its
        probability, and those at equal distances are taken. Frequent and rare ones are thus always drawn in the right
        proportion, and estimates vary ten times less.
        """
        order = np.argsort(-self.frequency, kind="stable")
        chance = self.chance[order].astype(np.float64)
        ends = np.cumsum(chance) + random.random()
        drawn = np.sort(order[np.floor(ends) > np.floor(ends - chance)])
        return SampledClasses(torch.from_numpy(drawn), torch.from_numpy(np.log(self.chance[drawn])))

    def draw(self, targets: Ints, random: np.random.Generator) -> SampledClasses:
        """Classes for a batch with these ``targets``."""
        drawn = np.flatnonzero(random.random(len(self.chance), dtype=np.float32) < self.chance)
        classes = np.union1d(drawn, targets)
        # A class is missing if it was neither drawn nor the target of any prediction of the batch.
        missing = (1 - self.chance[classes]) * np.exp(len(targets) * np.log1p(-self.frequency[classes]))
        log_chance = np.log(np.maximum(1 - missing, 1e-12))
        return SampledClasses(torch.from_numpy(classes), torch.from_numpy(log_chance.astype(np.float32)))


def log_frequencies(counts: NDArray[Any]) -> Tensor:
    """log p of each class by its count plus one ``(C,)``, in float64: the bias that a softmax starts from."""
    smoothed = np.asarray(counts, dtype=np.float64) + 1
    return torch.from_numpy(np.log(smoothed / smoothed.sum()))


def _capped_chances(weights: NDArray[np.float64], expected: int) -> NDArray[np.float32]:
    """Probabilities min(1, k·weight) that sum to ``expected``, or all 1 if there are at most that many classes."""
    if expected >= len(weights):
        return np.ones(len(weights), dtype=np.float32)
    order = np.argsort(-weights)
    sorted_weights = weights[order]
    rest = np.cumsum(sorted_weights[::-1])[::-1]  # sum of this weight and all smaller ones
    # If the n greatest have probability 1, the others share expected - n in proportion to their weights.
    certain = np.arange(len(weights))
    scale = np.maximum(expected - certain, 0) / rest
    n = int(np.argmax(scale * sorted_weights <= 1))
    chances = np.ones(len(weights))
    chances[order[n:]] = scale[n] * sorted_weights[n:]
    return chances.astype(np.float32)


@torch.no_grad()
def log_losses(
    states: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, among: SampledClasses | None = None
) -> Tensor:
    """-log p ``(M,)`` of class ids ``targets (M,)`` given states ``(M, P)``, in float64 and without gradients.

    ``among`` are classes drawn independently of the targets, from which the sum over all classes is estimated without
    bias: e^{s_y} + Σ_{c ∈ C, c ≠ y} e^{s_c} / π_c. None: the sum is computed exactly.
    """
    parts = [torch.empty(0, dtype=torch.float64, device=states.device)]
    rows, offsets = weight, bias
    if among is not None:
        among = among.to(states.device)
        rows, offsets = weight[among.classes], bias[among.classes] - among.log_chance
    n = max(SCORES_AT_ONCE // max(len(rows), 1), 1)
    for chunk, wanted in zip(torch.split(states, n), torch.split(targets, n), strict=True):
        scores = torch.addmm(offsets, chunk, rows.t())  # (n, C)
        if among is None:
            scores_of_targets = scores.gather(1, wanted[:, None])[:, 0]
            total = torch.logsumexp(scores, dim=1)
        else:
            scores_of_targets = (chunk * weight[wanted]).sum(dim=1) + bias[wanted]
            column = torch.searchsorted(among.classes, wanted).clamp_(max=len(rows) - 1)
            drawn = torch.nonzero(among.classes[column] == wanted)[:, 0]
            scores[drawn, column[drawn]] = -torch.inf
            total = torch.logaddexp(torch.logsumexp(scores, dim=1), scores_of_targets)
        parts.append((total - scores_of_targets).double())
    return torch.cat(parts)


def sampled_softmax_loss(
    states: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: SampledClasses, scale: float
) -> Tensor:
    """``scale`` times the sum of the losses of states ``(M, P)`` with class ids ``targets (M,)``.

    The gradients of ``weight (V, P)`` and ``bias (V,)`` are sparse: they hold only the rows of the candidates.
    """
    loss: Tensor = _SampledSoftmax.apply(  # type: ignore[no-untyped-call]
        states, weight, bias, targets, candidates.classes, candidates.log_chance, scale
    )
    return loss


class _SampledSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        classes: Tensor,
        log_chance: Tensor,
        scale: float,
    ) -> Tensor:
        """The loss. The gradients are computed here too, since they share its exponentials."""
        log_chance = log_chance.to(states.dtype)
        rows = weight[classes]  # (C, P)
        column = torch.searchsorted(classes, targets)[:, None]  # (M, 1)
        scores = torch.addmm(bias[classes] - log_chance, states, rows.t())  # (M, C)
        scores.scatter_add_(1, column, log_chance[column])  # the target itself is not corrected
        slope = torch.softmax(scores, dim=1)  # the probabilities, then their gradient
        chances = slope.gather(1, column)
        loss = -chances.clamp_min(torch.finfo(chances.dtype).tiny).log().sum() * scale
        slope.scatter_(1, column, chances - 1)
        slope.mul_(scale)
        ctx.save_for_backward(slope @ rows, classes, slope.t() @ states, slope.sum(dim=0))
        ctx.shapes = weight.shape, bias.shape
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        d_states, classes, d_rows, d_bias = ctx.saved_tensors
        weight_shape, bias_shape = ctx.shapes
        return (
            d_states * upstream,
            _rows(classes, d_rows * upstream, weight_shape),
            _rows(classes, d_bias * upstream, bias_shape),
            *(None,) * 4,
        )


def _rows(which: Tensor, values: Tensor, shape: torch.Size) -> Tensor:
    """A sparse gradient that is zero outside the rows ``which``, which are sorted and distinct."""
    return torch.sparse_coo_tensor(which[None], values, shape, is_coalesced=True, check_invariants=False)


class Sampling:
    """Temperature, top-k and top-p (nucleus) sampling; temperature 0 takes the most likely, ``top_k`` 0 is no limit."""

    def __init__(self, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 1) -> None:
        if temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
            raise OptionError("temperature and top_k must be at least 0, top_p in (0, 1]")
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self._random = torch.Generator().manual_seed(seed)

    def draw(self, log_chances: Tensor) -> int:
        """Draw an index from log probabilities ``(V,)``."""
        if not self.temperature:
            return int(log_chances.argmax())
        chances = torch.softmax(log_chances.float() / self.temperature, dim=0)
        order = torch.argsort(chances, descending=True, stable=True)
        kept = chances[order]
        if self.top_k:
            kept[self.top_k :] = 0
        kept[torch.cumsum(kept, dim=0) - kept >= self.top_p * kept.sum()] = 0  # the first always stays
        return int(order[torch.multinomial(kept, 1, generator=self._random)])
