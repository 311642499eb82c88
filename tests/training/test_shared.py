"""Processes that share the weights: they learn, and their deaths and Ctrl-C are told plainly."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from toy_task import ToyTask

from polyseme.errors import TrainingError
from polyseme.training import loop
from polyseme.training.checkpoint import Checkpoint, Snapshot
from polyseme.training.loop import fit
from polyseme.training.options import TrainingOptions
from polyseme.training.run import Run

TWO = TrainingOptions(epochs=12, lr=0.05, threads=2, warmup=3, patience=0)
ENDLESS = replace(TWO, epochs=1_000_000)


def run_at(path, *, resume=False):
    return Run(checkpoint=Checkpoint(path, {"method": "toy"}), resume=resume)


def test_two_workers_learn_what_one_does(tmp_path):
    fork = multiprocessing.get_context("fork")
    both, seen = fork.Barrier(2), set()

    def meet(step):
        if os.getpid() not in seen:  # neither goes on before the other has taken a step
            seen.add(os.getpid())
            both.wait(60)

    alone, together = ToyTask(), ToyTask(after_step=meet)
    fit(alone, replace(TWO, threads=1), Run())
    run = run_at(tmp_path / "toy.checkpoint")
    fit(together, TWO, run)
    assert run.curve[-1]["step"] == 96
    score = together.evaluate(together.module).value
    assert score == pytest.approx(alone.evaluate(alone.module).value, abs=0.1)
    assert score < ToyTask().evaluate(ToyTask().module).value - 0.2


def test_a_worker_that_is_killed_is_a_clear_error_and_the_checkpoint_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1)
    file = tmp_path / "toy.checkpoint"
    task = ToyTask(after_step=lambda step: os.kill(os.getpid(), signal.SIGKILL) if file.exists() else None)
    with pytest.raises(TrainingError, match=r"killed by signal 9.*resume"):
        fit(task, ENDLESS, run_at(file))
    position = Checkpoint(file, {"method": "toy"}).load().state["position"]
    run = run_at(file, resume=True)
    fit(ToyTask(), replace(TWO, epochs=position["epoch"] + 2), run)
    steps = [record["step"] for record in run.curve]
    assert 0 < position["step"] < steps[-1] == 8 * (position["epoch"] + 2)


def test_a_worker_s_own_error_is_the_one_that_is_shown():
    with pytest.raises(TrainingError, match="no longer a finite number"):
        fit(ToyTask(poison=20), TWO, Run())


def test_ctrl_c_stops_the_workers_and_leaves_a_checkpoint(tmp_path):
    file, pressed_at = tmp_path / "toy.checkpoint", 40
    task = ToyTask(after_step=lambda step: os.kill(os.getppid(), signal.SIGINT) if step == pressed_at else None)
    others = multiprocessing.active_children()  # those of joblib wait for more work, of tests before this one
    with pytest.raises(KeyboardInterrupt):
        fit(task, ENDLESS, run_at(file))
    assert set(multiprocessing.active_children()) <= set(others)
    position = Checkpoint(file, {"method": "toy"}).load().state["position"]
    assert pressed_at < position["step"] < 8 * ENDLESS.epochs


def test_a_task_that_does_not_ask_for_it_is_stepped_in_one_process():
    steps = []
    fit(ToyTask(after_step=steps.append, shareable=False), replace(TWO, epochs=2), Run())
    assert steps == list(range(16))  # taken where this list is


def test_resumed_workers_begin_with_the_learning_rate_that_was_reached(tmp_path):
    file = tmp_path / "toy.checkpoint"
    stopped = ToyTask(after_step=lambda step: os.kill(os.getppid(), signal.SIGINT) if step == 20 else None)
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, ENDLESS, run_at(file))
    kept = Checkpoint(file, {"method": "toy"})
    was = kept.load()
    weights = {name: array for name, array in was.tensors.items() if not name.startswith("best/")}
    kept.save(Snapshot(weights, {**was.state, "setbacks": 1, "best_score": None}))
    task, epochs = ToyTask(), was.state["position"]["epoch"] + 1
    fit(task, replace(TWO, schedule="plateau", decay=0.0, warmup=0, epochs=epochs), run_at(file, resume=True))
    for name, tensor in task.module.state_dict().items():  # after a setback the rate is 0: nothing moves any more
        np.testing.assert_array_equal(tensor.numpy(), weights[f"weights/{name}"])
