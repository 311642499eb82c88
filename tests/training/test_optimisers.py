"""Our optimisers against torch's, dense and by rows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyseme.training.optimisers import Optimiser, ParameterGroup, clip_gradients


def pair(shape=(6, 4), *, turned=False):
    torch.manual_seed(0)
    first = torch.randn(shape)
    ours = nn.Parameter(first.t().contiguous().t() if turned else first)
    return ours, nn.Parameter(ours.detach().contiguous().clone())


@pytest.mark.parametrize(
    ("kind", "ours_options", "theirs"),
    [
        ("adamw", {"weight_decay": 0.1}, lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)),
        ("adamw", {}, lambda p: torch.optim.Adam(p, lr=0.05)),
        ("adagrad", {"accumulator": 0.7}, lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=0.7)),
        ("sgd", {"weight_decay": 0.1}, lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1)),
        ("sgd", {"momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    ],
)
@pytest.mark.parametrize("turned", [False, True], ids=["by rows", "by columns"])
@pytest.mark.parametrize("turned_gradient", [False, True], ids=["gradient by rows", "gradient by columns"])
def test_dense_steps_are_those_of_torch(kind, ours_options, theirs, turned, turned_gradient):
    ours, reference = pair(turned=turned)
    optimiser, wanted = Optimiser({"w": ours}, kind, **ours_options), theirs([reference])
    for _ in range(7):
        gradient = torch.randn(ours.shape)
        ours.grad, reference.grad = gradient.t().contiguous().t() if turned_gradient else gradient, gradient.clone()
        optimiser.step(0.05)
        wanted.step()
        torch.testing.assert_close(ours, reference, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "theirs"),
    [
        ("adamw", lambda p: torch.optim.SparseAdam(p, lr=0.05)),
        ("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=0.3)),
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.05)),
    ],
)
@pytest.mark.parametrize("shape", [(6, 4), (6,)])
def test_sparse_steps_move_the_touched_rows_as_torch_does(kind, theirs, shape):
    ours, reference = pair(shape)
    first = ours.detach().clone()
    optimiser, wanted = Optimiser({"w": ours}, kind, accumulator=0.3), theirs([reference])
    for rows in ([0, 2], [2, 2, 4], [0], [4, 2, 0]):  # a row may come twice: its values are summed
        values = torch.randn(len(rows), *shape[1:])
        for parameter in (ours, reference):
            parameter.grad = torch.sparse_coo_tensor(torch.tensor([rows]), values.clone(), shape, check_invariants=True)
        optimiser.step(0.05)
        wanted.step()
        torch.testing.assert_close(ours, reference, rtol=1e-5, atol=1e-6)
    for untouched in (1, 3, 5):
        assert torch.equal(ours[untouched], first[untouched])


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_groups_give_the_steps_of_torch_s_groups(kind):
    def parameters():
        torch.manual_seed(3)
        shapes = {"encoder.weight": (4, 3), "encoder.bias": (3,), "head.weight": (2, 3), "head.scale.weight": (3, 2)}
        return {name: nn.Parameter(torch.randn(shape)) for name, shape in shapes.items()}

    ours, theirs = parameters(), parameters()
    optimiser = Optimiser(ours, kind, weight_decay=0.1)
    slow, decaying = ParameterGroup(lr_factor=0.1), ParameterGroup(weight_decay=0.5)
    optimiser.arrange({"encoder.": slow, "head.scale": decaying, "head": ParameterGroup()})
    rates = {"encoder.weight": (0.005, 0.1), "encoder.bias": (0.005, 0.0), "head.weight": (0.05, 0.1),
             "head.scale.weight": (0.05, 0.5)}  # fmt: skip
    wanted = (torch.optim.AdamW if kind == "adamw" else torch.optim.SGD)(
        [{"params": [p], "lr": rates[name][0], "weight_decay": rates[name][1]} for name, p in theirs.items()]
    )
    for _ in range(4):
        for name, parameter in ours.items():
            parameter.grad = torch.randn(parameter.shape)
            theirs[name].grad = parameter.grad.clone()
        optimiser.step(0.05)
        wanted.step()
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter, theirs[name], rtol=1e-5, atol=1e-6)


def test_a_parameter_that_is_a_slice_of_a_larger_array_is_moved_alone():
    whole = torch.ones(3, 5)
    ours = nn.Parameter(whole[:, 1:3])
    optimiser = Optimiser({"w": ours}, "sgd")
    ours.grad = torch.ones(3, 2)
    optimiser.step(0.25)
    assert torch.equal(ours, torch.full((3, 2), 0.75))
    assert torch.equal(whole, torch.ones(3, 5))


def test_clipping_scales_dense_and_sparse_gradients_to_one_joint_norm():
    dense, sparse = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(5, 2))
    dense.grad = torch.tensor([3.0, 0.0, 0.0])
    # Row 1 comes twice and sums to (0, 4): the joint norm is 5.
    sparse.grad = torch.sparse_coo_tensor(
        torch.tensor([[1, 1]]), torch.tensor([[0.0, 1.0], [0.0, 3.0]]), (5, 2), check_invariants=True
    )
    assert clip_gradients([dense, sparse], 10.0) == pytest.approx(5.0)
    assert dense.grad[0] == 3.0
    assert clip_gradients([dense, sparse], 1.0) == pytest.approx(5.0)
    torch.testing.assert_close(dense.grad, torch.tensor([0.6, 0.0, 0.0]))
    torch.testing.assert_close(sparse.grad.to_dense()[1], torch.tensor([0.0, 0.8]))
