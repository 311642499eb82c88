"""Choice: every head learns to choose, with any number of alternatives, and answers the same when loaded."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.tasks.conftest import choices
from tests.tasks.test_classify import CountingEncoder
from tests.tasks.test_commands import run
from tests.tasks.test_pair import SMALL
from torch import nn
from transformers import AutoModel, AutoTokenizer

import polyseme
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import silent
from polyseme.learn.modules import Encoding
from polyseme.tasks.choice import ChoiceNet, Choices, padded_scores
from polyseme.tasks.options import CHOICE_HEADS, ChoiceOptions, head_options
from polyseme.training.task import Part

QUICK = {
    "threads": 1, "epochs": 25, "batch_size": 8, "lr": 0.01, "patience": 0, "dropout": 0.0, "input_dropout": 0.0,
    "held_out": 0.0,
}  # fmt: skip
TUNED = {"head": "cross", "threads": 1, "batch_size": 8, "held_out": 0.0, "seed": 1}
CASES = [("房间很干净。", ["服务很热情。", "服务很冷淡。"]), ("", ["", "前台", "早餐"]), ("房间" * 400, ["好", "坏"])]


@pytest.fixture(scope="module")
def folder(shared_data):
    return shared_data / "models" / "hf_tiny" / "bert-tiny-zh"


@pytest.mark.parametrize("head", sorted({*CHOICE_HEADS} - {"cross"}))  # which takes a Transformer
def test_every_head_learns_and_answers_the_same_when_loaded(head, vectors, tmp_path):
    more = {"epochs": 60} if head in ("cnn-sm", "bi-cnn") else {}
    model = polyseme.fit("choice", choices(), encoder=vectors, head=head, **{**QUICK, **SMALL[head], **more})
    report = model.score(choices(40, seed=1))
    assert (report.metric, report.n) == ("accuracy", 40)
    assert report.figures["accuracy"] >= 0.8
    before = model.probabilities(CASES)
    assert [len(found) for found in before] == [2, 3, 2]
    assert [float(found.sum()) for found in before] == pytest.approx([1, 1, 1])
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    for found, loaded, alone in zip(before, again.probabilities(CASES), map(again.predict, zip(CASES)), strict=True):
        np.testing.assert_allclose(found, loaded, atol=1e-5)
        assert alone[0].probabilities == pytest.approx(found, abs=1e-4)
        assert alone[0].choice == np.argmax(alone[0].probabilities)


def test_a_choice_goes_on_as_the_context_began(vectors):
    model = polyseme.fit("choice", choices(), encoder=vectors, head="mlp", **QUICK)
    assert model.score(choices(40, seed=1)).figures["accuracy"] >= 0.95
    (found,) = model.predict([("房间很干净。", ["服务很冷淡。", "服务很肮脏。", "位置很方便。"])])
    assert (found.choice, found.text) == (2, "位置很方便。")


def test_a_context_is_read_once_by_a_frozen_encoder(vectors):
    encoder, rows = CountingEncoder(vectors), [("房间很干净。", ["早餐", "前台", "位置"], 1)] * 5
    polyseme.fit("choice", Examples.of(rows), encoder=encoder, head="arc1", **{**QUICK, **SMALL["arc1"], "epochs": 1})
    assert encoder.tokens == sum(len(vectors.tokenize(text)) for text in ("房间很干净。", "早餐", "前台", "位置"))


def test_the_loss_and_its_gradient_are_those_of_softmax_over_the_alternatives_of_each_row():
    counts, targets = [2, 4, 3], [1, 0, 2]
    scores = torch.randn(9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    goal, wanted = Choices(), np.array(targets)
    goal.loss(padded_scores(scores, counts), wanted).backward()
    expected, start = [], 0
    for count, target in zip(counts, targets, strict=True):
        own = scores.detach().double().numpy()[start : start + count]
        p = np.exp(own) / np.exp(own).sum()
        expected += (p - np.eye(count)[target]).tolist()  # ∂(-log p_target) / ∂score
        start += count
    np.testing.assert_allclose(scores.grad.numpy(), expected, atol=1e-6)
    each = [
        torch.nn.functional.cross_entropy(part[None], torch.tensor([target]))
        for part, target in zip(torch.split(scores, counts), targets, strict=True)
    ]
    assert goal.loss(padded_scores(scores, counts), wanted).item() == pytest.approx(sum(each).item(), rel=1e-6)


def test_dropout_is_the_same_for_all_alternatives_of_a_row():
    class First(nn.Module):
        def forward(self, features):
            return features[:, :1]

    net = ChoiceNet(nn.Identity(), nn.Sequential(nn.Dropout(0.5), First())).train()
    scores = torch.stack([net.scores(torch.ones(5, 64), torch.tensor([2, 3])) for _ in range(32)])  # (32, 2, 3)
    assert torch.equal(scores[:, 0, 0], scores[:, 0, 1])
    assert torch.equal(scores[:, 1, 0], scores[:, 1, 2])
    assert not torch.equal(scores[:, 0, 0], scores[:, 1, 0])
    assert set(scores[:, 1].unique().tolist()) == {0.0, 2.0}
    assert net.eval().scores(torch.ones(5, 64), torch.tensor([2, 3]))[1].tolist() == [1.0, 1.0, 1.0]


def test_a_transformer_scores_the_first_state_of_both_texts_as_transformers_has_it(folder, tmp_path):
    model = polyseme.fit("choice", choices(24), encoder=polyseme.load(folder), epochs=1, **TUNED)
    context, alternatives = CASES[0]
    model.save(tmp_path / "m")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    bert = AutoModel.from_pretrained(folder).eval()
    bert.load_state_dict(model.reader.encoder.network.whole.base_model.state_dict())
    given = tokenizer([context] * 2, alternatives, padding=True, return_tensors="pt")
    layer = model.net.output[-1]
    with torch.no_grad():
        logits = bert(**given).pooler_output @ layer.weight[0] + layer.bias  # (2,)
    np.testing.assert_allclose(model.probabilities(CASES)[0], torch.softmax(logits, dim=0).numpy(), atol=1e-5)
    for found, loaded in zip(
        model.probabilities(CASES), polyseme.load(tmp_path / "m").probabilities(CASES), strict=True
    ):
        np.testing.assert_allclose(found, loaded, atol=1e-5)


def test_of_a_context_that_is_too_long_the_end_is_read(folder):
    bert = polyseme.load(folder)
    model = polyseme.fit("choice", choices(8), encoder=bert, epochs=0, max_pieces=32, **TUNED)
    ends = model.probabilities([("房间" * 100 + end, ["很好", "很坏"]) for end in ("在哪里？", "是谁？")])
    starts = model.probabilities([(start + "房间" * 100, ["很好", "很坏"]) for start in ("在哪里？", "是谁？")])
    assert not np.array_equal(*ends)
    np.testing.assert_array_equal(*starts)


def test_a_transformer_is_fine_tuned_under_cross_unless_told_otherwise(folder):
    bert = polyseme.load(folder)
    plan = polyseme.api.plan_fit("choice", choices(8), None, bert, encoder_mode="finetune")
    assert plan.options.head == "cross"
    assert polyseme.api.plan_fit("choice", choices(8), None, bert).options.head == "bilstm-max"
    with pytest.raises(OptionError, match="give one encoder"):
        polyseme.fit("choice", choices(8), head="cross")
    assert not {"regression", "orders", "class_weights", "cosine"} & {
        *ChoiceOptions.__dataclass_fields__,
        *CHOICE_HEADS,
    }


@pytest.mark.parametrize("rows", [[("房间", [])], [("房间", ["好"])], [("房间", "好坏")], [("房间",)]])
def test_a_context_without_alternatives_is_one_line(rows, vectors):
    model = polyseme.fit("choice", choices(8), encoder=vectors, head="linear", **{**QUICK, "epochs": 0})
    assert model.predict([]) == []
    with pytest.raises(OptionError, match="row 0 is not a context and two or more alternatives"):
        model.predict(rows)


def test_answers_are_needed_to_learn_and_to_score(vectors):
    rows = Examples.of([("a", ["b", "c"], 0), ("d", ["e", "f"], -1)])
    with pytest.raises(OptionError, match=r"without an answer \(first: row 1\)"):
        polyseme.fit("choice", rows, encoder=vectors, head="linear")
    model = polyseme.fit("choice", choices(8), encoder=vectors, head="linear", **{**QUICK, "epochs": 0})
    with pytest.raises(OptionError, match="without an answer"):
        model.score(rows)
    with pytest.raises(OptionError, match="takes choices between alternatives"):
        model.score(Examples.of([("a", "b")]))
    with pytest.raises(OptionError, match="accuracy"):
        polyseme.fit("choice", choices(8), encoder=vectors, head="linear", metric="f1")


def test_files_are_fitted_predicted_and_scored_as_commands(tmp_path):
    for name, seed in (("train", 0), ("test", 1)):
        found = [dict(zip(("context", "choices", "label"), row, strict=True)) for row in choices(60, seed)]
        lines = [json.dumps(row, ensure_ascii=False) for row in found]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plain = {"context": "房间很干净。", "choices": ["服务很冷淡。", "服务很热情。"]}
    (tmp_path / "plain.jsonl").write_text(json.dumps(plain) + "\n", encoding="utf-8")
    more = ["--head", "arc2", "--epochs", "12", "--lr", "0.01", "--dropout", "0", "--threads", "1", "--batch-size", "8"]
    run("fit", "choice", "--train", tmp_path / "train.jsonl", "-o", tmp_path / "m", *more)
    assert json.loads(run("score", tmp_path / "m", tmp_path / "test.jsonl", "--json"))["accuracy"] >= 0.9
    (line,) = run("predict", tmp_path / "m", tmp_path / "plain.jsonl").splitlines()
    record = json.loads(line)
    assert [record["context"], record["alternatives"]] == [*plain.values()]
    assert (record["choice"], record["text"]) == (1, "服务很热情。")
    assert sum(record["probabilities"]) == pytest.approx(1, abs=1e-5)
    assert record["probability"] == record["probabilities"][1]


def test_what_is_added_to_the_loss_is_the_mean_over_the_alternatives(vectors):
    """GPT's own loss is a mean over all its inputs, whatever the number of alternatives."""

    class Features(nn.Module):
        def forward(self, pair):
            n = len(pair.first.mask)
            return Encoding(torch.zeros(n, 4), penalty=torch.full((n,), 3.0))  # 3 for each input

    settings = head_options("choice", ChoiceOptions(head="dan", threads=1, batch_size=8))
    model = polyseme.fit("choice", choices(8), encoder=vectors, head="dan", threads=1, epochs=0)
    task = model.learning(choices(8), None, settings, silent)
    task.module = ChoiceNet(Features(), nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 1)))
    expected = sum(np.log(len(row.alternatives)) for row in choices(8)) + 3 * 8  # all scores are equal
    assert task.n_steps(0) == 1
    assert task.loss(0, 0, Part())[0].item() == pytest.approx(expected, rel=1e-5)
