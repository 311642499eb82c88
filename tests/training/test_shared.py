"""Processes that share the weights: they learn, and their deaths and Ctrl-C are told plainly."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from toy_task import ToyTask

from polyseme.errors import TrainingError
from polyseme.training.checkpoint import Checkpoint
from polyseme.training.loop import fit
from polyseme.training.options import TrainingOptions
from polyseme.training.run import Run

TWO = TrainingOptions(epochs=12, lr=0.05, threads=2, warmup=3, patience=0)


def run_at(path, *, resume=False):
    return Run(checkpoint=Checkpoint(path, {"method": "toy"}), resume=resume)


def test_two_workers_learn_what_one_does(tmp_path):
    alone, together = ToyTask(), ToyTask(after_step=lambda step: time.sleep(0.001))
    fit(alone, TrainingOptions(epochs=12, lr=0.05, threads=1, warmup=3, patience=0), Run())
    run = run_at(tmp_path / "toy.checkpoint")
    fit(together, TWO, run)
    assert run.curve[-1]["step"] == 96
    score = together.evaluate(together.module).value
    assert score == pytest.approx(alone.evaluate(alone.module).value, abs=0.1)
    assert score < ToyTask().evaluate(ToyTask().module).value - 0.2


def test_a_worker_that_is_killed_is_a_clear_error_and_the_checkpoint_goes_on(tmp_path):
    file = tmp_path / "toy.checkpoint"
    task = ToyTask(after_step=lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == 40 else time.sleep(0.005))
    with pytest.raises(TrainingError, match=r"killed by signal 9.*resume"):
        fit(task, TWO, run_at(file))
    run = run_at(file, resume=True)
    fit(ToyTask(), TWO, run)
    assert run.curve[-1]["step"] == 96


def test_a_worker_s_own_error_is_the_one_that_is_shown():
    with pytest.raises(TrainingError, match="not a number"):
        fit(ToyTask(poison=20, after_step=lambda step: time.sleep(0.001)), TWO, Run())


def test_ctrl_c_stops_the_workers_and_leaves_a_checkpoint(tmp_path):
    file = tmp_path / "toy.checkpoint"
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fit(ToyTask(after_step=lambda step: time.sleep(0.02)), TWO, run_at(file))
    timer.join()
    assert file.exists()
    assert torch.get_num_threads() >= 1
