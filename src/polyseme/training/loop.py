"""The training loop: steps, reports, checkpoints and early stopping.

It runs in one process, in the processes of torchrun, or in processes that share the weights.

A checkpoint holds the weights, the optimiser's moments, the state that the task carries between steps, the position,
the best weights so far and the training curve. Random numbers depend only on the seed and the position, so a resumed
run on one thread gives bit for bit the weights of an uninterrupted one.

Reports (held-out evaluations) come at fixed points of an epoch (``Task.reports``). With a time limit, they also come
after a sixth of the time without one, and slow ones less often: they take at most ``SHARE`` of the time, and the last
one is finished within the limit too. Checkpoints also take at most ``SHARE``.

One training step, the position of the next one, and the progress at a position.

Ctrl-C during training: the first stops after the current step, the second at once.
"""

from __future__ import annotations

import copy
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import FrameType

import numpy as np
import torch
from torch import Tensor, nn

from polyseme.errors import TrainingError
from polyseme.machine import cores, keep_freed_memory
from polyseme.training.checkpoint import Snapshot
from polyseme.training.optimisers import Optimiser, clip_gradients
from polyseme.training.options import TrainingOptions, TrainingState, rate_factor
from polyseme.training.run import Run
from polyseme.training.task import Loss, Score, Task
from polyseme.training.torchrun import Group, chosen_device, joined_processes, seed_draws


@dataclass
class Position:
    """The next batch (epoch and index), and the number of steps before it."""

    epoch: int = 0
    index: int = 0
    step: int = 0

    def advance(self, n_batches: int, accumulate: int = 1) -> None:
        """Advance by a step of ``accumulate`` batches in an epoch of ``n_batches``; the last step may have fewer."""
        self.step += 1
        self.index += accumulate
        if self.index >= n_batches:
            self.epoch, self.index = self.epoch + 1, 0


def progress_of(position: Position, n_batches: int, time_share: float, options: TrainingOptions) -> float:
    """The share of the training that is done, by epochs or by time, whichever is greater."""
    if not options.epochs and not options.minutes:
        return 1.0
    by_epochs = (position.epoch + position.index / max(n_batches, 1)) / options.epochs if options.epochs else 0.0
    return min(1.0, max(by_epochs, time_share))


class Stepper:
    """Takes training steps: gradients of one or more batches are summed over the processes, clipped and applied."""

    def __init__(self, task: Task, optimiser: Optimiser, options: TrainingOptions, group: Group) -> None:
        self.task, self.optimiser, self.options, self.group = task, optimiser, options, group
        self._epoch = -1  # the epoch whose parameter groups the optimiser uses

    def step(self, position: Position, progress: float, setbacks: int) -> Loss:
        """Update the weights with the batches at ``position``, and return the sum of their losses."""
        options, optimiser = self.options, self.optimiser
        if position.epoch != self._epoch:
            optimiser.arrange(self.task.groups(position.epoch))
            self._epoch = position.epoch
        if options.accumulate == self.group.part.of == 1:
            loss = self._batch(position.epoch, position.index)
        else:
            loss = self._joined(position)
        norm = clip_gradients(optimiser.parameters.values(), options.clip_norm) if options.clip_norm else 0.0
        if not (math.isfinite(loss.total) and math.isfinite(norm)):
            raise TrainingError(
                "the loss or its gradient is no longer a finite number at step "
                f"{position.step + 1} of epoch {position.epoch + 1}: try a lower lr than "
                f"{options.lr:g}, or clip_norm"
            )
        now = TrainingState(position.step, progress, position.epoch, setbacks, options.warmup, options.decay)
        optimiser.step(options.lr * rate_factor(options.schedule, now))
        return loss

    def _batch(self, epoch: int, index: int) -> Loss:
        """Compute the gradient of the mean loss over this process's part of a batch, into ``.grad``."""
        for parameter in self.optimiser.parameters.values():
            parameter.grad = None
        # torch's random numbers (dropout) depend on the position too, and differ between the parts of a batch.
        place = (self.options.seed, epoch, index, self.group.part.rank)
        seed_draws(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1), self.task.device)
        return self.task.gradients(epoch, index, self.group.part)

    def _joined(self, position: Position) -> Loss:
        """Compute the gradient of the mean loss over several batches and processes, weighted by their predictions."""
        parameters, sums, total = self.optimiser.parameters, dict[str, Tensor](), Loss(0.0, 0)
        end = min(position.index + self.options.accumulate, self.task.n_steps(position.epoch))
        for index in range(position.index, end):
            loss = self._batch(position.epoch, index)
            _add_gradients(parameters, sums, loss.n)
            total = total.plus(loss)
        for name, parameter in parameters.items():
            parameter.grad = sums.get(name)
        total = self.group.join(parameters, total)
        for parameter in parameters.values():
            if parameter.grad is not None:
                parameter.grad.div_(max(total.n, 1))
        return total


