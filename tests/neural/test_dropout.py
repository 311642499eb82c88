"""Dropout is torch's, drawn faster."""

import pytest
import torch

from polyseme.neural.layers import Dropout, dropout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_asked_share_is_left_out_and_the_mean_stays(share: float) -> None:
    torch.manual_seed(1)
    dropped = dropout(torch.ones(1000, 301), share)
    assert float((dropped == 0).float().mean()) == pytest.approx(share, abs=0.005)
    assert float(dropped.mean()) == pytest.approx(1, abs=0.03)
    torch.testing.assert_close(dropped[dropped != 0], torch.full_like(dropped[dropped != 0], 1 / (1 - share)))


def test_gradients_pass_where_numbers_were_kept() -> None:
    x = torch.randn(7, 5, requires_grad=True)
    dropped = dropout(x, 0.4)
    dropped.sum().backward()
    torch.testing.assert_close(x.grad, dropped.detach() / x.detach())


def test_torchs_seed_decides_what_is_left_out() -> None:
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(dropout(torch.ones(100), 0.5))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_nothing_is_left_out_when_not_training() -> None:
    x = torch.randn(3, 4)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(dropout(x, 0.0), x)
    assert dropout(torch.zeros(0, 3), 0.5).shape == (0, 3)
