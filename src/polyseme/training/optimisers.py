"""AdamW and Adagrad, whose sparse gradients move only the rows they touch.

Dense gradients go through torch's own fused functions. A sparse one (COO, as ``nn.Embedding(sparse=True)`` and the
sampled softmax give) updates the moments of its own rows, so a step costs what the batch holds, not what the
vocabulary does. Moments are plain tensors by name: they go into checkpoints, and several processes can share them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor
from torch.optim.adagrad import adagrad
from torch.optim.adamw import adamw

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
ADAGRAD_EPSILON = 1e-10


class Optimiser:
    """The moments of every parameter, and the step they make with its gradient."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        kind: str = "adamw",
        *,
        weight_decay: float = 0.0,
        accumulator: float = 0.0,
        betas: tuple[float, float] = (BETA1, BETA2),
    ) -> None:
        self.parameters = dict(parameters)
        self.kind, self.weight_decay, self.betas = kind, weight_decay, betas
        self.moments: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            if kind == "adamw":
                self.moments[f"{name}/first"] = torch.zeros_like(parameter)
                self.moments[f"{name}/second"] = torch.zeros_like(parameter)
            else:
                self.moments[f"{name}/sum"] = torch.full_like(parameter, accumulator)
            self.moments[f"{name}/steps"] = torch.zeros((), dtype=torch.float32)
        for moment in self.moments.values():
            moment.requires_grad_(False)

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Move every parameter that has a gradient."""
        dense = []
        for name, parameter in self.parameters.items():
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                self._move_rows(name, parameter, parameter.grad, lr)
            else:
                dense.append(name)
        if dense:
            self._move(dense, lr)

    def _of(self, names: Iterable[str], moment: str) -> list[Tensor]:
        return [_flat(self.moments[f"{name}/{moment}"]) for name in names]

    def _move(self, names: list[str], lr: float) -> None:
        """The fused functions go through memory, so parameters, gradients and moments must lie there alike."""
        own = [self.parameters[name] for name in names]
        gradients = [_flat(_laid_out_as(p, p.grad)) for p in own if p.grad is not None]
        parameters, steps = [_flat(p) for p in own], [self.moments[f"{name}/steps"] for name in names]
        if self.kind == "adamw":
            adamw(
                parameters, gradients, self._of(names, "first"), self._of(names, "second"), [], steps,
                fused=True, amsgrad=False, beta1=self.betas[0], beta2=self.betas[1], lr=lr,
                weight_decay=self.weight_decay, eps=EPSILON, maximize=False,
            )  # fmt: skip
        else:
            adagrad(
                parameters, gradients, self._of(names, "sum"), steps, fused=True, lr=lr, weight_decay=0.0,
                lr_decay=0.0, eps=ADAGRAD_EPSILON, maximize=False,
            )  # fmt: skip

    def _move_rows(self, name: str, parameter: Tensor, gradient: Tensor, lr: float) -> None:
        gradient = gradient.coalesce()
        rows, values = gradient.indices()[0], gradient.values()
        steps = self.moments[f"{name}/steps"]
        steps += 1
        if self.kind == "adagrad":
            total = self.moments[f"{name}/sum"]
            of_rows = total[rows].addcmul_(values, values)
            total[rows] = of_rows
            parameter[rows] = parameter[rows].addcdiv_(values, of_rows.sqrt_().add_(ADAGRAD_EPSILON), value=-lr)
            return
        beta1, beta2 = self.betas
        first, second = self.moments[f"{name}/first"], self.moments[f"{name}/second"]
        m = first[rows].lerp_(values, 1 - beta1)
        v = second[rows].mul_(beta2).addcmul_(values, values, value=1 - beta2)
        first[rows], second[rows] = m, v
        done = float(steps)
        scale = math.sqrt(1 - beta2**done) / (1 - beta1**done)
        moved = parameter[rows]
        if self.weight_decay:
            moved.mul_(1 - lr * self.weight_decay)
        # ε stands beside the corrected root, as in the dense form.
        moved.addcdiv_(m, v.sqrt_().add_(EPSILON * math.sqrt(1 - beta2**done)), value=-lr * scale)
        parameter[rows] = moved


def _laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient in the parameter's order of memory."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)


def _flat(dense: Tensor) -> Tensor:
    """All numbers of a tensor without gaps, as they lie in memory."""
    return dense.as_strided((dense.numel(),), (1,))


@torch.no_grad()
def clip_gradients(parameters: Iterable[Tensor], bound: float) -> float:
    """Scale all gradients down to a joint norm of ``bound`` where it is greater (0: never); the norm before."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    values = [g.coalesce().values() if g.is_sparse else g for g in gradients]
    if not values:
        return 0.0
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(values))))
    if bound and norm > bound:
        scaled = [g._values() if g.is_sparse else g for g in gradients]
        torch._foreach_mul_(scaled, bound / norm)
    return norm
