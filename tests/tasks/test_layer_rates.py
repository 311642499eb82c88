"""The learning rates of a fine-tuned encoder: below a head its own, and the lower a layer, the slower or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tasks.conftest import choices, reviews
from tests.tasks.test_pair import pairs
from tests.tasks.test_span import questions

import polyseme
from polyseme.text.corpus import Corpus
from polyseme.text.examples import Examples

SMALL = {"threads": 1, "epochs": 1, "batch_size": 8, "lr": 0.05, "seed": 1, "encoder_mode": "finetune"}


@pytest.fixture(scope="module")
def elmo():
    lines = [text for text, _ in reviews(40)]
    shape = {"n_layers": 2, "filters": "1x8 2x8 3x16 4x16", "projection": 16, "hidden": 32}
    return polyseme.train("elmo", Corpus.from_sentences(lines), epochs=1, seed=1, threads=1, **shape)


@pytest.fixture(scope="module")
def bert(shared_data):
    return polyseme.load(shared_data / "models" / "hf_tiny" / "bert-tiny-zh")


def texts(n: int = 16) -> Examples:
    return Examples.of(reviews(n))


def scores(n: int = 16) -> Examples:
    lines = [text for text, _ in reviews(2 * n)]
    return Examples.of([(lines[k], lines[-k - 1], k % 6) for k in range(n)], scored=True)


def tags(n: int = 16) -> Examples:
    rows = [(list(text), ["B-X" if token == "很" else "O" for token in text]) for text, _ in reviews(n)]
    return Examples.of(rows, kind="tags")


HEADS = [  # task, head, encoder, examples
    ("classify", "linear", "bert", texts),
    ("classify", "rnn", "bert", texts),
    ("classify", "textcnn", "elmo", texts),
    ("pair", "cross", "bert", pairs),
    ("pair", "cosine", "bert", scores),
    ("pair", "bilstm-max", "elmo", pairs),
    ("pair", "arc1", "elmo", pairs),
    ("choice", "cross", "bert", choices),
    ("tag", "linear", "bert", tags),
    ("tag", "bilstm-crf", "elmo", tags),
    ("span", "cross", "bert", questions),
    ("span", "reader", "elmo", questions),
]


def encoder_tensors(model: Any) -> dict[str, np.ndarray]:
    """The weights of the encoder in a task's model, or in an encoder of sentences in it."""
    below = next(iter(model.parts().models.values()))
    return below.parts().tensors if not below.parts().models else encoder_tensors(below)


@pytest.mark.parametrize("frozen", [{"encoder_lr": 0.0}, {"top_layers": 0}], ids=["encoder_lr", "top_layers"])
@pytest.mark.parametrize(("task", "head", "name", "examples"), HEADS, ids=[" ".join(row[:3]) for row in HEADS])
def test_under_every_head_an_encoder_that_may_not_learn_stays(task, head, name, examples, frozen, request):
    encoder = request.getfixturevalue(name)
    model = polyseme.fit(task, examples(16), encoder=encoder, head=head, **SMALL, **frozen)
    given, learned = encoder.parts().tensors, encoder_tensors(model)
    assert given.keys() == learned.keys()
    assert [tensor for tensor in given if not np.array_equal(given[tensor], learned[tensor])] == []
