"""Tasks by autograd: plain losses, accumulated gradients, parameters that freeze and thaw, scores and units."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from toy_task import ToyBatchTask, summed_loss

from polyseme.errors import OptionError
from polyseme.training import loop
from polyseme.training.checkpoint import Checkpoint
from polyseme.training.loop import fit
from polyseme.training.optimisers import ParameterGroup
from polyseme.training.options import TrainingOptions
from polyseme.training.run import Run
from polyseme.training.torchrun import chosen_device

SGD = TrainingOptions(
    epochs=3, optimizer="sgd", lr=0.5, schedule="constant", warmup=0, clip_norm=0, threads=1, patience=0
)


def test_it_takes_the_steps_of_a_plain_torch_program():
    task, plain = ToyBatchTask(), ToyBatchTask()
    plain_sgd = torch.optim.SGD(plain.module.parameters(), lr=0.5)
    scores = []
    for epoch in range(3):
        for index in range(8):
            plain_sgd.zero_grad()
            (summed_loss(plain.module, plain.rows(epoch, index)) / 16).backward()
            plain_sgd.step()
        weights = {name: value.clone() for name, value in plain.module.state_dict().items()}
        scores.append((plain.evaluate(plain.module).value, -epoch, weights))
    run = Run()
    fit(task, SGD, run)
    assert [record["accuracy"] for record in run.curve] == pytest.approx([score for score, _, _ in scores])
    best = max(scores, key=lambda found: found[:2])[2]  # the first of the highest: higher is better here
    for name, value in task.module.state_dict().items():
        torch.testing.assert_close(value, best[name])


def test_accumulated_batches_of_any_sizes_are_one_batch():
    apart, together = ToyBatchTask(sizes=(3, 9, 4, 1)), ToyBatchTask(n_batches=2)
    together.rows = lambda epoch, index: _joined(apart, epoch, index)
    runs = Run(), Run()
    fit(apart, replace(SGD, accumulate=4), runs[0])
    fit(together, SGD, runs[1])
    for name, value in together.module.state_dict().items():
        torch.testing.assert_close(apart.module.state_dict()[name], value)
    for one, other in zip(*(run.curve for run in runs), strict=True):
        assert one["step"] == other["step"]
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-3)


def _joined(task, epoch, index):
    return np.concatenate([task.rows(epoch, 4 * index + i) for i in range(4)])


def test_dropout_draws_the_same_after_a_resume(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1)  # after every step
    checkpoint = Checkpoint(tmp_path / "toy.checkpoint", {"method": "toy"})
    unbroken, first, resumed = (ToyBatchTask(dropout=0.5) for _ in range(3))
    fit(unbroken, replace(SGD, epochs=4), Run())
    fit(first, replace(SGD, epochs=2), Run(checkpoint=checkpoint))
    torch.rand(3)  # whatever else the program draws
    fit(resumed, replace(SGD, epochs=4), Run(checkpoint=checkpoint, resume=True))
    for name, value in unbroken.module.state_dict().items():
        assert torch.equal(resumed.module.state_dict()[name], value)


def test_the_program_s_own_random_numbers_are_left_alone():
    torch.manual_seed(1)
    wanted = torch.rand(3)
    task = ToyBatchTask(dropout=0.5)
    torch.manual_seed(1)
    fit(task, SGD, Run())
    assert torch.equal(torch.rand(3), wanted)


def test_frozen_parameters_stay_until_they_thaw():
    frozen = {"rows": ParameterGroup(frozen=True)}
    always = ToyBatchTask(groups=lambda epoch: frozen)
    thawed = ToyBatchTask(groups=lambda epoch: frozen if epoch < 2 else {})
    first = ToyBatchTask().module.state_dict()
    for task in (always, thawed):
        task.evaluate = lambda module: None  # so that the last weights are kept
    fit(always, SGD, Run())
    fit(thawed, SGD, Run())
    assert torch.equal(always.module.rows.weight, first["rows.weight"])
    assert not torch.equal(always.module.out.weight, first["out.weight"])
    assert not torch.equal(thawed.module.rows.weight, first["rows.weight"])


def test_the_plateau_schedule_halves_the_rate_after_every_setback():
    """Of one batch an epoch, with a gradient that stays the same: every move is as long as the rate."""
    scores = [0.2, 0.4, 0.3, 0.4, 0.5, 0.1]
    task = ToyBatchTask(n_batches=1)
    moves, before = [], task.module.out.bias.detach().clone()

    def evaluate(module):
        nonlocal before
        moves.append(float((module.out.bias.detach() - before)[0]))
        before = module.out.bias.detach().clone()
        return replace(ToyBatchTask.evaluate(task, module), value=scores[len(moves) - 1])

    task.evaluate = evaluate
    task.loss = lambda epoch, index, part: (task.module.out.bias[0] * 3, 3)
    fit(task, replace(SGD, epochs=6, schedule="plateau", decay=0.5), Run())
    assert moves == pytest.approx([-0.5, -0.5, -0.5, -0.25, -0.125, -0.125])


def test_the_curve_tells_the_speed_in_the_task_s_own_unit():
    run = Run()
    told = []
    run.progress = lambda what, done, total, **facts: told.append(facts)
    fit(ToyBatchTask(), SGD, run)
    assert all(record["rows_per_second"] > 0 for record in run.curve)
    assert "rows_per_second" in told[-1]
    assert "tokens_per_second" not in run.curve[0]


def test_the_share_of_the_training_that_is_told_never_falls(monkeypatch):
    """The time for the last report is left aside: where it turns out cheaper than the first, more time is left."""
    now, costs = [0.0], iter([20.0])
    monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
    task, run, told = ToyBatchTask(), Run(began=0.0), []
    gave, scored = task.loss, task.evaluate

    def after(seconds, found):
        now[0] += seconds
        return found

    task.loss = lambda *place: after(0.3, gave(*place))
    task.evaluate = lambda module: after(next(costs, 1.0), scored(module))
    run.progress = lambda what, done, total, **facts: told.append(done)
    fit(task, replace(SGD, epochs=0, minutes=1), run)
    assert len(run.curve) > 1
    assert told == sorted(told)
    assert told[-1] == 1


def test_a_device_that_is_not_there_is_an_error_in_one_line():
    assert chosen_device("cpu") == torch.device("cpu")
    for name, there in (("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())):
        if not there:
            with pytest.raises(OptionError, match=f"device is {name}.*use auto or cpu"):
                fit(ToyBatchTask(), replace(SGD, device=name), Run())
    best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    assert chosen_device("auto").type == best
