"""Processes that share one copy of the weights and step without waiting for each other (Hogwild, 无锁并行).

Niu et al., "HOGWILD!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent", NIPS 2011. On small models
two such processes are about a fifth faster than two threads inside each matrix product. The result depends on timing,
so a seed does not make it reproducible. The parent takes no steps: it reports, saves checkpoints, watches the workers.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch import Tensor

from polyseme.errors import TrainingError
from polyseme.training.loop import Loop, Position, asked_to_stop, progress_of
from polyseme.training.options import TrainingOptions
from polyseme.training.task import Loss

POLL_SECONDS = 0.02
LOCK_SECONDS = 10.0


def can_share() -> bool:
    """Whether the system can fork safely; forked workers inherit the task, so nothing is sent to them."""
    return os.name == "posix" and sys.platform != "darwin"


def train_shared(loop: Loop, n_workers: int) -> None:
    """Take the steps of the loop in ``n_workers`` processes."""
    for parameter in loop.task.module.parameters():
        parameter.data = _in_shared_memory(parameter.data)
    loop.optimiser.make_moments()
    moments = loop.optimiser.moments
    moments.update({name: _in_shared_memory(moment) for name, moment in moments.items()})
    context = multiprocessing.get_context("fork")
    board = _Board(context, loop.position)
    board.tell(loop.time_share(), loop.setbacks)  # those of a resumed run hold from the first step on
    workers = [context.Process(target=_work, args=(loop, board), daemon=True) for _ in range(n_workers)]
    with asked_to_stop() as asked:
        try:
            for worker in workers:
                worker.start()
            loop.workers_go_on = True
            _watch(loop, board, workers, asked)
        finally:
            board.tell_stop()
            _end(workers)
        if asked():
            loop.save()
            raise KeyboardInterrupt


def _watch(loop: Loop, board: _Board, workers: Sequence[BaseProcess], asked: Callable[[], bool]) -> None:
    counted = Loss(0.0, 0)
    while True:
        working = any(worker.is_alive() for worker in workers)
        _check(workers, board)
        position, total = board.read()
        if not working or position.step > loop.position.step:
            loop.position, loop.workers_go_on = position, working
            loop.after_step(Loss(total.total - counted.total, total.n - counted.n), loop.clock())
            counted = total
        board.tell(loop.time_share(), loop.setbacks)
        if not working:
            return
        if loop.finished() or asked():
            board.tell_stop()
        time.sleep(POLL_SECONDS)


def _work(loop: Loop, board: _Board) -> None:
    """The worker process: take the next position and step, until no step is left or the parent has exited."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    task, options, parent = loop.task, loop.options, os.getppid()
    try:
        while os.getppid() == parent:
            taken = board.take(task.n_steps, options)
            if taken is None:
                return
            board.add(loop.stepper.step(*taken))
    except Exception as error:
        board.errors.put(f"{error}" if isinstance(error, TrainingError) else f"{type(error).__name__}: {error}")
        sys.exit(1)


def _check(workers: Sequence[BaseProcess], board: _Board) -> None:
    for worker in workers:
        if worker.exitcode:
            if not board.errors.empty():
                raise TrainingError(board.errors.get())
            how = f"was killed by signal {-worker.exitcode}" if worker.exitcode < 0 else f"left with {worker.exitcode}"
            raise TrainingError(f"a training process {how}: --resume continues from the last checkpoint")


def _end(workers: Sequence[BaseProcess]) -> None:
    for worker in workers:
        if worker.pid is not None:
            worker.join(LOCK_SECONDS)
            if worker.is_alive():
                worker.kill()
                worker.join()


def _in_shared_memory(tensor: Tensor) -> Tensor:
    """A copy in memory that processes forked later share. The memory is anonymous, as /dev/shm is often too small."""
    if not tensor.numel():
        return tensor
    block = mmap.mmap(-1, tensor.numel() * tensor.element_size())
    flat = torch.frombuffer(block, dtype=tensor.dtype)
    return torch.as_strided(flat, tensor.shape, torch.empty_like(tensor).stride()).copy_(tensor)


class _Board:
    """State that the processes share: the next position, the losses so far, and the parent's instructions."""

    def __init__(self, context: BaseContext, position: Position) -> None:
        # epoch, index, step, sum of losses, number of predictions, share of the time used, setbacks, whether to stop
        start = [position.epoch, position.index, position.step, 0, 0, 0, 0, 0]
        self._numbers: Any = context.RawArray("d", [float(n) for n in start])
        self._lock = context.Lock()
        self.errors: Any = context.SimpleQueue()

    def take(self, n_batches: Callable[[int], int], options: TrainingOptions) -> tuple[Position, float, int] | None:
        """Take the next position: it, the progress there and the setbacks; None if no step is left."""
        numbers = self._numbers
        if not self._lock.acquire(timeout=LOCK_SECONDS):  # the worker that held it was killed
            return None
        try:
            position, following = self.read()[0], self.read()[0]
            n = n_batches(position.epoch)
            progress = progress_of(position, n, numbers[5], options)
            if numbers[7] or progress >= 1:
                return None
            following.advance(n, options.accumulate)
            # The parent reads the epoch before the index, without the lock. The index is written first, so the parent
            # never sees a new epoch with the last index of the old one, which would look like one epoch too many.
            numbers[1], numbers[0], numbers[2] = following.index, following.epoch, following.step
            return position, progress, int(numbers[6])
        finally:
            self._lock.release()

    def add(self, loss: Loss) -> None:
        """Add the loss of a step."""
        with self._lock:
            self._numbers[3] += loss.total
            self._numbers[4] += loss.n

    def read(self) -> tuple[Position, Loss]:
        """The next position and the losses so far. Reads without the lock, which a killed worker may still hold."""
        epoch, index, step, total, count = self._numbers[:5]
        return Position(int(epoch), int(index), int(step)), Loss(total, int(count))

    def tell(self, time_share: float, setbacks: int) -> None:
        """Set what the schedule needs besides the position."""
        self._numbers[5], self._numbers[6] = time_share, setbacks

    def tell_stop(self) -> None:
        """Tell the workers to take no further steps."""
        self._numbers[7] = 1.0
