"""Conditional random field over a chain of tags (条件随机场).

Lafferty, McCallum and Pereira, "Conditional Random Fields", ICML 2001.

    log p(y | x) = s(y) - log Σ_y' e^s(y'),   s(y) = a[y_1] + Σ_t e_t[y_t] + Σ_t A[y_t, y_t+1] + b[y_T]

The sum over all sequences is computed by the forward recursion with one matrix product per step, Σ_i e^α_i e^A_ij, with
α shifted by its maximum. Transitions that the tagging scheme forbids are excluded from decoding and from the marginals,
but not from training: the model learns them from the data, and a gold sequence that breaks the scheme still has a
finite loss.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

FORBIDDEN = -1e4  # finite, so that decoding still finds the best sequence if all are forbidden
_LEAST = 1e-37


class CRF(nn.Module):
    """Start, transition and end scores of ``n_tags`` tags; emissions come from the network below.

    ``first (K,)``, ``follow (K, K)`` and ``last (K,)`` are True at the first tags, transitions and last tags that
    decoding allows; None allows all.
    """

    def __init__(
        self,
        n_tags: int,
        *,
        first: Tensor | None = None,
        follow: Tensor | None = None,
        last: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(n_tags).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(n_tags, n_tags).uniform_(-0.1, 0.1))  # from row to column
        self.end = nn.Parameter(torch.empty(n_tags).uniform_(-0.1, 0.1))
        for name, allowed, shape in (
            ("first", first, (n_tags,)), ("follow", follow, (n_tags, n_tags)), ("last", last, (n_tags,)),
        ):  # fmt: skip
            given = torch.ones(shape, dtype=torch.bool) if allowed is None else allowed.bool()
            self.register_buffer(f"{name}_cost", torch.where(given, 0.0, FORBIDDEN), persistent=False)
        self.first_cost: Tensor
        self.follow_cost: Tensor
        self.last_cost: Tensor

    def loss(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """-log p ``(B,)`` of gold ``tags (B, T)`` under ``emissions (B, T, K)``. No sentence may be empty."""
        partition = self._log_partition(emissions, mask, self.start, self.transitions, self.end)
        return partition - self._score(emissions, tags, mask)

    def _score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        real = mask.to(emissions.dtype)
        places = tags.masked_fill(~mask, 0).unsqueeze(-1)
        emitted = (emissions.gather(2, places).squeeze(-1) * real).sum(dim=1)
        tags = places.squeeze(-1)
        moved = (self.transitions[tags[:, :-1], tags[:, 1:]] * real[:, 1:]).sum(dim=1)
        final = tags.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)
        return self.start[tags[:, 0]] + emitted + moved + self.end[final]

    @staticmethod
    def _log_partition(emissions: Tensor, mask: Tensor, start: Tensor, transitions: Tensor, end: Tensor) -> Tensor:
        highest = transitions.detach().max()
        factors = (transitions - highest).exp()
        alpha = start + emissions[:, 0]  # (B, K)
        for step in range(1, emissions.shape[1]):
            shift = alpha.detach().amax(dim=1, keepdim=True)
            summed = ((alpha - shift).exp() @ factors).clamp_min(_LEAST).log()
            alpha = torch.where(mask[:, step, None], summed + (shift + highest) + emissions[:, step], alpha)
        return torch.logsumexp(alpha + end, dim=1)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The best allowed tag sequence of every sentence (Viterbi); empty for a sentence without tokens."""
        start, transitions, end = self._constrained()
        lengths = mask.sum(dim=1).tolist()
        best = start + emissions[:, 0] if emissions.shape[1] else emissions.new_zeros(len(emissions), len(start))
        pointers = []
        for step in range(1, emissions.shape[1]):
            scores, origin = (best.unsqueeze(2) + transitions).max(dim=1)  # (B, K)
            best = torch.where(mask[:, step, None], scores + emissions[:, step], best)
            pointers.append(origin)
        last = (best + end).argmax(dim=1).tolist()
        back = torch.stack(pointers).tolist() if pointers else []  # (T - 1, B, K)
        paths = []
        for row, length in enumerate(lengths):
            path = [last[row]] if length else []
            for step in range(length - 2, -1, -1):
                path.append(back[step][row][path[-1]])
            paths.append(path[::-1])
        return paths

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """p(y_t = k | x) over the allowed sequences, ``(B, T, K)``: the gradient of log Z in the emissions."""
        with torch.enable_grad():
            free = emissions.detach().clone().requires_grad_()
            real = mask.clone()  # what inference mode made cannot be part of a gradient's computation
            partition = self._log_partition(free, real, *(score.detach() for score in self._constrained()))
            (gradient,) = torch.autograd.grad(partition.sum(), free)
        return gradient * mask.unsqueeze(-1)

    def _constrained(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.start + self.first_cost, self.transitions + self.follow_cost, self.end + self.last_cost
