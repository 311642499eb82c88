"""Softmax over a sample of the classes (采样 softmax), with gradients of its own.

After Bengio & Senécal, "Quick Training of Probabilistic Neural Nets by Importance Sampling", AISTATS 2003, and Jean et
al., "On Using Very Large Target Vocabulary", ACL 2015. For a state h with the target y

    loss = -s_y + log( e^{s_y} + Σ_{c ∈ C, c ≠ y} e^{s_c} / π_c ),        s_c = h·w_c + b_c

where C is one set of classes for the whole batch and π_c the chance that c is in it, so the sum is that of all classes
in expectation, and with π = 1 the loss is the full softmax's. C holds every target of the batch, the most frequent
classes (π = 1) and, each with its own independent chance, the others. Against TensorFlow's sampled softmax: no class is
drawn twice, the targets of the other rows serve as negatives too, and the target itself is not corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

POWER = 0.75  # chances follow count^POWER, flatter than the counts themselves
SCORES_AT_ONCE = 1 << 22  # floats
REPORT_CLASSES = 4096  # from which a report estimates the sum over more of them


@dataclass(frozen=True)
class Candidates:
    """The classes of a batch: sorted ids ``(C,)``, and log π of each."""

    classes: Tensor
    log_chance: Tensor

    def to(self, device: torch.device) -> Candidates:
        """The same on a device."""
        return Candidates(self.classes.to(device), self.log_chance.to(device))


class ClassSampler:
    """Draws the classes that a batch is scored on."""

    def __init__(self, counts: NDArray[np.int64], negatives: int) -> None:
        """``counts`` of every class in the training text; about ``negatives`` classes are drawn."""
        frequency = np.maximum(np.asarray(counts, dtype=np.float64), 1)
        self.frequency = frequency / frequency.sum()
        self.chance = _capped_chances(frequency**POWER, negatives)

    def sample(self, random: np.random.Generator) -> Candidates:
        """Classes drawn by their own chances alone, for a text that is not looked at.

        They are taken at even distances from the classes laid end to end by frequency, each as long as its chance: so
        common and rare ones are always there in the right number, and estimates vary ten times less.
        """
        order = np.argsort(-self.frequency, kind="stable")
        chance = self.chance[order].astype(np.float64)
        ends = np.cumsum(chance) + random.random()
        drawn = np.sort(order[np.floor(ends) > np.floor(ends - chance)])
        return Candidates(torch.from_numpy(drawn), torch.from_numpy(np.log(self.chance[drawn])))

    def draw(self, targets: NDArray[np.int64], random: np.random.Generator) -> Candidates:
        """Classes for a batch with these ``targets``."""
        drawn = np.flatnonzero(random.random(len(self.chance), dtype=np.float32) < self.chance)
        classes = np.union1d(drawn, targets)
        # A class is absent where it was neither drawn nor the target of any of the batch's predictions.
        missing = (1 - self.chance[classes]) * np.exp(len(targets) * np.log1p(-self.frequency[classes]))
        log_chance = np.log(np.maximum(1 - missing, 1e-12))
        return Candidates(torch.from_numpy(classes), torch.from_numpy(log_chance.astype(np.float32)))


def classes_to_report(counts: NDArray[np.int64]) -> Candidates | None:
    """Classes that the scores of reports are estimated on, always the same ones; None: all of them, there are few."""
    if len(counts) <= REPORT_CLASSES:
        return None
    return ClassSampler(counts, REPORT_CLASSES).sample(np.random.default_rng(0))


def _capped_chances(weights: NDArray[np.float64], expected: int) -> NDArray[np.float32]:
    """Chances min(1, k·weight) whose sum is ``expected``, or 1 each where there are no more classes than that."""
    if expected >= len(weights):
        return np.ones(len(weights), dtype=np.float32)
    order = np.argsort(-weights)
    sorted_weights = weights[order]
    rest = np.cumsum(sorted_weights[::-1])[::-1]  # of this and all smaller ones
    # With the n greatest certain, the others share expected - n in proportion to their weights.
    certain = np.arange(len(weights))
    scale = np.maximum(expected - certain, 0) / rest
    n = int(np.argmax(scale * sorted_weights <= 1))
    chances = np.ones(len(weights))
    chances[order[n:]] = scale[n] * sorted_weights[n:]
    return chances.astype(np.float32)


@torch.no_grad()
def log_losses(
    states: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, among: Candidates | None = None
) -> Tensor:
    """-log p ``(M,)`` of class ids ``targets (M,)`` after states ``(M, P)``, float64: a score, not a loss to learn by.

    The sum over all classes is estimated from those ``among`` which were drawn without a look at the targets:
    e^{s_y} + Σ_{c ∈ C, c ≠ y} e^{s_c} / π_c, without bias. None: it is computed.
    """
    found = [torch.empty(0, dtype=torch.float64, device=states.device)]
    rows, offsets = weight, bias
    if among is not None:
        among = among.to(states.device)
        rows, offsets = weight[among.classes], bias[among.classes] - among.log_chance
    n = max(SCORES_AT_ONCE // max(len(rows), 1), 1)
    for some, wanted in zip(torch.split(states, n), torch.split(targets, n), strict=True):
        scores = torch.addmm(offsets, some, rows.t())  # (n, C)
        if among is None:
            own = scores.gather(1, wanted[:, None])[:, 0]
            total = torch.logsumexp(scores, dim=1)
        else:
            own = (some * weight[wanted]).sum(dim=1) + bias[wanted]
            column = torch.searchsorted(among.classes, wanted).clamp_(max=len(rows) - 1)
            drawn = torch.nonzero(among.classes[column] == wanted)[:, 0]
            scores[drawn, column[drawn]] = -torch.inf
            total = torch.logaddexp(torch.logsumexp(scores, dim=1), own)
        found.append((total - own).double())
    return torch.cat(found)


def sampled_softmax_loss(
    states: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates, scale: float
) -> Tensor:
    """``scale`` times the sum of the losses of states ``(M, P)`` with class ids ``targets (M,)``.

    The gradients of ``weight (V, P)`` and ``bias (V,)`` are sparse: they hold the candidates' rows.
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
        """The loss; the gradients too, since they share its exponentials."""
        log_chance = log_chance.to(states.dtype)
        rows = weight[classes]  # (C, P)
        column = torch.searchsorted(classes, targets)[:, None]  # (M, 1)
        scores = torch.addmm(bias[classes] - log_chance, states, rows.t())  # (M, C)
        scores.scatter_add_(1, column, log_chance[column])  # the target itself is not corrected
        slope = torch.softmax(scores, dim=1)  # the probabilities, then their gradient
        own = slope.gather(1, column)
        loss = -own.clamp_min(torch.finfo(own.dtype).tiny).log().sum() * scale
        slope.scatter_(1, column, own - 1)
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
    """A gradient that is zero but in these rows, sorted and distinct."""
    return torch.sparse_coo_tensor(which[None], values, shape, is_coalesced=True, check_invariants=False)
