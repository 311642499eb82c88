"""Input handling shared by all encoders: the choice of layers, and the given sentences."""

from __future__ import annotations

import numpy as np
import pytest

from polyseme.arrays import unit_rows
from polyseme.errors import OptionError
from polyseme.interfaces import Layers, several, tokens_given

LAYERS = np.arange(24, dtype=np.float32).reshape(3, 2, 4)  # (L, T, D)


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("all", LAYERS),
        ("top", LAYERS[2:]),
        (1, LAYERS[1:2]),
        ("0", LAYERS[:1]),
        ("mean", LAYERS.mean(axis=0, keepdims=True)),
        ("mix", (0.5 * LAYERS[0] + 2 * LAYERS[2])[None]),
    ],
)
def test_a_choice_of_layers_makes_the_planes_it_names(choice, wanted):
    layers = Layers.read(choice, 3)
    np.testing.assert_allclose(layers.planes(LAYERS, mix=[0.5, 0, 2]), wanted, rtol=1e-6)
    assert layers.n_planes == len(wanted)
    assert layers.top == (int(choice) if choice in (1, "0") else 2)


def test_a_mix_that_nobody_learned_is_the_mean():
    np.testing.assert_allclose(Layers.read("mix", 3).planes(LAYERS)[0], LAYERS.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("choice", [3, -1, "3", "-1", "bottom", "", True, None, 1.0, ("top",)])
def test_what_is_no_choice_of_layers_is_refused_with_those_there_are(choice):
    with pytest.raises(OptionError, match="all, top, mean, mix or 0 … 2"):
        Layers.read(choice, 3)


def test_a_bare_text_and_words_that_are_none_are_refused():
    assert several(["a", ["b"]]) == ["a", ["b"]]
    with pytest.raises(OptionError, match="list"):
        several("文本")
    with pytest.raises(OptionError, match="7 is neither"):
        tokens_given(["a", 7])


def test_rows_of_length_one_and_zero_rows_stay_finite():
    assert unit_rows(np.array([[3, 4], [0, 0]], dtype=np.float32)).tolist() == pytest.approx(
        np.array([[0.6, 0.8], [0, 0]])
    )
