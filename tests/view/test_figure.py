from __future__ import annotations

from pathlib import Path

from polyseme.view.figure import figure


def test_dollar_signs_in_words_do_not_begin_a_formula(tmp_path: Path) -> None:
    with figure(tmp_path / "a.svg") as axes:
        axes.set_title(r"$\frac{$ 5$")
        axes.plot([1, 2], [1, 2], label="US$^$")
        axes.legend()
    assert (tmp_path / "a.svg").stat().st_size > 1000
