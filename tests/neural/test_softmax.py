"""The sampled softmax against a plain computation, and its expectation against the full softmax."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from polyseme.neural.softmax import ClassSampler, SampledClasses, log_losses, sampled_softmax_loss


def leaves(n_states=7, n_classes=12, size=4):
    torch.manual_seed(3)
    make = [torch.randn(n_states, size), torch.randn(n_classes, size), torch.randn(n_classes)]
    return [tensor.double().requires_grad_() for tensor in make]


def test_with_all_classes_certain_it_is_the_full_softmax():
    states, weight, bias = leaves()
    targets = torch.tensor([0, 3, 3, 11, 5, 2, 0])
    candidates = SampledClasses(torch.arange(12), torch.zeros(12))
    loss = sampled_softmax_loss(states, targets, weight, bias, candidates, 0.5)
    full = 0.5 * torch.nn.functional.cross_entropy(states @ weight.t() + bias, targets, reduction="sum")
    torch.testing.assert_close(loss, full)
    found = torch.autograd.grad(loss, [states, weight, bias])
    wanted = torch.autograd.grad(full, [states, weight, bias])
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.to_dense() if a.is_sparse else a, b)


def test_a_sampled_loss_and_its_gradients_are_those_of_the_formula():
    states, weight, bias = leaves()
    targets = torch.tensor([1, 4, 4, 9, 1, 9, 6])
    classes = torch.tensor([1, 2, 4, 6, 9, 11])
    chance = torch.tensor([0.5, 0.25, 0.9, 0.1, 1.0, 0.3], dtype=torch.float64)
    loss = sampled_softmax_loss(states, targets, weight, bias, SampledClasses(classes, chance.log()), 1.0)
    total = torch.zeros((), dtype=torch.float64)
    for state, target in zip(states, targets, strict=True):
        score = {int(c): state @ weight[c] + bias[c] for c in classes}
        others = sum(score[int(c)].exp() / p for c, p in zip(classes, chance, strict=True) if c != target)
        total = total - score[int(target)] + torch.log(score[int(target)].exp() + others)
    torch.testing.assert_close(loss, total)
    for a, b in zip(
        torch.autograd.grad(loss, [states, weight, bias]),
        torch.autograd.grad(total, [states, weight, bias]),
        strict=True,
    ):
        torch.testing.assert_close(a.to_dense(), b)


def test_classes_are_drawn_as_often_as_their_chances_say():
    counts = np.array([500, 300, 100, 50, 20, 10, 10, 5, 3, 2])
    sampler = ClassSampler(counts, negatives=4)
    assert sampler.chance.sum() == pytest.approx(4, abs=1e-4)
    assert sampler.chance.max() <= 1
    random = np.random.default_rng(0)
    n, n_targets = 4000, 6
    seen = np.zeros(10)
    promised = np.zeros(10)
    for _ in range(n):
        targets = random.choice(10, n_targets, p=counts / counts.sum())
        candidates = sampler.draw(targets, random)
        assert set(targets) <= set(candidates.classes.tolist())
        seen[candidates.classes] += 1
        promised[candidates.classes] = candidates.log_chance.exp()
    # Three standard deviations of a share of n draws.
    assert np.all(np.abs(seen / n - promised) < 3 * np.sqrt(0.25 / n) + 1e-6)


def test_the_estimated_normaliser_is_that_of_all_classes_in_expectation():
    counts = np.array([400, 200, 100, 50, 25, 12, 6, 3, 2, 1])
    sampler = ClassSampler(counts, negatives=5)
    random = np.random.default_rng(1)
    scores = np.linspace(-1, 1, 10)
    estimates = []
    for _ in range(6000):
        targets = random.choice(10, 4, p=counts / counts.sum())
        candidates = sampler.draw(targets, random)
        estimates.append(np.exp(scores[candidates.classes] - candidates.log_chance.numpy()).sum())
    assert np.mean(estimates) == pytest.approx(np.exp(scores).sum(), rel=0.02)


def test_more_negatives_than_classes_means_all_of_them():
    sampler = ClassSampler(np.array([5, 1, 0]), negatives=100)
    candidates = sampler.draw(np.array([0]), np.random.default_rng(0))
    assert candidates.classes.tolist() == [0, 1, 2]
    assert candidates.log_chance.tolist() == [0, 0, 0]


def test_scores_over_all_classes_are_those_of_torch():
    states, weight, bias = (tensor.detach() for tensor in leaves())
    targets = torch.tensor([0, 3, 3, 11, 5, 2, 0])
    wanted = torch.nn.functional.cross_entropy(states @ weight.t() + bias, targets, reduction="none")
    torch.testing.assert_close(log_losses(states, targets, weight, bias), wanted)
    every = SampledClasses(torch.arange(12), torch.zeros(12))
    torch.testing.assert_close(log_losses(states, targets, weight, bias, every), wanted)


def test_scores_over_a_sample_have_the_right_sum_in_expectation():
    states, weight, bias = (tensor.detach() for tensor in leaves(n_classes=200))
    targets, random = torch.tensor([0, 30, 31, 110, 59, 2, 199]), np.random.default_rng(5)
    sampler = ClassSampler(np.arange(200, 0, -1), negatives=60)
    scores = states @ weight.t() + bias
    own = scores.gather(1, targets[:, None])[:, 0]
    samples = [sampler.sample(random) for _ in range(1000)]
    assert {len(sample.classes) for sample in samples} == {60}
    estimates = [log_losses(states, targets, weight, bias, sample).add(own).exp() for sample in samples]
    torch.testing.assert_close(torch.stack(estimates).mean(dim=0), scores.exp().sum(dim=1), rtol=0.04, atol=0)
