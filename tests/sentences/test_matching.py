"""The matching networks: what their papers say of them, and small references."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from polyseme.learn.modules import TextTokens
from polyseme.sentences.matching import (
    Arc1Module,
    Arc2Module,
    BiCnnModule,
    CnnSmModule,
    MpCnnModule,
    grid_max,
    unit_similarity,
)

LENGTHS = [6, 2, 1, 0]
MASK = torch.arange(6)[None] < torch.tensor(LENGTHS)[:, None]
X = torch.randn(4, 6, 4, generator=torch.Generator().manual_seed(0))
Y = torch.randn(4, 5, 4, generator=torch.Generator().manual_seed(1))
Y_MASK = torch.arange(5)[None] < torch.tensor([3, 5, 2, 1])[:, None]


def modules() -> dict[str, torch.nn.Module]:
    torch.manual_seed(2)
    return {
        "arc1": Arc1Module(4, 3),
        "arc2": Arc2Module(4, 3),
        "cnn-sm": CnnSmModule(4, (2, 3), (2, 2), 2),
        "bi-cnn": BiCnnModule(4, (2, 3), (2, 2), 2),
        "mpcnn": MpCnnModule(4, 5, 2),
    }


@pytest.mark.parametrize("name", modules())
def test_a_pairs_features_depend_on_the_pair_only(name):
    module = modules()[name]
    noisy = torch.where(MASK.unsqueeze(-1), X, torch.full_like(X, 100.0))
    together = module(TextTokens(noisy, MASK), TextTokens(Y, Y_MASK))
    assert together.shape == (4, module.dim)
    assert torch.isfinite(together).all()
    for row in range(3):
        n, m = LENGTHS[row], int(Y_MASK[row].sum())
        one, other = slice(row, row + 1), Y_MASK[row : row + 1, :m]
        alone = module(TextTokens(X[one, :n], MASK[one, :n]), TextTokens(Y[one, :m], other))
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", modules())
def test_every_weight_gets_a_finite_gradient_equal_texts_included(name):
    module = modules()[name]
    module(TextTokens(X, MASK), TextTokens(X, MASK)).square().sum().backward()
    for parameter in module.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


def test_arc2_meets_every_window_of_one_text_with_every_window_of_the_other():
    module = Arc2Module(4, 3)
    first, second = X[:1], Y[:1, :3]
    joint = torch.cat([module.left.weight, module.right.weight], dim=1)  # (maps, 2D, 3) over [x; y]
    a, b = (F.pad(text[0].t(), (1, 1)) for text in (first, second))
    layer = np.zeros((3, 6, 3))
    for i, j in np.ndindex(6, 3):
        window = torch.cat([a[:, i : i + 3], b[:, j : j + 3]])
        layer[:, i, j] = torch.relu((joint * window).sum(dim=(1, 2)) + module.left.bias).detach()
    x = F.max_pool2d(torch.tensor(layer, dtype=torch.float32)[None], 2, ceil_mode=True)
    x = F.max_pool2d(torch.relu(module.above(x)), 2, ceil_mode=True)
    expected = grid_max(x, torch.tensor([2]), torch.tensor([1])).flatten(1)
    found = module(TextTokens(first, MASK[:1]), TextTokens(second, Y_MASK[:1, :3]))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_padding_makes_no_activation_in_arc1():
    module = Arc1Module(4, 3)
    for layer in module.layers:
        layer.bias.data.fill_(5)
    assert not module.encode(TextTokens(X[3:], MASK[3:])).any()


def test_equal_texts_are_alike_at_every_place_of_bi_cnns_matrices():
    module = modules()["bi-cnn"]
    for x, _ in module.sentence(TextTokens(X[:1], MASK[:1])):
        matrix = unit_similarity(x, x)
        torch.testing.assert_close(matrix.diagonal(dim1=2, dim2=3), torch.ones(matrix.shape[:3]))
    found = unit_similarity(X[:1].permute(0, 2, 1)[:, :, None], Y[:1].permute(0, 2, 1)[:, :, None])
    expected = np.exp(-((X[0].numpy()[:, None] - Y[0].numpy()[None]) ** 2).sum(axis=2) / (2 * 4))
    np.testing.assert_allclose(found[0, 0], expected, atol=1e-5)


def test_swapping_the_texts_turns_bi_cnns_grids():
    module = modules()["bi-cnn"]
    there, back = module(TextTokens(X, MASK), TextTokens(Y, Y_MASK)), module(TextTokens(Y, Y_MASK), TextTokens(X, MASK))
    grids, turned = (features[:, :-1].view(4, -1, 4, 4) for features in (there, back))
    torch.testing.assert_close(grids, turned.transpose(2, 3), atol=1e-5, rtol=1e-4)


def test_mpcnn_has_as_many_features_as_its_program():
    with torch.device("meta"):
        assert MpCnnModule(300, 300, 20, 3).dim == 52_536


def test_mpcnn_finds_no_distance_between_equal_texts():
    module = MpCnnModule(4, 4, 2)
    features = module(TextTokens(X[:1], MASK[:1]), TextTokens(X[:1], MASK[:1]))[0]
    horizontal = features[:8]  # of the maximum: L2 and cosine of every filter over the widths
    torch.testing.assert_close(horizontal, torch.tensor([0.0] * 4 + [1.0] * 4), atol=1e-5, rtol=1e-4)
    vertical = features[8 : 8 + 16].view(4, 4)  # L2 of every pair of widths
    torch.testing.assert_close(vertical.diagonal(), torch.zeros(4), atol=1e-5, rtol=1e-4)


def test_mpcnns_first_block_against_numpy():
    module = MpCnnModule(4, 4, 2)
    features = module(TextTokens(X[:1], MASK[:1]), TextTokens(Y[:1, :3], Y_MASK[:1, :3]))[0].detach().numpy()

    def maxima(text: np.ndarray) -> np.ndarray:
        rows = []
        for w, layer in enumerate(module.whole, start=1):
            weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
            windows = [np.tanh((weight * text[i : i + w].T).sum(axis=(1, 2)) + bias) for i in range(len(text) - w + 1)]
            rows.append(np.max(windows, axis=0))
        return np.stack([*rows, text.max(axis=0)])

    a, b = maxima(X[0].numpy()), maxima(Y[0, :3].numpy())
    np.testing.assert_allclose(features[:4], np.linalg.norm(a - b, axis=0), atol=1e-4)
    norms = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    np.testing.assert_allclose(features[4:8], (a * b).sum(axis=0) / norms, atol=1e-4)
    pairs = np.linalg.norm(a[:, None] - b[None], axis=2)
    np.testing.assert_allclose(features[8:24].reshape(4, 4), pairs, atol=1e-4)
