"""Plots of what is in a model or an index: the map of words, the curves of trainings, the uses of a word. 图"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyseme.errors import OptionError
from polyseme.interfaces import FloatArray
from polyseme.view.figure import figure
from polyseme.view.fonts import font_for
from polyseme.view.word_map import clusters, fitted, plane_of
from polyseme.words.vectors import WordVectors

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
    font, points = font_for([title, *names]), fitted(plane)
    with figure(path, 8.0, 6.0, force=force) as axes:
        for group, name in enumerate(names):
            own = points[labels == group]
            axes.scatter(own[:, 0], own[:, 1], s=14, alpha=0.7, color=COLOURS[group % 8], label=name)
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
