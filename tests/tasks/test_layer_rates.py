"""The learning rates of a fine-tuned encoder: below a head its own, and the lower a layer, the slower or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.conftest import choices, reviews
from tests.tasks.test_pair import pairs
from tests.tasks.test_span import questions

import polyseme
from polyseme.data.examples import Examples
from polyseme.interfaces import silent
from polyseme.learn.learning import Learning
from polyseme.tasks.classify import Classify
from polyseme.tasks.options import ClassifyOptions, head_options
from polyseme.text.corpus import Corpus
from polyseme.training.optimisers import Optimiser
from polyseme.training.run import Run

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


def rates(task: Learning) -> dict[str, float]:
    """How far one step at the rate 1 moves each weight whose gradient is 1; 0 where it is frozen."""
    weights = dict(task.module.named_parameters())
    optimiser = Optimiser(weights, "sgd")
    optimiser.arrange(task.groups(0))
    for weight in weights.values():
        weight.data = torch.zeros_like(weight)
        weight.grad = torch.ones_like(weight) if weight.requires_grad else None
    optimiser.step(1.0)
    moves = {name: weight.detach().unique().tolist() for name, weight in weights.items()}
    assert all(len(found) == 1 for found in moves.values())
    return {name: -found[0] for name, found in moves.items()}


def learning_under_rnn(encoder: Any, **options: Any) -> tuple[Learning, Any]:
    """The training of a recurrent head, and the encoder in it that learns."""
    given = ClassifyOptions(head="rnn", encoder_mode="finetune", **options)
    settings = head_options("classify", given)
    goal = Classify.goal_of(texts(), settings)
    model = Classify.new(texts(), [encoder], given, settings, goal, encoder.about, Run())
    return model.learning(texts(), None, settings, silent), model.encoder.inputs.encoders[0]


def rates_under_rnn(encoder: Any, network: str, **options: Any) -> dict[str, float]:
    """The rates of the weights of an encoder's network (an attribute) under a recurrent head, by their names in it."""
    task, encoder = learning_under_rnn(encoder, **options)
    names = {weight: name for name, weight in getattr(encoder, network).named_parameters()}
    by_weight = dict(zip(task.module.parameters(), rates(task).values(), strict=True))
    assert {rate for weight, rate in by_weight.items() if weight not in names} == {1.0}  # the head's
    return {name: by_weight[weight] for weight, name in names.items()}


def by_part(names: Iterable[str]) -> dict[str, set[str]]:
    """The names by what they belong to: the upper LSTM, the lower one, and everything else."""
    parts: dict[str, set[str]] = {"layers.1.": set(), "layers.0.": set(), "": set()}
    for name in names:
        parts[next(part for part in parts if name.startswith(part))].add(name)
    return parts


def test_the_layers_of_elmo_are_its_lstms_and_its_characters_are_below_them(elmo):
    found = rates_under_rnn(elmo, "bilm", encoder_lr=0.5, layer_rates=2.0)
    assert sum("convolutions" in name for name in found) == 8  # weights and biases of four widths
    expected = {"layers.1.": 0.5, "layers.0.": 0.25, "": 0.125}
    for part, names in by_part(found).items():
        assert {found[name] for name in names} == {expected[part]}


@pytest.mark.parametrize(
    ("top_layers", "learning"),
    [(0, []), (1, ["layers.1."]), (2, ["layers.1.", "layers.0."]), (3, ["layers.1.", "layers.0.", ""])],
)
def test_the_top_layers_of_elmo_learn_and_nothing_else(elmo, top_layers, learning):
    found = rates_under_rnn(elmo, "bilm", top_layers=top_layers)
    parts = by_part(found)
    assert {name for name, rate in found.items() if rate} == {name for part in learning for name in parts[part]}


def test_the_layers_of_a_transformer_are_its_blocks_under_a_head_over_words_too(bert):
    found = rates_under_rnn(bert, "network", encoder_lr=0.5, layer_rates=2.0)
    n = bert.n_layers - 1
    for name, rate in found.items():
        block = name.partition("encoder.layer.")[2].partition(".")[0]
        layer = n - 1 if ".pooler." in name else int(block or -1)  # the pooler is above the top block
        assert rate == 0.5 * 2.0 ** (layer + 1 - n), name


def test_the_layers_of_ulmfit_are_its_lstms():
    corpus = Corpus.from_sentences([text for text, _ in reviews(40)])
    shape = {"dim": 8, "hidden": 12, "n_layers": 2, "min_count": 1}
    ulmfit = polyseme.train("ulmfit", corpus, epochs=1, threads=1, seed=1, **shape)
    found = rates_under_rnn(ulmfit, "module", encoder_lr=0.5, layer_rates=2.0)
    assert {name.rpartition(".")[0]: rate for name, rate in found.items()} == {
        "layers.1": 0.5, "layers.0": 0.25, "": 0.125,
    }  # fmt: skip


def test_with_gradual_unfreezing_each_epoch_one_layer_more_learns_from_the_top(elmo):
    task, encoder = learning_under_rnn(elmo, unfreezing="gradual", epochs=4)
    names = {weight: name for name, weight in encoder.bilm.named_parameters()}
    parts, learning = by_part(names.values()), []
    optimiser = Optimiser(dict(task.module.named_parameters()))
    for epoch in range(4):
        optimiser.arrange(task.groups(epoch))
        thawed = {name for weight, name in names.items() if weight.requires_grad}
        learning.append([part for part, members in parts.items() if members <= thawed])
        assert all(members <= thawed or not members & thawed for members in parts.values())
        assert all(weight.requires_grad for weight in task.module.parameters() if weight not in names)
    assert learning == [[], ["layers.1."], ["layers.1.", "layers.0."], ["layers.1.", "layers.0.", ""]]
