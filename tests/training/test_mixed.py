"""Several tasks drawn over one training: by shares, or every batch once."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from polyseme.errors import OptionError
from polyseme.training.task import BatchTask, MixedTask, Part, Score, read_shares


class Counting(BatchTask):
    """A task that records the batches it was asked for."""

    def __init__(self, n: int, shared: torch.nn.Linear, score: Score | None = None) -> None:
        self.module, self.n, self.seen, self.score = torch.nn.Sequential(shared, torch.nn.Linear(2, 1)), n, [], score

    def n_steps(self, epoch: int) -> int:
        return self.n + epoch  # an epoch may be longer than another

    def loss(self, epoch: int, index: int, part: Part):
        self.seen.append((epoch, index))
        return self.module(torch.ones(1, 2)).sum(), 1

    def evaluate(self, module):
        return self.score


def mixed(shares, seed=1, **scores):
    shared = torch.nn.Linear(2, 2)
    tasks = {"a": Counting(30, shared, scores.get("a")), "b": Counting(10, shared, scores.get("b"))}
    return MixedTask(tasks, shares, seed), tasks


def test_without_shares_every_batch_of_every_task_comes_once_in_an_epoch():
    task, tasks = mixed(None)
    for epoch in (0, 1):
        for index in range(task.n_steps(epoch)):
            task.loss(epoch, index, Part())
    assert sorted(tasks["a"].seen) == [(0, i) for i in range(30)] + [(1, i) for i in range(31)]
    assert sorted(tasks["b"].seen) == [(0, i) for i in range(10)] + [(1, i) for i in range(11)]
    assert tasks["a"].seen[:30] != sorted(tasks["a"].seen[:30])


def test_tasks_are_drawn_by_their_shares_and_each_goes_through_its_batches_in_order():
    task, tasks = mixed({"a": 1.0, "b": 3.0})
    places = [(epoch, index) for epoch in range(20) for index in range(task.n_steps(epoch))]
    drawn = Counter(name for epoch in range(20) for name, *_ in task._plan(epoch))
    assert drawn["b"] / len(places) == pytest.approx(0.75, abs=0.04)
    for place in places:
        task.loss(*place, Part())
    for one in tasks.values():
        expected = [(epoch, index) for epoch in range(60) for index in range(one.n_steps(epoch))]
        assert one.seen == expected[: len(one.seen)]


def test_a_resumed_training_draws_what_the_unbroken_one_drew():
    whole, later = mixed({"a": 1.0, "b": 1.0})[0], mixed({"a": 1.0, "b": 1.0})[0]
    plans = [whole._plan(epoch) for epoch in range(4)]
    assert later._plan(3) == plans[3]
    assert mixed({"a": 1.0, "b": 1.0}, seed=2)[0]._plan(3) != plans[3]


def test_a_batch_of_one_task_leaves_the_heads_of_the_others_alone():
    task, tasks = mixed(None)
    index = next(i for i, (name, *_) in enumerate(task._plan(0)) if name == "b")
    task.gradients(0, index, Part())
    assert tasks["b"].module[1].weight.grad.any()
    assert tasks["a"].module[0].weight.grad.any()  # shared
    assert tasks["a"].module[1].weight.grad is None


def test_scores_are_told_by_task_and_their_mean_decides():
    scores = {"a": Score(2.0, {"loss": 2.0}), "b": Score(0.75, {"accuracy": 0.75}, higher_is_better=True)}
    found = mixed(None, **scores)[0]
    score = found.evaluate(found.module)
    assert score.value == pytest.approx((2.0 + 0.25) / 2)
    assert score.facts == {"a_loss": 2.0, "b_accuracy": 0.75}


def test_shares_are_read_by_name():
    assert read_shares("nli=2 corpus=0", ["corpus", "nli", "texts"], {"texts": 4.0}) == {
        "corpus": 0.0, "nli": 2.0, "texts": 4.0,
    }  # fmt: skip
    for wrong in ("nly=1", "nli=x", "nli=-1", "nli=0 corpus=0", "nli=inf", "nli"):
        with pytest.raises(OptionError, match="shares"):
            read_shares(wrong, ["corpus", "nli"], {})
