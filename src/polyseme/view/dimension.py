"""The PIP loss by dimension as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from polyseme.view.figure import figure


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
