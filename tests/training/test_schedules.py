"""Schedules against values worked out by hand."""

from __future__ import annotations

import math

import pytest

from polyseme.errors import OptionError
from polyseme.training.options import TrainingState, rate_factor


@pytest.mark.parametrize(
    ("schedule", "progress", "step", "warmup", "factor"),
    [
        ("constant", 0.9, 1000, 0, 1.0),
        ("constant", 0.0, 0, 10, 0.1),
        ("constant", 0.0, 4, 10, 0.5),
        ("linear", 0.0, 100, 10, 1.0),
        ("linear", 0.25, 100, 10, 0.75),
        ("linear", 1.0, 100, 10, 0.0),
        ("linear", 0.5, 4, 10, 0.25),
        ("cosine", 0.5, 100, 10, 0.5),
        ("cosine", 0.25, 100, 0, (1 + math.sqrt(0.5)) / 2),
        ("inverse-sqrt", 0.3, 99, 25, 0.5),
        ("inverse-sqrt", 0.3, 24, 25, 1.0),
        ("inverse-sqrt", 0.0, 4, 25, 0.2),
    ],
)
def test_factor(schedule, progress, step, warmup, factor):
    assert rate_factor(schedule, TrainingState(step, progress, warmup=warmup)) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("schedule", "epoch", "setbacks", "factor"),
    [("exponential", 0, 3, 1.0), ("exponential", 2, 0, 0.64), ("plateau", 9, 0, 1.0), ("plateau", 9, 2, 0.64)],
)
def test_factors_that_fall_by_epochs_and_by_setbacks(schedule, epoch, setbacks, factor):
    assert rate_factor(schedule, TrainingState(500, 0.5, epoch, setbacks, decay=0.8)) == pytest.approx(factor)


def test_an_unknown_schedule_is_an_error():
    with pytest.raises(OptionError, match="polynomial"):
        rate_factor("polynomial", TrainingState(0, 0.0))
