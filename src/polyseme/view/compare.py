"""A plot of a comparison: the models side by side, file by file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from polyseme.errors import OptionError
from polyseme.view.figure import figure
from polyseme.view.fonts import font_for


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
