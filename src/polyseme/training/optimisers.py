"""AdamW, Adagrad and SGD that update only the rows of a sparse gradient.

Dense gradients go through torch's own fused functions. A sparse one (COO, as ``nn.Embedding(sparse=True)`` and the
sampled softmax give) updates only its own rows and their moments, so the cost of a step depends on the batch, not on
the size of the vocabulary. Moments are plain tensors by name: they go into checkpoints, and processes can share them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.adagrad import adagrad
from torch.optim.adamw import adamw

BETAS, EPSILON = (0.9, 0.999), 1e-8
ADAGRAD_EPSILON = 1e-10


@dataclass(frozen=True)
class ParameterGroup:
    """The learning rate factor and weight decay of some of the parameters, or that they are frozen."""

    lr_factor: float = 1.0
    weight_decay: float | None = None  # None: that of the options, but 0 for 1-D ones (biases, norms)
    frozen: bool = False


class _Rates(NamedTuple):
    lr_factor: float
    weight_decay: float


class Optimiser:
    """Updates parameters from their gradients, and holds their moments."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        kind: str = "adamw",
        *,
        weight_decay: float = 0.0,
        accumulator: float = 0.0,
        momentum: float = 0.0,
        betas: tuple[float, float] = BETAS,
    ) -> None:
        self.parameters = dict(parameters)
        for parameter in self.parameters.values():
            if not _without_gaps(parameter):
                parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
        self.kind, self.weight_decay, self.betas, self.momentum = kind, weight_decay, betas, momentum
        self.accumulator = accumulator
        self.moments: dict[str, Tensor] = {}
        self.arrange({})

    def arrange(self, groups: Mapping[str, ParameterGroup]) -> None:
        """Assign each parameter to the group with the longest matching name prefix, and freeze or unfreeze it."""
        self._rates: dict[str, _Rates] = {}
        for name, parameter in self.parameters.items():
            fitting = [start for start in groups if name.startswith(start)]
            group = groups[max(fitting, key=len)] if fitting else ParameterGroup()
            usual = self.weight_decay if parameter.dim() > 1 else 0.0
            decay = usual if group.weight_decay is None else group.weight_decay
            self._rates[name] = _Rates(group.lr_factor, decay)
            parameter.requires_grad_(not group.frozen)

    def make_moments(self, names: Iterable[str] | None = None) -> None:
        """Create the moments of these parameters (default: all) that have none yet."""
        for name in self.parameters if names is None else names:
            parameter = self.parameters[name].detach()
            if f"{name}/steps" in self.moments:
                continue
            if self.kind == "adamw":
                self.moments[f"{name}/first"] = torch.zeros_like(parameter)
                self.moments[f"{name}/second"] = torch.zeros_like(parameter)
            elif self.kind == "adagrad":
                self.moments[f"{name}/sum"] = torch.full_like(parameter, self.accumulator)
            elif self.momentum:
                self.moments[f"{name}/move"] = torch.zeros_like(parameter)
            self.moments[f"{name}/steps"] = torch.zeros((), dtype=torch.float32, device=parameter.device)

    def restore(self, moments: Mapping[str, Tensor]) -> None:
        """Load the moments of a checkpoint; raises RuntimeError or KeyError if they do not fit."""
        names = [name.rsplit("/", 1)[0] for name in moments if name.endswith("/steps")]
        self.make_moments(names)
        for name in self.moments:
            self.moments[name].copy_(moments[name])

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Update every parameter that has a gradient."""
        dense: dict[_Rates, list[str]] = {}
        moving = [name for name, parameter in self.parameters.items() if parameter.grad is not None]
        self.make_moments(moving)
        for name in moving:
            gradient = self.parameters[name].grad
            assert gradient is not None
            if gradient.is_sparse:
                self._move_rows(name, gradient, lr)
            else:
                dense.setdefault(self._rates[name], []).append(name)
        for rates, names in dense.items():
            self._move(names, lr * rates.lr_factor, rates.weight_decay)

    def _of(self, names: Iterable[str], moment: str) -> list[Tensor]:
        return [_flat(self.moments[f"{name}/{moment}"]) for name in names]

    def _move(self, names: list[str], lr: float, weight_decay: float) -> None:
        """Update dense parameters. The fused functions need parameters, gradients and moments in one memory layout."""
        moved = [self.parameters[name] for name in names]
        gradients = [_flat(_laid_out_as(p, p.grad)) for p in moved if p.grad is not None]
        parameters, steps = [_flat(p) for p in moved], [self.moments[f"{name}/steps"] for name in names]
        if self.kind == "adamw":
            adamw(
                parameters, gradients, self._of(names, "first"), self._of(names, "second"), [], steps,
                fused=True, amsgrad=False, beta1=self.betas[0], beta2=self.betas[1], lr=lr,
                weight_decay=weight_decay, eps=EPSILON, maximize=False,
            )  # fmt: skip
            return
        if weight_decay:
            torch._foreach_mul_(parameters, 1 - lr * weight_decay)
        if self.kind == "adagrad":
            fused = moved[0].device.type == "cpu"  # torch has a fused Adagrad on the CPU only
            adagrad(
                parameters, gradients, self._of(names, "sum"), steps, fused=fused, foreach=not fused, lr=lr,
                weight_decay=0.0, lr_decay=0.0, eps=ADAGRAD_EPSILON, maximize=False,
            )  # fmt: skip
            return
        if self.momentum:
            moves = self._of(names, "move")
            torch._foreach_mul_(moves, self.momentum)
            torch._foreach_add_(moves, gradients)
            gradients = moves
        torch._foreach_add_(parameters, gradients, alpha=-lr)

    def _move_rows(self, name: str, gradient: Tensor, lr: float) -> None:
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        parameter, steps = self.parameters[name], self.moments[f"{name}/steps"]
        steps += 1
        lr *= self._rates[name].lr_factor
        moved = parameter[rows]
        if self._rates[name].weight_decay:
            moved.mul_(1 - lr * self._rates[name].weight_decay)
        if self.kind == "adamw":
            self._adam_rows(name, rows, values, moved, lr)
        elif self.kind == "adagrad":
            total = self.moments[f"{name}/sum"]
            of_rows = total[rows].addcmul_(values, values)
            total[rows] = of_rows
            moved.addcdiv_(values, of_rows.sqrt_().add_(ADAGRAD_EPSILON), value=-lr)
        else:
            if self.momentum:
                move = self.moments[f"{name}/move"]
                values = move[rows].mul_(self.momentum).add_(values)
                move[rows] = values
            moved.sub_(values, alpha=lr)
        parameter[rows] = moved

    def _adam_rows(self, name: str, rows: Tensor, values: Tensor, moved: Tensor, lr: float) -> None:
        beta1, beta2 = self.betas
        first, second = self.moments[f"{name}/first"], self.moments[f"{name}/second"]
        m = first[rows].lerp_(values, 1 - beta1)
        v = second[rows].mul_(beta2).addcmul_(values, values, value=1 - beta2)
        first[rows], second[rows] = m, v
        done = float(self.moments[f"{name}/steps"])
        scale = math.sqrt(1 - beta2**done) / (1 - beta1**done)
        # ε is added to the bias-corrected root, as in the dense update.
        moved.addcdiv_(m, v.sqrt_().add_(EPSILON * math.sqrt(1 - beta2**done)), value=-lr * scale)


def _laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient with the memory layout of the parameter."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)


def _without_gaps(tensor: Tensor) -> bool:
    return tensor.stride() == torch.empty_like(tensor, device="meta").stride()


def _flat(dense: Tensor) -> Tensor:
    """A flat view of a tensor without gaps, in memory order."""
    return dense.as_strided((dense.numel(),), (1,))


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], bound: float) -> float:
    """Scale the gradients down to a total norm of ``bound`` if it is greater (0: never); returns the norm before."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    values = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    if not values:
        return 0.0
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(values))))
    if bound and norm > bound:
        scaled = [g._values() if g.is_sparse else g for g in gradients]
        torch._foreach_mul_(scaled, bound / norm)
    return norm
