"""The loop: steps, reports, checkpoints, early stop; alone, by torchrun, or by processes that share the weights.

A checkpoint holds the weights, the optimiser's moments, what the task carries, the position, the best weights so far
and the curve. Random draws follow from the seed and the position, so one thread resumed ends in the bits of an
unbroken run.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import Tensor

from polyseme.errors import TrainingError
from polyseme.machine import cores, keep_freed_memory
from polyseme.training.checkpoint import Snapshot
from polyseme.training.interrupt import asked_to_stop
from polyseme.training.optimisers import Optimiser
from polyseme.training.options import TrainingOptions
from polyseme.training.processes import Group, joined_processes
from polyseme.training.run import Run
from polyseme.training.step import Position, progress_of, take_step
from polyseme.training.task import Loss, Score, Task

log = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 120.0
PROGRESS_SECONDS = 0.5


def fit(task: Task, options: TrainingOptions, run: Run) -> None:
    """Train ``task.module``; in the end it holds the weights with the best held-out score."""
    from polyseme.training.shared import can_share, train_shared

    threads = options.threads or cores()
    before = torch.get_num_threads()
    if options.epochs:  # a warm-up that is longer than a tenth of the training would be most of it
        options = replace(options, warmup=min(options.warmup, options.epochs * task.n_steps(0) // 10))
    keep_freed_memory()
    with joined_processes() as group:
        share = threads > 1 and task.shareable and group.part.of == 1 and can_share()
        torch.set_num_threads(1 if share or group.part.of > 1 else threads)
        try:
            loop = Loop(task, options, run, group)
            if share:
                train_shared(loop, threads)
            else:
                loop.run()
            loop.finish()
        finally:
            torch.set_num_threads(before)


class Loop:
    """The state of a training and what happens between its steps."""

    def __init__(self, task: Task, options: TrainingOptions, run: Run, group: Group | None = None) -> None:
        self.task, self.options, self.of_run, self.group = task, options, run, group or Group()
        self.optimiser = Optimiser(
            {name: p for name, p in task.module.named_parameters() if p.requires_grad},
            options.optimizer,
            weight_decay=options.weight_decay,
            accumulator=options.accumulator,
        )
        self.position = Position()
        self.seconds = 0.0  # of training, all runs together
        self.best: dict[str, Tensor] = {}
        self.best_score: float | None = None
        self.waited = 0  # reports since the best one
        self.latest: dict[str, float] = {}
        self._since_report, self._reported, self._report_seconds = Loss(0.0, 0), 0.0, 0.0
        self._restore()
        self._shown = self._saved = self.seconds
        self._start = time.monotonic() - self.seconds

    def run(self) -> None:
        """Take every step in this process."""
        with asked_to_stop() as asked:
            while not self.finished():
                loss = take_step(self.task, self.optimiser, self.options, self.position, self.progress(), self.group)
                self.position.advance(self.task.n_steps(self.position.epoch))
                seconds, stop = self.group.leader_says(self.clock(), float(asked()))
                self.after_step(loss, seconds)
                if stop:
                    self.save()
                    raise KeyboardInterrupt

    def clock(self) -> float:
        """Seconds of training so far, those before an interruption counted."""
        return time.monotonic() - self._start

    def progress(self) -> float:
        """The share of the training that is done."""
        return progress_of(self.position, self.task.n_steps(self.position.epoch), self.seconds, self.options)

    def finished(self) -> bool:
        """Whether no step is left to take."""
        return self.progress() >= 1 or bool(self.options.patience and self.waited >= self.options.patience)

    def after_step(self, loss: Loss, seconds: float) -> None:
        """Count the loss; report and save where it is time to."""
        self.seconds = seconds
        self._since_report = Loss(self._since_report.total + loss.total, self._since_report.n + loss.n)
        if self.report_due():
            self.report()
        elif self.seconds - self._saved > CHECKPOINT_SECONDS:
            self.save()
        if self.seconds - self._shown > PROGRESS_SECONDS or self.finished():
            self.show()

    def report_due(self) -> bool:
        """Whether this is a place to report at. Places follow from the position alone, since the best weights do."""
        last, now = (int(epochs * self.task.reports + 1e-6) for epochs in (self._reported, self._epochs()))
        return now > last or (self._epochs() > self._reported and self.progress() >= 1)

    def report(self) -> None:
        """Score the held-out text, keep the weights where they are the best so far, write the curve, save."""
        loss, spent = self._since_report, self.seconds - self._report_seconds
        scored = copy.deepcopy(self.task.module)  # other processes may go on with the weights meanwhile
        score = self.task.evaluate(scored)
        if score is not None:
            if not all(math.isfinite(value) for value in (score.value, *score.facts.values())):
                raise TrainingError(
                    f"the held-out score is beyond all numbers at step {self.position.step}: try a lower lr than "
                    f"{self.options.lr:g}, or clip_norm"
                )
            self._compare(score, scored)
        speed = loss.n / spent if spent else 0.0
        self.latest = {"loss": loss.total / max(loss.n, 1), **(score.facts if score else {})}
        self.of_run.curve.append({
            "step": self.position.step, "epoch": round(self._epochs(), 3), "seconds": round(self.seconds, 1),
            "tokens_per_second": round(speed), **{name: round(value, 4) for name, value in self.latest.items()},
        })  # fmt: skip
        self.latest["tokens_per_second"] = speed
        self._since_report, self._reported, self._report_seconds = Loss(0.0, 0), self._epochs(), self.seconds
        self.save()
        self.show()

    def show(self) -> None:
        """Tell how far the training is."""
        self._shown = self.seconds
        facts = dict(self.latest)
        if self._since_report.n:
            facts["loss"] = self._since_report.total / self._since_report.n
            facts["tokens_per_second"] = self._since_report.n / max(self.seconds - self._report_seconds, 1e-9)
        if self.group.part.rank == 0:
            self.of_run.progress("training", self.progress(), 1.0, epoch=round(self._epochs(), 2), **facts)

    def save(self) -> None:
        """Keep a checkpoint."""
        self._saved = self.seconds
        carried = {name: self.group.whole(rows) for name, rows in self.task.carried().items()}  # all processes at once
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
            "best_score": self.best_score, "loss": list(self._since_report), "latest": self.latest,
            "reported": self._reported, "report_seconds": self._report_seconds,
        }  # fmt: skip
        self.of_run.save(Snapshot({name: value.detach().numpy() for name, value in tensors.items()}, state))

    def finish(self) -> None:
        """Leave the best weights in the module."""
        if self.best:
            self.task.module.load_state_dict(self.best)

    def _epochs(self) -> float:
        return self.position.epoch + self.position.index / max(self.task.n_steps(self.position.epoch), 1)

    def _compare(self, score: Score, scored: torch.nn.Module) -> None:
        if self.best_score is None or score.value < self.best_score:
            self.best_score, self.waited = score.value, 0
            self.best = {name: value.detach() for name, value in scored.state_dict().items()}
        else:
            self.waited += 1

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
            for name, moment in self.optimiser.moments.items():
                moment.copy_(groups["moments"][name])
            self.position = Position(**state["position"])
            self.seconds, self.waited, self.best_score = state["seconds"], state["waited"], state["best_score"]
            self._since_report, self.latest = Loss(*state["loss"]), state["latest"]
            self._reported, self._report_seconds = state["reported"], state["report_seconds"]
        except (KeyError, TypeError, RuntimeError) as error:
            raise TrainingError(f"the checkpoint does not fit this model ({error}): delete it to start anew") from None
        self.best = groups["best"]
        self.task.carry({name: self.group.part.rows(whole) for name, whole in groups["carried"].items()})
        log.info("going on at step %d", self.position.step)
