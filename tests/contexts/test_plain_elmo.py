"""An ELMo run with NumPy alone gives the same numbers as with torch, and a query on the command line skips torch."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from polyseme.contexts.elmo.plain import open_plain
from polyseme.search import build_index
from polyseme.text.corpus import Corpus

CLASSES = ["他", "打", "了", "电话", "球"]
SENTENCES = [["他", "打", "了", "电话"], ["球"], ["打", "球", "看看看"] * 5]


@pytest.mark.parametrize(
    "options",
    [
        {"alphabet": "bytes"},
        {"alphabet": "chars+words", "activation": "tanh", "n_highway": 2, "classes": CLASSES},
        {"alphabet": "words", "hidden": 6, "skip": False, "cell_clip": 0.0, "classes": CLASSES},
    ],
    ids=lambda options: options["alphabet"],
)
def test_its_numbers_are_those_of_torch(random_elmo, tmp_path, options):
    elmo = random_elmo(characters="他打了电话球", words=CLASSES, **options)
    elmo.save(tmp_path / "m")
    plain = open_plain(tmp_path / "m")
    assert (plain.dim, plain.n_layers, plain.language) == (elmo.dim, elmo.n_layers, elmo.language)
    for layers in ("all", "mix", 1):
        for one, other in zip(
            plain.encode_tokens(SENTENCES, layers=layers), elmo.encode_tokens(SENTENCES, layers=layers), strict=True
        ):
            np.testing.assert_allclose(one.layers, other.layers, atol=2e-5)
    for one, other in zip(plain.encode_predicting(SENTENCES, [2]), elmo.encode_predicting(SENTENCES, [2]), strict=True):
        np.testing.assert_allclose(one.layers, other.layers, atol=2e-5)
    if elmo.language:
        one, other = plain.substitutes(SENTENCES[0], 1), elmo.substitutes(SENTENCES[0], 1)
        assert [word for word, _ in one] == [word for word, _ in other]
        np.testing.assert_allclose([p for _, p in one], [p for _, p in other], rtol=1e-4)


def test_other_readers_and_other_models_are_left_to_torch(random_elmo, tmp_path):
    random_elmo(reader="cnn").save(tmp_path / "cnn")
    assert open_plain(tmp_path / "cnn") is None
    assert open_plain(tmp_path) is None


def test_weights_of_another_shape_are_left_to_the_loader_that_says_what_is_wrong(random_elmo, tmp_path):
    elmo = random_elmo()
    elmo.options = type(elmo.options)(**{**vars(elmo.options), "hidden": 7})
    elmo.save(tmp_path / "m")
    assert open_plain(tmp_path / "m") is None


def test_a_question_of_the_command_line_loads_neither_torch_nor_scikit_learn(random_elmo, tmp_path):
    corpus = Corpus.from_sentences([["他", "打", "了", "电话"], ["他", "打", "球"]] * 30, tmp_path / "c")
    random_elmo(alphabet="words", words=CLASSES, classes=CLASSES).save(tmp_path / "m")
    build_index(tmp_path / "m", corpus, tmp_path / "i")
    script = """
import sys, json
from polyseme.cli.main import polyseme
polyseme.main(sys.argv[1:], standalone_mode=False)
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
    for asked in (["打"], ["打", "--in", "他 打 球"]):
        done = subprocess.run(
            [sys.executable, "-c", script, "uses", str(tmp_path / "i"), *asked], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert not {"torch", "sklearn", "scipy", "numba"} & set(json.loads(done.stdout.splitlines()[-1]))
