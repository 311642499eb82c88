"""The loop: the same bits after a kill, the same result by two processes, clear words when it cannot go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from tests.processes import run_program

sys.path.insert(0, str(Path(__file__).parent))

from toy_task import ToyTask

from polyseme.errors import TrainingError
from polyseme.training import loop
from polyseme.training.checkpoint import Checkpoint
from polyseme.training.loop import Position, fit
from polyseme.training.options import TrainingOptions
from polyseme.training.run import Run
from polyseme.training.task import Loss
from polyseme.training.torchrun import Replicas

HERE = Path(__file__).parent
ONE = TrainingOptions(epochs=5, lr=0.05, threads=1, warmup=3, patience=0)


def weights(task):
    return {name: value.clone() for name, value in task.module.state_dict().items()}


def run_at(path, *, resume=False):
    return Run(checkpoint=Checkpoint(path, {"method": "toy"}), resume=resume)


def environment(**more):
    source = str(HERE.parent.parent / "src")
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{HERE}", "OMP_NUM_THREADS": "1", **more}


def test_it_learns_and_writes_the_curve():
    task, run = ToyTask(), Run()
    fit(task, ONE, run)
    assert [record["step"] for record in run.curve] == [8, 16, 24, 32, 40]
    assert run.curve[-1]["held_out_loss"] < run.curve[0]["held_out_loss"] < 1.2
    assert all(record["tokens_per_second"] > 0 for record in run.curve)


def test_the_same_seed_gives_the_same_bits():
    a, b = ToyTask(), ToyTask()
    fit(a, ONE, Run())
    fit(b, ONE, Run())
    for name, value in weights(a).items():
        assert torch.equal(value, weights(b)[name])


KILLED = """
import os, signal, sys
from toy_task import ToyTask
from polyseme.training.checkpoint import Checkpoint
from polyseme.training.run import Run
from polyseme.training import loop
from polyseme.training.options import TrainingOptions

loop.CHECKPOINT_SECONDS = -1  # after every step
kill_at = int(sys.argv[2])
task = ToyTask(after_step=lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == kill_at else None)
options = TrainingOptions(epochs=5, lr=0.05, threads=1, warmup=3, patience=0)
loop.fit(task, options, Run(checkpoint=Checkpoint(__import__("pathlib").Path(sys.argv[1]), {"method": "toy"})))
"""


@pytest.mark.parametrize("kill_at", [5, 29])
def test_after_kill_9_resume_ends_in_the_bits_of_an_unbroken_run(tmp_path, kill_at):
    file = tmp_path / "toy.checkpoint"
    ended = run_program(KILLED, file, kill_at, environment=environment(), imports=["polyseme.training.loop"])
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    resumed, unbroken = ToyTask(), ToyTask()
    run, whole = run_at(file, resume=True), Run()
    fit(resumed, ONE, run)
    fit(unbroken, ONE, whole)
    for name, value in weights(unbroken).items():
        assert torch.equal(value, weights(resumed)[name]), name
    assert torch.equal(unbroken.carried_sum, resumed.carried_sum)
    assert [r["held_out_loss"] for r in run.curve] == [r["held_out_loss"] for r in whole.curve]


def test_ctrl_c_leaves_a_checkpoint_that_goes_on_to_the_same_bits(tmp_path):
    file = tmp_path / "toy.checkpoint"
    stopped = ToyTask(after_step=lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 11 else None)
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, ONE, run_at(file))
    assert file.exists()
    resumed, unbroken = ToyTask(), ToyTask()
    fit(resumed, ONE, run_at(file, resume=True))
    fit(unbroken, ONE, Run())
    for name, value in weights(unbroken).items():
        assert torch.equal(value, weights(resumed)[name])


def test_a_loss_that_is_not_a_number_says_where_and_what_to_try():
    with pytest.raises(TrainingError, match=r"step 11 of epoch 2.*lower lr than 0\.05"):
        fit(ToyTask(poison=10), ONE, Run())


def test_the_best_weights_are_kept_and_patience_stops():
    task, run = ToyTask(), Run()
    # With a rate this high the score gets worse sooner or later.
    options = TrainingOptions(epochs=60, lr=1.5, threads=1, schedule="constant", clip_norm=0, warmup=0, patience=3)
    fit(task, options, run)
    scores = [record["held_out_loss"] for record in run.curve]
    best = int(np.argmin(scores))
    assert len(scores) == best + 4 < 60
    assert task.evaluate(task.module).value == pytest.approx(scores[best], abs=1e-4)


class DrivenClock:
    """A clock that advances only when a task says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds


class TimedTask(ToyTask):
    """A task whose steps take half a second, and whose reports take ``cost`` seconds."""

    reports = 8  # one after every step, where time allows it

    def __init__(self, clock: DrivenClock, cost: float) -> None:
        super().__init__(after_step=lambda step: clock.pass_seconds(0.5))
        self.clock, self.cost = clock, cost

    def evaluate(self, module):
        self.clock.pass_seconds(self.cost)
        return super().evaluate(module)


