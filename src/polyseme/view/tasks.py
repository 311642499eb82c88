"""Plots of tasks: the confusion matrix (混淆矩阵) and the learning curve (学习曲线)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyseme.errors import OptionError
from polyseme.tasks.model import Report
from polyseme.view.figure import figure
from polyseme.view.fonts import font_for

MOST_NUMBERS = 30  # labels up to which each cell has its number
_NOT_FIGURES = ("step", "epoch", "seconds")


def draw_confusion(report: Report, path: str | Path, *, force: bool = False) -> None:
    """How often each label (row) was called each label (column), shaded by the share of the row."""
    if not report.confusion:
        raise OptionError(f"{report.task} has no confusion matrix: only classes have one")
    table = np.array(report.confusion)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    n, font = len(table), font_for(report.labels)
    side = max(4.0, min(14.0, 1.8 + 0.5 * n))
    with figure(path, side, side, force=force) as axes:
        axes.grid(visible=False)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(n), report.labels, rotation=60, ha="right", fontproperties=font)
        axes.set_yticks(range(n), report.labels, fontproperties=font)
        axes.set_xlabel("predicted")
        axes.set_ylabel("gold")
        axes.set_title(f"{report.metric} {report.figures[report.metric]:.3f}, n = {report.n:,}")
        for row, column in np.ndindex(n, n) if n <= MOST_NUMBERS else ():
            colour = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, str(table[row, column]), ha="center", va="center", color=colour, fontsize=8)


def draw_curve(curve: Sequence[dict[str, Any]], path: str | Path, *, force: bool = False) -> None:
    """The loss and the held-out figures of a training, by epoch."""
    if not curve:
        raise OptionError("the model has no training log: there is no curve to plot")
    epochs = [record.get("epoch", number + 1) for number, record in enumerate(curve)]
    names = [name for name in curve[-1] if name not in _NOT_FIGURES and not name.endswith("_per_second")]
    with figure(path, force=force) as axes:
        others = axes.twinx()
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss")
        others.set_ylabel("held-out")
        lines = []
        for number, name in enumerate(names):
            values = [record.get(name, np.nan) for record in curve]
            on = axes if "loss" in name else others
            lines += on.plot(epochs, values, marker=".", label=name, color=f"C{number}")
        axes.legend(handles=lines, loc="center right")
