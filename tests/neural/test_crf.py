"""The CRF against the enumeration of all sequences, and against pytorch-crf."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
import torchcrf

from polyseme.data.schemes import allowed
from polyseme.neural.crf import CRF

LENGTHS = [4, 1, 3]
MASK = torch.arange(4)[None] < torch.tensor(LENGTHS)[:, None]


@pytest.fixture
def emissions():
    return torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(1)) * 2


@pytest.fixture
def crf():
    torch.manual_seed(2)
    crf = CRF(3)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


def score_of(crf, rows, path) -> float:
    total = crf.start[path[0]] + crf.end[path[-1]] + sum(rows[t, tag] for t, tag in enumerate(path))
    return float((total + sum(crf.transitions[a, b] for a, b in itertools.pairwise(path))).detach())


def all_paths(length: int) -> list[tuple[int, ...]]:
    return list(itertools.product(range(3), repeat=length))


def test_the_loss_is_that_of_enumerating_every_sequence(crf, emissions):
    tags = torch.tensor([[0, 2, 1, 1], [2, 0, 0, 0], [1, 1, 0, 0]])
    for row, length in enumerate(LENGTHS):
        scores = np.array([score_of(crf, emissions[row], path) for path in all_paths(length)])
        gold = score_of(crf, emissions[row], tags[row, :length].tolist())
        expected = np.logaddexp.reduce(scores) - gold
        assert crf.loss(emissions, tags, MASK)[row].item() == pytest.approx(expected, abs=1e-4)


def test_the_best_sequence_is_the_best_of_all(crf, emissions):
    for row, path in enumerate(crf.decode(emissions, MASK)):
        assert tuple(path) == max(all_paths(LENGTHS[row]), key=lambda p, row=row: score_of(crf, emissions[row], p))


def test_marginals_are_sums_over_the_sequences(crf, emissions):
    found = crf.marginals(emissions, MASK)
    for row, length in enumerate(LENGTHS):
        paths = all_paths(length)
        weights = np.exp([score_of(crf, emissions[row], path) for path in paths])
        for step, tag in itertools.product(range(length), range(3)):
            share = sum(w for w, path in zip(weights, paths, strict=True) if path[step] == tag) / weights.sum()
            assert found[row, step, tag].item() == pytest.approx(share, abs=1e-5)
    assert not found[1, 1:].any()


def test_loss_gradients_and_paths_are_those_of_pytorch_crf():
    torch.manual_seed(3)
    peer, crf = torchcrf.CRF(9, batch_first=True), CRF(9)
    with torch.no_grad():
        crf.start.copy_(peer.start_transitions)
        crf.transitions.copy_(peer.transitions)
        crf.end.copy_(peer.end_transitions)
    emissions = [torch.randn(5, 30, 9, generator=torch.Generator().manual_seed(4)).requires_grad_() for _ in range(2)]
    mask = torch.arange(30)[None] < torch.tensor([30, 22, 7, 1, 29])[:, None]
    tags = torch.randint(9, (5, 30))
    crf.loss(emissions[0], tags, mask).sum().backward()
    (-peer(emissions[1], tags, mask=mask)).backward()
    torch.testing.assert_close(emissions[0].grad, emissions[1].grad, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(crf.transitions.grad, peer.transitions.grad, atol=1e-4, rtol=1e-4)
    assert crf.decode(emissions[0], mask) == peer.decode(emissions[1], mask=mask)


def test_decoding_keeps_to_the_scheme_whatever_the_emissions():
    tags = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    first, follow, last = (torch.from_numpy(rule) for rule in allowed(tags))
    crf = CRF(5, first=first, follow=follow, last=last)
    emissions = torch.randn(50, 6, 5, generator=torch.Generator().manual_seed(5)) * 20
    for path in crf.decode(emissions, torch.ones(50, 6, dtype=torch.bool)):
        names = ["O", *(tags[tag] for tag in path)]
        for before, tag in itertools.pairwise(names):
            assert not tag.startswith("I-") or before[2:] == tag[2:]


def test_a_sentence_without_tokens_has_no_tags(crf):
    assert crf.decode(torch.zeros(2, 0, 3), torch.zeros(2, 0, dtype=torch.bool)) == [[], []]
