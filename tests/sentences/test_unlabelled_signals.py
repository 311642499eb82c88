"""Encoders trained on inference, neighbours and answers, against NumPy and on artificial text."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import polyseme
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, TrainingError
from polyseme.learn.modules import TextTokens
from polyseme.learn.pairs import compared
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.infersent import HierarchicalConvModule, InnerAttentionModule, classifier
from polyseme.sentences.options import INFERSENT_ENCODERS, InferSentOptions, QuickThoughtOptions
from polyseme.sentences.sentence_order import NeighbourTask, neighbour_targets
from polyseme.text.corpus import Corpus

QUESTIONS = {
    "where": ["park", "station", "school"],
    "when": ["monday", "noon", "today"],
    "who": ["wang", "li", "zhang"],
}


def test_the_features_of_a_pair_are_the_papers_and_two_of_them_do_not_know_the_order():
    u, v = torch.tensor([[1.0, -2.0]]), torch.tensor([[3.0, 0.5]])
    assert compared(u, v).tolist() == [[1, -2, 3, 0.5, 2, 2.5, 3, -1]]
    torch.testing.assert_close(compared(u, v)[:, 4:], compared(v, u)[:, 4:])


def test_the_classifier_is_linear_unless_asked_otherwise():
    torch.manual_seed(0)
    layers = classifier(8, 3, InferSentOptions(classifier=5))
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    bias = layers(torch.zeros(1, 8))
    torch.testing.assert_close(layers(x + y) - bias, layers(x) - bias + layers(y) - bias)


def test_inner_attention_is_a_weighted_sum_of_projected_states():
    torch.manual_seed(0)
    module = InnerAttentionModule(Recurrent(3, 2)).eval()
    x, mask = torch.randn(1, 4, 3), torch.tensor([[True, True, True, False]])
    found = module(TextTokens(x, mask))
    states = module.states(x, mask)[0][0, :3].detach().numpy()
    scores = np.tanh(states @ module.keys.weight.detach().numpy().T) @ module.queries.weight.detach().numpy().T
    weights = np.exp(scores) / np.exp(scores).sum(axis=0)
    expected = weights.T @ (states @ module.values.weight.detach().numpy().T)
    np.testing.assert_allclose(found.vectors[0].detach(), expected.reshape(-1), atol=1e-5)
    np.testing.assert_allclose(found.attention.sum().item(), 1, atol=1e-6)


def test_the_hierarchical_convolution_keeps_the_maximum_of_every_layer():
    torch.manual_seed(0)
    module = HierarchicalConvModule(3, 5).eval()
    x = torch.randn(1, 6, 3)
    short = module(TextTokens(x[:, :4], torch.ones(1, 4, dtype=torch.bool))).vectors
    padded = module(TextTokens(x, torch.arange(6)[None] < 4)).vectors
    torch.testing.assert_close(short, padded)
    layer, expected = x[:, :4].transpose(1, 2), []
    for convolution in module.layers:
        layer = torch.relu(convolution(layer))
        expected.append(layer.amax(dim=2))
    torch.testing.assert_close(short, torch.cat(expected, dim=1))


@pytest.mark.parametrize("encoder", INFERSENT_ENCODERS)
def test_each_of_the_seven_encoders_learns_whether_sentences_share_their_subject(encoder):
    subjects, ends = ["cat", "dog", "bird"], ["sleeps", "eats", "runs"]
    rows = [
        (f"the {a} {x}", f"a {b} {y}", "same" if a == b else "other")
        for a in subjects for b in subjects for x in ends for y in ends
    ]  # fmt: skip
    options = {"dim": 12, "hidden": 12, "classifier": 16, "nonlinear": True, "dropout": 0.0, "input_dropout": 0.0}
    steady = {"epochs": 20, "lr": 0.01, "batch_size": 12, "patience": 0, "threads": 1}
    model = polyseme.train("infersent", Examples.of(rows), encoder=encoder, **options, **steady)
    assert max(report["accuracy"] for report in model.about.curve) > 0.9
    assert np.isfinite(model.encode(["the cat", "", "unseen"])).all()


def test_neighbours_share_a_weight_of_one_and_never_cross_documents():
    found = neighbour_targets(np.array([0, 0, 0, 1, 2, 2]))
    expected = np.zeros((6, 6))
    expected[0, 1] = expected[2, 1] = expected[4, 5] = expected[5, 4] = 1
    expected[1, [0, 2]] = 0.5
    np.testing.assert_array_equal(found, expected)


def test_an_untrained_quick_thought_chooses_by_chance():
    lines = [f"w{n} w{n + 1} w{n + 2}" for n in range(40)]
    corpus = Corpus.from_sentences(lines)
    options = QuickThoughtOptions(dim=8, hidden=6, batch_size=40, min_count=1, hold_out=0.0)
    from polyseme.sentences.sentence_order import QuickThought
    from polyseme.store.model import About

    texts = [line.split() for line in lines]
    encoder = QuickThought.of(texts, [], About(), options)
    task = NeighbourTask(encoder.net.eval(), encoder.prepare(texts), corpus.sentence_documents, options)
    total, n, _ = task._choices(encoder.net, np.arange(40))
    assert float(total.detach()) / n == pytest.approx(math.log(39), abs=0.1)


def test_quick_thought_brings_sentences_of_one_topic_together():
    random = np.random.default_rng(0)
    topics = [[f"{letter}{n}" for n in range(8)] for letter in "abc"]
    blocks = [random.choice(topics[block % 3], 4).tolist() for block in range(60) for _ in range(10)]
    corpus = Corpus.from_sentences(blocks)
    options = {"dim": 16, "hidden": 12, "epochs": 6, "batch_size": 60, "min_count": 1, "lr": 0.01, "threads": 1}
    model = polyseme.train("quick-thought", corpus, **options)
    assert model.dim == 2 * 12
    a, other_a, b = (unit for unit in model.encode([topics[0][:4], topics[0][4:], topics[1][:4]]))
    assert a @ other_a > a @ b


def test_a_corpus_without_an_order_is_refused():
    with pytest.raises(TrainingError, match="consecutive sentences"):
        polyseme.train("quick-thought", Corpus.from_sentences(["a b", "c d", "e f"], documents="line"), min_count=1)


def test_quick_thought_says_which_dim_it_takes(tmp_path):
    corpus = Corpus.from_sentences(["a b", "b c", "c a"] * 4)
    options = {"hidden": 4, "epochs": 1, "min_count": 1, "threads": 1}
    with pytest.raises(OptionError, match="must be even"):
        polyseme.train("quick-thought", corpus, dim=7, **options)
    polyseme.train("word2vec", corpus, dim=5, min_count=1, epochs=1, sample=0).save(tmp_path / "words")
    given = {**options, "word_vectors": str(tmp_path / "words")}
    tuned = {**given, "encoder_mode": "finetune"}
    with pytest.raises(OptionError, match="give dim=0"):
        polyseme.train("quick-thought", corpus, dim=8, **tuned)
    assert polyseme.train("quick-thought", corpus, dim=0, **tuned).dim == 2 * 4
    for known, wanted in ((options, 200), (given, 5), (tuned, 5), ({**given, "dim": 8}, 13)):
        model = polyseme.train("quick-thought", corpus, **known)
        assert model.net.inputs.dim == wanted  # others are learned beside given vectors only if dim is given
        model.save(tmp_path / "saved", force=True)
        again = polyseme.load(tmp_path / "saved")
        np.testing.assert_array_equal(again.encode(["a b", "", "z"]), model.encode(["a b", "", "z"]))


def dialogues(n: int, path) -> str:
    random = np.random.default_rng(0)
    lines = []
    for _ in range(n):
        kind = random.choice(list(QUESTIONS))
        ask = random.choice([f"{kind} do you mean", f"please tell me {kind}", f"so {kind} then"])
        lines.append(f"{ask}\nthe {random.choice(QUESTIONS[kind])} of course\n")
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_the_vector_of_a_turn_is_as_long_as_asked(tmp_path):
    data = {"dialogues": dialogues(12, tmp_path / "d.txt")}
    options = {"encoder": "bilstm-max", "dim": 4, "epochs": 1, "batch_size": 8, "threads": 1}
    assert polyseme.train("conversation", data, hidden=6, **options).dim == 6
    with pytest.raises(OptionError, match="hidden must be even, half of it for each direction, not 7"):
        polyseme.train("conversation", data, hidden=7, **options)


def test_turns_with_the_same_answers_become_alike(tmp_path):
    data = {"dialogues": dialogues(300, tmp_path / "d.txt")}
    options = {"dim": 16, "hidden": 16, "epochs": 12, "batch_size": 30, "lr": 0.01, "threads": 1}
    model = polyseme.train("conversation", data, **options)
    assert model.about.curve[-1]["answers_found"] > 0.05
    alike = model.similarity(["where do you mean"], ["please tell me where", "please tell me when"])[0]
    assert alike[0] > alike[1]
    answers = ["the park of course", "the noon of course", "the li of course"]
    scores = model.answer_scores(["where do you mean", "so when then", "please tell me who"], answers)
    assert scores.argmax(axis=1).tolist() == [0, 1, 2]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "m").encode_answers(answers), model.encode_answers(answers))
    assert model.encode_answers([]).shape == (0, 16)


def test_pairs_join_in_and_both_are_learned(tmp_path):
    rows = [(f"the {a} sleeps", f"a {b} sleeps", "same" if a == b else "other") for a in "xyz" for b in "xyz"] * 6
    data = {"dialogues": dialogues(60, tmp_path / "d.txt"), "nli": Examples.of(rows)}
    model = polyseme.train("conversation", data, dim=8, hidden=8, classifier=8, epochs=1, batch_size=16, threads=1)
    assert np.isfinite(model.encode(["where do you mean", "the x sleeps"])).all()
    with pytest.raises((OptionError, TrainingError), match="dialogues"):
        polyseme.train("conversation", {"nli": Examples.of(rows)})


def test_equal_answers_are_no_false_candidates(tmp_path):
    from polyseme.sentences.conversation import AnswerNet, AnswerTask, Conversation, turns_of
    from polyseme.sentences.options import ConversationOptions
    from polyseme.store.model import About

    (tmp_path / "d.txt").write_text("hello there\nok\n\nhow are you\nok\n\nbye now\nsee you\n", encoding="utf-8")
    turns = turns_of(Corpus.build(tmp_path / "d.txt"))
    assert turns.answered.tolist() == [0, 2, 4]
    options = ConversationOptions(dim=4, hidden=4, hold_out=0.0)
    encoder = Conversation.of(turns.texts, [], About(), options)
    task = AnswerTask(AnswerNet(encoder.net.eval(), encoder.dim, 1), encoder.prepare(turns.texts), turns, options)
    scores = task._scores(task.module, np.array([0, 2, 4]))
    assert torch.isinf(scores).int().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