def _add_gradients(parameters: Mapping[str, Tensor], sums: dict[str, Tensor], n: int) -> None:
    """Add the gradients times ``n`` to the sums."""
    for name, parameter in parameters.items():
        if parameter.grad is not None and n:
            gradient = parameter.grad.mul_(n)
            sums[name] = sums[name] + gradient if name in sums else gradient


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Gives a function that returns whether Ctrl-C was pressed, so that the loop can stop between two steps."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pressed = False
    before = signal.getsignal(signal.SIGINT)

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


log = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 120.0
PROGRESS_SECONDS = 0.5
FIRST_REPORT = 0.1  # share of the time limit by which the first report is made, to learn what a report costs
LONGEST_SILENCE = 1 / 6  # share of the time limit without a report: before the first epoch ends there may be no other
SHARE = 0.05  # largest share of the training time for reports, and the same for checkpoints


def fit(task: Task, options: TrainingOptions, run: Run) -> None:
    """Train ``task.module`` and leave it on the CPU with the weights that had the best held-out score."""
    from polyseme.training.hogwild import can_share, train_shared

    device, threads, before = chosen_device(options.device), options.threads or cores(), torch.get_num_threads()
    if options.epochs:  # in a short training the warm-up is at most a tenth of the steps
        n_steps = options.epochs * task.n_steps(0) // options.accumulate
        options = replace(options, warmup=min(options.warmup, n_steps // 10))
    keep_freed_memory()
    task.module.to(device)
    with joined_processes(device) as group, torch.random.fork_rng([device] if device.type == "cuda" else []):
        alone = group.part.of == 1 and device.type == "cpu"
        share = threads > 1 and task.shareable and alone and can_share()
        torch.set_num_threads(threads if group.part.of == 1 and not share else 1)
        try:
            loop = Loop(task, options, run, group)
            if share:
                train_shared(loop, threads)
            else:
                loop.run()
            loop.finish()
        finally:
            torch.set_num_threads(before)
            task.module.cpu().eval()


class Loop:
    """The state of a training run, and what happens between its steps: reports, checkpoints, early stopping."""

    def __init__(self, task: Task, options: TrainingOptions, run: Run, group: Group | None = None) -> None:
        self.task, self.options, self.of_run, self.group = task, options, run, group or Group()
        self.optimiser = Optimiser(
            {name: p for name, p in task.module.named_parameters() if p.requires_grad},
            options.optimizer,
            weight_decay=options.weight_decay,
            accumulator=options.accumulator,
            momentum=options.momentum,
            betas=task.betas,
        )
        self.stepper = Stepper(task, self.optimiser, options, self.group)
        self.workers_go_on = False  # whether worker processes change the weights while a report is made
        self.position = Position()
        self.seconds = 0.0  # of training so far, resumed runs included
        self.best: dict[str, Tensor] = {}
        self.best_score: float | None = None
        self.waited = 0  # reports since the best one
        self.setbacks = 0  # reports that were not the best so far
        self.latest: dict[str, float] = {}
        self._since_report, self._reported = Loss(0.0, 0), 0.0
        self._report_seconds, self._report_cost = 0.0, 0.0  # when training went on after it, and how long it took
        self._save_cost = 0.0
        self._share_shown = 0.0  # greatest progress shown so far: with a time limit, a slow report can set it back
        self._restore()
        self._shown = self._saved = self.seconds
        self._start = run.began - self.seconds
        task.module.train()

    def run(self) -> None:
        """Take all steps in this process."""
        with asked_to_stop() as asked:
            while not self.finished():
                loss = self.stepper.step(self.position, self.progress(), self.setbacks)
                self.position.advance(self.task.n_steps(self.position.epoch), self.options.accumulate)
                seconds, stop = self.group.leader_says(self.clock(), float(asked()))
                self.after_step(loss, seconds)
                if stop:
                    self.save()
                    raise KeyboardInterrupt

    def clock(self) -> float:
        """Seconds of training so far, including those before an interruption."""
        return time.monotonic() - self._start

    def time_share(self) -> float:
        """The share of the time limit that is used up, with time reserved for a last report; 0 without a limit."""
        limit = 60 * self.options.minutes
        return self.seconds / max(limit - self._report_cost, 0.5 * limit) if limit else 0.0

    def progress(self) -> float:
        """The share of the training that is done, from 0 to 1."""
        return progress_of(self.position, self.task.n_steps(self.position.epoch), self.time_share(), self.options)

    def finished(self) -> bool:
        """Whether training is over: all steps taken, time used up, or no better score for ``patience`` reports."""
        return self.progress() >= 1 or bool(self.options.patience and self.waited >= self.options.patience)

    def after_step(self, loss: Loss, seconds: float) -> None:
        """Add up the loss; report, save a checkpoint and show progress when they are due."""
        self.seconds = seconds
        self._since_report = self._since_report.plus(loss)
        if self.report_due():
            self.report()
        if self.seconds - self._saved > max(CHECKPOINT_SECONDS, self._save_cost / SHARE):
            self.save()
        if self.seconds - self._shown > PROGRESS_SECONDS or self.finished():
            self.show()

    def report_due(self) -> bool:
        """Whether a report is due. Without a time limit this depends on the position only: runs are reproducible."""
        now = self._epochs()
        if now <= self._reported or not self._since_report.n:
            return False
        if self.progress() >= 1:
            return not self.workers_go_on
        passed = int(now * self.task.reports + 1e-6) > int(self._reported * self.task.reports + 1e-6)
        if not self.options.minutes:
            return passed
        if not self._report_cost:
            return passed or self.time_share() >= FIRST_REPORT
        silent = self.seconds - self._report_seconds >= 60 * self.options.minutes * LONGEST_SILENCE
        return (passed or silent) and not self._too_soon()

    def _too_soon(self) -> bool:
        """Whether a report now would be too close to the previous one, or to the final one, for what it costs."""
        period = self._report_cost / SHARE
        left = 60 * self.options.minutes - self._report_cost - self.seconds
        return self.seconds - self._report_seconds < period or left < period / 2

    def report(self) -> None:
        """Evaluate on the held-out data, keep the weights if they are the best so far, and extend the curve."""
        began, loss = self.clock(), self._since_report
        speed = loss.n / (self.seconds - self._report_seconds) if self.seconds > self._report_seconds else 0.0
        score = self._scored()
        self.latest = {"loss": loss.total / max(loss.n, 1), **(score.facts if score else {})}
        self.of_run.curve.append({
            "step": self.position.step, "epoch": round(self._epochs(), 3), "seconds": round(self.seconds, 1),
            f"{self.task.unit}_per_second": round(speed),
            **{name: round(value, 4) for name, value in self.latest.items()},
        })  # fmt: skip
        self.latest[f"{self.task.unit}_per_second"] = speed
        self._since_report, self._reported, self._report_seconds = Loss(0.0, 0), self._epochs(), self.seconds
        self.show()
        self._report_cost, self.seconds = self.group.leader_says(self.clock() - began, self.clock())
        if not self.workers_go_on:  # nothing was learned meanwhile: that time would lower the speed
            self._report_seconds = self.seconds

    def show(self) -> None:
        """Show the progress, the loss and the speed."""
        self._shown = self.seconds
        facts = dict(self.latest)
        if self._since_report.n:
            facts["loss"] = self._since_report.total / self._since_report.n
            speed = self._since_report.n / max(self.seconds - self._report_seconds, 1e-9)
            facts[f"{self.task.unit}_per_second"] = speed
        self._share_shown = max(self._share_shown, self.progress())
        if self.group.part.rank == 0:
            self.of_run.progress("training", self._share_shown, 1.0, epoch=round(self._epochs(), 2), **facts)

    def save(self) -> None:
        """Save a checkpoint."""
        self._saved, began = self.seconds, self.clock()
        carried = {name: self.group.whole(rows) for name, rows in self.task.carried().items()}  # in all processes
        if self.of_run.checkpoint is None or self.group.part.rank:
            return
        tensors: dict[str, Tensor] = {
            **{f"weights/{name}": value for name, value in self.task.module.state_dict().items()},
            **{f"moments/{name}": value for name, value in self.optimiser.moments.items()},
            **{f"best/{name}": value for name, value in self.best.items()},
            **{f"carried/{name}": value for name, value in carried.items()},
        }
        state = {
            "position": asdict(self.position), "seconds": self.seconds, "waited": self.waited,
            "setbacks": self.setbacks, "best_score": self.best_score, "loss": list(self._since_report),
            "latest": self.latest, "reported": self._reported, "report_seconds": self._report_seconds,
            "report_cost": self._report_cost,
        }  # fmt: skip
        self.of_run.save(Snapshot({name: value.detach().cpu().numpy() for name, value in tensors.items()}, state))
        self._save_cost = self.clock() - began

    def finish(self) -> None:
        """Load the best weights into the module."""
        if self.best:
            self.task.module.load_state_dict(self.best)

    def _epochs(self) -> float:
        return self.position.epoch + self.position.index / max(self.task.n_steps(self.position.epoch), 1)

    def _scored(self) -> Score | None:
        """The held-out score of the current weights, which are kept if it is the best so far."""
        module = copy.deepcopy(self.task.module) if self.workers_go_on else self.task.module
        module.eval()
        score = self.task.evaluate(module)
        if score is not None:
            if not all(math.isfinite(value) for value in (score.value, *score.facts.values())):
                raise TrainingError(
                    f"the held-out score is not a finite number at step {self.position.step}: try "
                    f"a lower lr than {self.options.lr:g}, or clip_norm"
                )
            self._compare(score, module)
        module.train()
        return score

    def _compare(self, score: Score, scored: nn.Module) -> None:
        if score.better_than(self.best_score):
            self.best_score, self.waited = score.value, 0
            self.best = {name: value.detach().to("cpu", copy=True) for name, value in scored.state_dict().items()}
        else:
            self.waited += 1
            self.setbacks += 1

    def _restore(self) -> None:
        snapshot = self.of_run.resumed()
        if snapshot is None:
            return
        groups: dict[str, dict[str, Tensor]] = {"weights": {}, "moments": {}, "best": {}, "carried": {}}
        for name, array in snapshot.tensors.items():
            kind, _, rest = name.partition("/")
            groups[kind][rest] = torch.from_numpy(np.array(array))
        state = snapshot.state
        try:
            self.task.module.load_state_dict(groups["weights"])
            self.optimiser.restore(groups["moments"])
            self.position = Position(**state["position"])
            self.seconds, self.waited, self.best_score = state["seconds"], state["waited"], state["best_score"]
            self.setbacks, self._report_cost = state.get("setbacks", 0), state.get("report_cost", 0.0)
            self._since_report, self.latest = Loss(*state["loss"]), state["latest"]
            self._reported, self._report_seconds = state["reported"], state["report_seconds"]
        except (KeyError, TypeError, RuntimeError) as error:
            raise TrainingError(
                f"the checkpoint does not match this model ({error}): delete it to start again"
            ) from None
        self.best = groups["best"]
        carried = {name: self.group.part.rows(whole).to(self.task.device) for name, whole in groups["carried"].items()}
        self.task.carry(carried)
        log.info("resuming at step %d", self.position.step)
