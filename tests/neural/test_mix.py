"""The learned sum over layers, its layer norms and its regularisers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from polyseme.neural.layers import ScalarMix

LAYERS = torch.randn(3, 4, 5, 6, generator=torch.Generator().manual_seed(0)) * 2 + 1
MASK = torch.arange(5)[None] < torch.tensor([5, 3, 1, 4])[:, None]


def test_a_new_mix_is_the_mean():
    torch.testing.assert_close(ScalarMix(3)(LAYERS), LAYERS.mean(dim=0))


def test_weights_are_a_softmax_times_gamma():
    mix = ScalarMix(3, initial=[0.5, -1.0, 2.0])
    mix.gamma.data.fill_(0.25)
    weights = np.exp([0.5, -1.0, 2.0]) / np.exp([0.5, -1.0, 2.0]).sum()
    np.testing.assert_allclose(mix(LAYERS).detach(), 0.25 * np.tensordot(weights, LAYERS.numpy(), 1), atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-12, 0.5])
def test_layer_norm_is_over_all_real_tokens_and_dimensions(epsilon):
    real = MASK.numpy()
    planes = []
    for plane in LAYERS.numpy().astype(np.float64):
        inside = plane[real]
        planes.append((plane - inside.mean()) / np.sqrt(inside.var() + epsilon))
    np.testing.assert_allclose(
        ScalarMix(3, layer_norm=epsilon)(LAYERS, MASK).detach(), np.mean(planes, axis=0), atol=1e-6
    )


def test_both_forms_of_the_penalty():
    mix = ScalarMix(3, initial=[0.5, -1.0, 2.0])
    weights = np.exp([0.5, -1.0, 2.0]) / np.exp([0.5, -1.0, 2.0]).sum()
    assert mix.penalty(0.1).item() == pytest.approx(0.1 * ((weights - 1 / 3) ** 2).sum(), rel=1e-5)
    assert mix.penalty(0.1, "zero").item() == pytest.approx(0.1 * (0.25 + 1 + 4), rel=1e-6)
    assert ScalarMix(3).penalty(1.0).item() == pytest.approx(0, abs=1e-12)
    mix.penalty(1.0).backward()
    assert mix.scalars.grad.abs().sum() > 0


def test_it_learns_which_layer_a_task_needs():
    mix = ScalarMix(3)
    optimiser = torch.optim.Adam(mix.parameters(), lr=0.1)
    for _ in range(300):
        optimiser.zero_grad()
        ((mix(LAYERS) - LAYERS[1]) ** 2).mean().backward()
        optimiser.step()
    assert int(mix.weights().argmax()) == 1
    assert mix.weights()[1].item() > 0.9


def test_wrong_uses_are_refused():
    with pytest.raises(ValueError, match="2 initial weights"):
        ScalarMix(3, initial=[1.0, 2.0])
    with pytest.raises(ValueError, match="2 layers given to a mix of 3"):
        ScalarMix(3)(LAYERS[:2])
    with pytest.raises(ValueError, match="needs the mask"):
        ScalarMix(3, layer_norm=1e-12)(LAYERS)
    with pytest.raises(ValueError, match="uniform or zero"):
        ScalarMix(3).penalty(1.0, "other")
