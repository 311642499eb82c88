"""Training a biLM further on other text: its shape stays, and its tables grow by the new words and characters."""

from __future__ import annotations

import torch
from torch import Tensor

from polyseme.contexts.elmo.alphabet import CHARACTER_SPECIALS, WORD_SPECIALS
from polyseme.contexts.elmo.bilm import BiLM


def joined(known: list[str], more: list[str]) -> list[str]:
    """The known items in their order, followed by the new ones."""
    seen = set(known)
    return [*known, *(item for item in more if item not in seen)]


@torch.no_grad()
def take_over(bilm: BiLM, start: BiLM) -> None:
    """Copy the weights of ``start``; rows of its tables keep their indices, and special entries stay at the end."""
    known = start.state_dict()
    for name, tensor in bilm.state_dict().items():
        if name not in known:  # the softmax, if the model came without one
            continue
        if name == "encoder.characters":
            _take_rows(tensor, known[name], CHARACTER_SPECIALS)
        elif name in ("encoder.words", "softmax_weight"):
            _take_rows(tensor, known[name], WORD_SPECIALS)
        elif name == "softmax_bias":
            _take_biases(tensor, known[name])
        else:
            tensor.copy_(known[name])


def _take_rows(to: Tensor, known: Tensor, n_special: int) -> None:
    """Copy the known rows; new ones start from the row of the unknown entry."""
    if to.shape == known.shape:
        to.copy_(known)
        return
    n = len(known) - n_special
    to[:n] = known[:n]
    to[n : len(to) - n_special] = known[n]
    to[len(to) - n_special :] = known[n:]


def _take_biases(to: Tensor, known: Tensor) -> None:
    """Copy the known biases; new words share the probability of "unknown" in proportion to their frequency."""
    n, end = len(known) - WORD_SPECIALS, len(to) - WORD_SPECIALS
    if end > n:
        fresh = to[n : end + 1]  # log frequencies of the new words and of the words that stay unknown
        to[n : end + 1] = known[n] + fresh - torch.logsumexp(fresh, dim=0)
    to[:n] = known[:n]
    to[end + 1 :] = known[n + 1 :]
