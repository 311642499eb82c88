"""Every model goes to other processes and threads, and can be copied: its vectors stay the same."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import polyseme
from polyseme.catalog import COMPOSED, METHODS
from polyseme.interfaces import SentenceEncoder
from polyseme.sentences.lift import lift

ROWS = METHODS + COMPOSED
every_row = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
TEXTS = ["小明打电话给姐姐。", "未曾见过的词", "老王的朋友在图书馆看书。"]
# A fresh interpreter, as one that ``spawn`` starts: nothing is there but what the pickle holds.
CHILD = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from test_travel import answers
texts, models = pickle.load(open(sys.argv[2], "rb"))
pickle.dump([answers(pickle.loads(model), texts) for model in models], open(sys.argv[3], "wb"))
"""


def answers(model: Any, texts: list[str]) -> list[np.ndarray]:
    """One array per text: its vector, or those of its words."""
    if isinstance(model, SentenceEncoder):
        return list(model.encode(texts))
    return [sentence.layers for sentence in lift(model, "contexts").encode_tokens(texts)]


@pytest.fixture(scope="module")
def elsewhere(model, tmp_path_factory) -> dict[str, list[np.ndarray]]:
    """The answers of every model, pickled after it was used, in one other process."""
    folder = tmp_path_factory.mktemp("travel")
    known = {row.name: answers(model(row.name), TEXTS) for row in ROWS}
    pickled = [pickle.dumps(model(name)) for name in known]
    (folder / "models").write_bytes(pickle.dumps((TEXTS, pickled)))
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", CHILD, here, folder / "models", folder / "answers"], check=True)
    return dict(zip(known, pickle.loads((folder / "answers").read_bytes()), strict=True))


@every_row
def test_it_gives_equal_vectors_in_another_process(row, model, elsewhere):
    for one, other in zip(answers(model(row.name), TEXTS), elsewhere[row.name], strict=True):
        np.testing.assert_array_equal(one, other)


@every_row
def test_a_copy_gives_equal_vectors(row, model):
    first = model(row.name)
    answers(first, TEXTS)  # which makes what does not travel
    for second in (copy.copy(first), copy.deepcopy(first)):
        assert second is not first
        for one, other in zip(answers(first, TEXTS), answers(second, TEXTS), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "how"), [*((name, "threading") for name in ("word2vec", "tfidf", "doc2vec", "elmo")), ("elmo", "loky")]
)
def test_the_folds_of_scikit_learn_score_the_same_in_threads_and_processes(name, how, model, fifty_lines, tmp_path):
    model(name).save(tmp_path / "m")
    encoder = lift(polyseme.load(tmp_path / "m"), "sentences")  # whose arrays are mapped files
    assert clone(encoder) is not encoder
    labels = ["看书" in line for line in fifty_lines]
    steps = make_pipeline(encoder, LogisticRegression())
    alone = cross_val_score(steps, fifty_lines, labels, cv=4)
    with joblib.parallel_config(how, n_jobs=2):
        together = cross_val_score(steps, fifty_lines, labels, cv=4)
    assert np.isfinite(alone).all()
    np.testing.assert_array_equal(together, alone)


def test_mapped_vectors_go_to_other_processes(model, tmp_path):
    model("word2vec").save(tmp_path / "m")
    vectors = polyseme.load(tmp_path / "m").vectors
    sums = joblib.Parallel(n_jobs=2)(joblib.delayed(np.sum)(vectors, axis=0) for _ in range(2))
    np.testing.assert_array_equal(sums[0], vectors.sum(axis=0))