@pytest.mark.parametrize(("cost", "n_reports"), [(0.01, 118), (0.3, 10), (2.0, 2)])
def test_a_limit_of_time_holds_for_the_last_report_too_and_reports_take_a_twentieth(monkeypatch, cost, n_reports):
    clock = DrivenClock()
    monkeypatch.setattr(loop, "time", clock)
    run = Run(began=0.0)
    fit(TimedTask(clock, cost), TrainingOptions(epochs=0, minutes=1.0, threads=1, patience=0), run)
    assert 59.4 < clock.now < 60.6
    assert len(run.curve) == pytest.approx(n_reports, rel=0.1)
    # The first report is made before its cost is known, the last one in any case.
    assert (len(run.curve) - 2) * cost <= 0.05 * clock.now


def test_the_time_of_a_report_does_not_lower_the_speed_after_it(monkeypatch):
    clock = DrivenClock()
    monkeypatch.setattr(loop, "time", clock)
    shown = []
    run = Run(began=0.0, progress=lambda what, done, total, **facts: shown.append(facts))
    fit(TimedTask(clock, 30.0), TrainingOptions(epochs=4, threads=1, patience=0), run)
    assert {record["tokens_per_second"] for record in run.curve} == {32}  # 16 in half a second
    assert {round(facts["tokens_per_second"]) for facts in shown} == {32}


def test_a_limit_of_time_has_its_first_report_early_enough_to_know_the_cost_of_the_last(monkeypatch):
    clock = DrivenClock()
    monkeypatch.setattr(loop, "time", clock)
    run, task = Run(began=0.0), TimedTask(clock, 3.0)
    task.reports = 0  # by position there would be none before the end
    fit(task, TrainingOptions(epochs=0, minutes=1.0, threads=1, patience=0), run)
    assert [record["seconds"] for record in run.curve] == pytest.approx([6, 57], abs=0.6)
    assert clock.now == pytest.approx(60, abs=0.6)


def test_a_limit_of_time_has_reports_all_along_also_before_the_end_of_the_first_epoch(monkeypatch):
    clock = DrivenClock()
    monkeypatch.setattr(loop, "time", clock)
    run, task = Run(began=0.0), TimedTask(clock, 0.1)
    task.reports = 0
    fit(task, TrainingOptions(epochs=0, minutes=1.0, threads=1, patience=0), run)
    assert [record["seconds"] for record in run.curve] == pytest.approx([6, 16, 26, 36, 47, 57, 60], abs=1)


def test_the_last_report_waits_for_the_workers_to_stop(monkeypatch):
    clock = DrivenClock()
    monkeypatch.setattr(loop, "time", clock)
    state = loop.Loop(TimedTask(clock, 1.0), TrainingOptions(epochs=0, minutes=1.0), Run(began=0.0))
    state.workers_go_on = True
    state.position = Position(0, 3, 3)
    clock.pass_seconds(61)
    state.after_step(Loss(1.0, 1), state.clock())
    assert state.finished()
    assert state.of_run.curve == []
    state.workers_go_on = False
    state.after_step(Loss(0.0, 0), state.clock())
    assert [record["step"] for record in state.of_run.curve] == [3]


def test_what_came_before_the_first_step_counts_as_time_too(monkeypatch):
    clock = DrivenClock()
    monkeypatch.setattr(loop, "time", clock)
    clock.pass_seconds(45)
    fit(TimedTask(clock, 0.0), TrainingOptions(epochs=0, minutes=1.0, threads=1, patience=0), Run(began=0.0))
    assert clock.now == pytest.approx(60, abs=0.6)


TORCHRUN = """
import sys
import torch
import torch.distributed as dist
from toy_task import ToyTask
from polyseme.training.run import Run
from polyseme.training.loop import fit
from polyseme.training.options import TrainingOptions

dist.init_process_group("gloo")
for batch in (16, 1):  # of one row the second process has no share
    task = ToyTask(batch=batch)
    fit(task, TrainingOptions(epochs=5, lr=0.05, threads=1, warmup=3, patience=0, optimizer=sys.argv[2]), Run())
    torch.save(task.module.state_dict(), f"{sys.argv[1]}/{batch}-{dist.get_rank()}.pt")
dist.destroy_process_group()
"""


def test_two_processes_by_torchrun_are_equal_and_do_what_one_does_with_the_joint_batch(tmp_path):
    optimizer = "adagrad"
    program = tmp_path / "program.py"
    program.write_text(TORCHRUN)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0"]
    command += ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(program), str(tmp_path), optimizer]
    ended = subprocess.run(command, env=environment(), capture_output=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    for batch in (16, 1):
        first, second = (torch.load(tmp_path / f"{batch}-{rank}.pt", weights_only=True) for rank in (0, 1))
        alone = ToyTask(batch=batch)
        fit(alone, TrainingOptions(epochs=5, lr=0.05, threads=1, warmup=3, patience=0, optimizer=optimizer), Run())
        for name, value in weights(alone).items():
            assert torch.equal(first[name], second[name])
            torch.testing.assert_close(first[name], value, rtol=1e-4, atol=1e-5)


def test_a_parameter_without_a_gradient_in_any_process_keeps_none():
    used, unused = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    used.grad = torch.ones(2)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        Replicas().join({"used": used, "unused": unused}, Loss(1.0, 1))
    finally:
        dist.destroy_process_group()
    assert unused.grad is None  # zeros would let weight decay and Adam's moments move it
    assert torch.equal(used.grad, torch.ones(2))
