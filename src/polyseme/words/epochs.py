"""A training run over a corpus: chunks of text shared by threads, a linearly decaying learning rate, checkpoints.

A chunk's random numbers and learning rate depend only on the seed, the epoch and the chunk's position, so a run on one
thread gives the same result whether or not it was interrupted. Several threads write to the same rows without locks
(Hogwild, Recht et al. 2011), so the last bits of their result depend on their order.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import Ints
from polyseme.errors import TrainingError, as_given
from polyseme.interfaces import Progress
from polyseme.machine import cores
from polyseme.training.run import Run

log = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK = 20_000  # words: about ten milliseconds of work, so that Ctrl-C takes effect at once
STRETCH = 2_000  # chunks between two points at which a checkpoint may be saved
PREPARING = "preparing (compiles at first use)"
PATIENCE = 120.0  # seconds of work within an epoch that may be lost if the process is killed


@contextmanager
def preparing(progress: Progress) -> Iterator[None]:
    """Report to ``progress`` that code is being loaded, or compiled on its first use on a machine, which is slow."""
    progress(PREPARING, 0, None)
    try:
        yield
    except Exception as error:
        # If Ctrl-C comes while Numba is compiling, Numba raises an error of its own.
        reason: BaseException | None = error
        while reason and not isinstance(reason, (KeyboardInterrupt, SystemExit)):
            reason = reason.__context__
        if reason:
            raise reason from None
        raise
    progress(PREPARING, 1, 1)


def available_threads(wanted: int | None) -> int:
    """The number of threads requested; one per core if None."""
    return cores() if wanted is None else wanted


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of the array, so that in-memory and memory-mapped text use the same compiled code."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def chunk_bounds(offsets: Ints, size: int = CHUNK) -> Ints:
    """Positions that cut a text into chunks of about ``size`` words, between sentences unless one is very long."""
    n = int(offsets[-1])
    wanted = np.arange(0, n, size, dtype=np.int64)
    ends = np.asarray(offsets)[np.searchsorted(offsets, wanted)]
    return np.unique(np.append(np.where(ends - wanted > size, wanted, ends), n))


def in_threads(work: Callable[[int], T], numbers: range, threads: int) -> Iterator[tuple[int, T]]:
    """Run ``work(i)`` for every number on ``threads`` threads; yield (i, result) as each finishes.

    Numbers are started in order. Closing the iterator (as Ctrl-C does) lets each thread finish its current chunk only.
    """
    taken, lock, stop = iter(numbers), threading.Lock(), threading.Event()
    done: queue.SimpleQueue[tuple[int, T] | BaseException] = queue.SimpleQueue()

    def take() -> None:
        try:
            while not stop.is_set():
                with lock:
                    number = next(taken, None)
                if number is None:
                    return
                done.put((number, work(number)))
        except BaseException as error:
            done.put(error)

    workers = [threading.Thread(target=take, daemon=True) for _ in range(min(threads, len(numbers)))]
    try:
        for worker in workers:
            worker.start()
        for _ in numbers:
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        stop.set()
        for worker in workers:
            worker.join()


@dataclass
class Pace:
    """Reports training progress a few times a second, and at least once per epoch."""

    progress: Progress
    total: float
    done: float = 0.0
    every: float = 0.2
    _begun: float = field(default_factory=time.perf_counter)
    _first: float = -1.0
    _told: float = 0.0
    _epoch: int = -1

    def add(self, amount: float, unit: str, epoch: int, **facts: object) -> None:
        """Record that ``amount`` more was done, and report if it is time to."""
        if self._first < 0:
            self._first = self.done
        self.done += amount
        now = time.perf_counter()
        if now - self._told >= self.every or self.done >= self.total or epoch != self._epoch:
            self._told, self._epoch = now, epoch
            speed = (self.done - self._first) / max(now - self._begun, 1e-9)
            self.progress("training", self.done, self.total, epoch=epoch, **facts, **{f"{unit}_per_second": speed})


@dataclass
class Epochs:
    """Passes over the chunks of a text.

    ``train(epoch, chunk, begin, end, lr_begin, lr_end)`` learns from some words and returns (loss, predictions);
    ``keep(state)`` saves a checkpoint; ``check()`` says whether all weights are still finite; ``score()`` returns
    further values for the learning curve, besides the loss of the epoch.
    """

    bounds: Ints
    epochs: int
    lr: float
    threads: int
    train: Callable[[int, int, int, int, float, float], tuple[float, float]]
    keep: Callable[[dict[str, Any]], None]
    check: Callable[[], bool]
    score: Callable[[], dict[str, float]] = dict

    def run(self, run: Run, state: dict[str, Any]) -> None:
        """Train from ``state`` (empty for a new run) to the last epoch."""
        n_words, n_chunks = int(self.bounds[-1]), len(self.bounds) - 1
        epoch, chunk = int(state.get("epoch", 0)), int(state.get("chunk", 0))
        loss, predictions = (float(state.get(name, 0.0)) for name in ("loss", "predictions"))
        pace = Pace(run.progress, n_words * self.epochs, done=epoch * n_words + int(self.bounds[chunk]))
        kept_at = began = time.monotonic()
        while epoch < self.epochs:
            stretch = range(chunk, min(chunk + STRETCH, n_chunks))
            for number, (more, count) in self._stretch(epoch, stretch):
                loss, predictions = loss + more, predictions + count
                size = self.bounds[number + 1] - self.bounds[number]
                pace.add(int(size), "words", epoch=epoch + 1, loss=loss / max(predictions, 1))
            chunk = stretch.stop
            if chunk == n_chunks:
                seconds, began = time.monotonic() - began, time.monotonic()
                self._close_epoch(run, epoch + 1, loss, predictions, seconds)
                epoch, chunk, loss, predictions = epoch + 1, 0, 0.0, 0.0
            if chunk == 0 or time.monotonic() - kept_at > PATIENCE:
                self.keep({"epoch": epoch, "chunk": chunk, "loss": loss, "predictions": predictions})
                kept_at = time.monotonic()

    def _stretch(self, epoch: int, chunks: range) -> Iterator[tuple[int, tuple[float, float]]]:
        total = int(self.bounds[-1]) * self.epochs

        def work(number: int) -> tuple[float, float]:
            begin, end = int(self.bounds[number]), int(self.bounds[number + 1])
            passed = epoch * int(self.bounds[-1])
            first, last = (self.lr * (1 - (passed + at) / total) for at in (begin, end))
            return self.train(epoch, number, begin, end, first, last)

        return in_threads(work, chunks, self.threads)

    def _close_epoch(self, run: Run, epoch: int, loss: float, predictions: float, seconds: float) -> None:
        if not predictions:
            raise TrainingError(
                "no two words of the vocabulary occur in the same sentence, or frequent ones "
                f"were skipped: give more text, {as_given('min_count', 1)}, or {as_given('sample', 0)}"
            )
        mean = loss / predictions
        if not np.isfinite(mean) or not self.check():
            raise TrainingError(
                f"training diverged in epoch {epoch}: a weight is no longer a number; lower lr ({self.lr})"
            )
        speed = int(self.bounds[-1]) / max(seconds, 1e-9)
        run.curve.append({"epoch": epoch, "loss": mean, **self.score(), "words_per_second": round(speed)})
        log.info("epoch %d: loss %.4f, %.0f words/s", epoch, mean, speed)
