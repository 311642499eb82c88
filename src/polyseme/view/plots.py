"""Plots of what is in a model or an index: the map of words, the curves of trainings, the uses of a word. 图

Plots of tasks: the confusion matrix (混淆矩阵) and the learning curve (学习曲线).

A plot of a comparison: the models side by side, file by file.

The PIP loss by dimension as a plot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyseme.arrays import FloatArray, within_square
from polyseme.errors import OptionError
from polyseme.view.figure import figure, font_for
from polyseme.view.word_map import clusters, plane_of
from polyseme.words.vectors import WordVectors

if TYPE_CHECKING:
    from polyseme.tasks.model import TaskReport

COLOURS = ("#0b67a8", "#bf421d", "#237a3b", "#8448ac", "#946400", "#007a80", "#b02f72", "#5b5e66")
_COUNTS = ("step", "tokens", "words", "epoch", "pass", "iteration", "seconds")  # what a record is counted by
_WRITTEN = 250  # words of a map that are written, the frequent ones


def draw_map(vectors: WordVectors, path: str | Path, *, method: str, size: int, title: str, force: bool) -> int:
    """The frequent words on a plane, coloured by cluster; how many there are."""
    rows, plane = plane_of(vectors, method, size)
    groups = clusters(vectors, rows)
    words = [vectors.index_to_key[row] for row in rows]
    font = font_for([*words, title])
    with figure(path, 11.0, 8.0, force=force) as axes:
        axes.scatter(plane[:, 0], plane[:, 1], s=7, alpha=0.5, c=[COLOURS[group % 8] for group in groups])
        for word, (x, y), group in list(zip(words, plane, groups, strict=True))[:_WRITTEN]:
            axes.annotate(word, (x, y), fontsize=7, ha="center", va="bottom", color=COLOURS[group % 8], font=font)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(title, fontproperties=font)
    return len(words)


def draw_curves(
    curves: Mapping[str, Sequence[dict[str, Any]]], figure_name: str | None, path: str | Path, *, force: bool
) -> str:
    """One figure of several trainings, by the share of each that was done; the name of the figure."""
    known = [_figures(records) for records in curves.values()]
    shared = [name for name in known[0] if all(name in names for names in known)] if known else []
    if not shared:
        raise OptionError("these models have no training metric in common")
    if figure_name is not None and figure_name not in shared:
        raise OptionError(f"the metrics these models have in common are {', '.join(shared)}, not {figure_name!r}")
    chosen = figure_name or next((name for name in shared if "perplexity" in name or name == "loss"), shared[0])
    with figure(path, force=force) as axes:
        for number, (name, records) in enumerate(curves.items()):
            points = [
                (at, record[chosen]) for at, record in zip(_places(records), records, strict=True) if chosen in record
            ]
            axes.plot(*zip(*points, strict=True), marker=".", color=COLOURS[number % 8], label=name)
        axes.set_xlabel("share of the training")
        axes.set_ylabel(chosen.replace("_", " "))
        axes.legend(prop=font_for(curves))
    return chosen


def draw_groups(
    plane: FloatArray, labels: NDArray[np.int64], names: Sequence[str], title: str, path: str | Path, *, force: bool
) -> None:
    """Points on a plane, ``(n, 2)``, coloured by the group of each, ``(n,)``; ``names`` are those of the groups."""
    font, points = font_for([title, *names]), within_square(plane)
    with figure(path, 8.0, 6.0, force=force) as axes:
        for group, name in enumerate(names):
            members = points[labels == group]
            axes.scatter(members[:, 0], members[:, 1], s=14, alpha=0.7, color=COLOURS[group % 8], label=name)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_title(title, fontproperties=font)
        axes.legend(prop=font)


def _figures(records: Sequence[dict[str, Any]]) -> list[str]:
    """What was measured more than once."""
    names = dict.fromkeys(name for record in records for name, value in record.items() if type(value) in (int, float))
    return [name for name in names if name not in _COUNTS and sum(name in record for record in records) > 1]


def _places(records: Sequence[dict[str, Any]]) -> list[float]:
    """How far the training was at each record, up to 1."""
    count = next((name for name in _COUNTS if all(name in record for record in records)), None)
    values = [float(record[count]) if count else number + 1.0 for number, record in enumerate(records)]
    return [value / (max(values) or 1.0) for value in values]


MOST_NUMBERS = 30  # labels up to which each cell has its number
_NOT_FIGURES = ("step", "epoch", "seconds")


def draw_confusion(report: TaskReport, path: str | Path, *, force: bool = False) -> None:
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


def draw_comparison(
    models: Sequence[str], figures: Mapping[str, Sequence[float | None]], path: str | Path, *, force: bool = False
) -> None:
    """Bars of the figures, given by name with a value for each model, that are between -1 and 1: correlations and
    shares. Others have no axis in common with them."""
    drawn = {name: values for name, values in figures.items() if _on_one_axis(values)}
    if not drawn:
        raise OptionError("there is nothing to plot: only correlations and accuracies are plotted, not perplexities")
    font, thickness = font_for([*models, *drawn]), 0.8 / len(models)
    places = np.arange(len(drawn))
    with figure(path, 7.0, 1.5 + 0.25 * (len(models) + 1) * len(drawn), force=force) as axes:
        for number, model in enumerate(models):
            values = [np.nan if column[number] is None else column[number] for column in drawn.values()]
            axes.barh(places + number * thickness, values, thickness, label=model)
        axes.set_yticks(places + 0.4 - thickness / 2, list(drawn), fontproperties=font)
        axes.invert_yaxis()  # in the order of the table
        axes.grid(axis="y", visible=False)
        axes.legend(prop=font, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False)


def _on_one_axis(values: Sequence[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(-1 <= value <= 1 for value in known)


def draw_dimension(
    path: str | Path,
    title: str,
    losses: Sequence[float],
    best: int,
    ranges: Mapping[int, tuple[int, int]],
    *,
    force: bool = False,
) -> None:
    """The curve, its lowest point, and bands around it: per cent → dimensions whose loss is so much more at most."""
    with figure(path, force=force) as axes:
        for share, (low, high) in sorted(ranges.items(), reverse=True):
            axes.axvspan(low, high, color="#2a6f97", alpha=0.10, label=f"within {share} %: {low}–{high}")
        axes.plot(range(1, len(losses) + 1), losses, color="#2a6f97")
        axes.plot([best], [losses[best - 1]], "o", color="#c1121f", label=f"lowest loss: {best}")
        axes.set_xscale("log")
        axes.set_xlabel("dimension")
        axes.set_ylabel("PIP loss")
        axes.set_title(title)
        axes.legend()
