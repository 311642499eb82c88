"""Classify: every head over every kind of encoder learns, is saved and loaded, and answers the same."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import torch

import polyseme
from polyseme.api import options_of
from polyseme.cli.flags import option_flags
from polyseme.data.examples import Examples
from polyseme.errors import OptionError, PolysemeError, TrainingError
from polyseme.interfaces import ContextEncoder, EncodedSentence
from polyseme.learn.goals import class_weights
from polyseme.learn.token_vectors import FixedVectors
from polyseme.tasks.options import CLASSIFY_HEADS, ClassifyOptions, head_options

SMALL = {
    "textcnn": {"filters": "2x8 3x8", "lr": 0.01},
    "linear": {"lr": 0.02},
    "mlp": {"hidden": 16, "lr": 0.02},
    "dan": {"hidden": 16, "lr": 0.01},
    "dcnn": {"filters": "3x2 2x4", "k_top": 2, "lr": 0.01},
    "rnn": {"hidden": 8, "lr": 0.02},
    "bilstm-max": {"hidden": 8, "lr": 0.01},
    "self-attention": {"hidden": 8, "rows": 2, "lr": 0.01},
    "han": {"hidden": 8, "lr": 0.02},
    "fasttext": {"dim": 8},
}


def fitted(train: Examples, head: str, **options: object):
    known = {"threads": 1, "epochs": 10, **SMALL[head], **options}
    if head != "fasttext":
        known.setdefault("batch_size", 8)
    return polyseme.fit("classify", train, head=head, **known)


@pytest.mark.parametrize("head", sorted({*CLASSIFY_HEADS} - {"ulmfit"}))  # which takes a language model
def test_every_head_learns_and_answers_the_same_when_loaded(head, texts, other_texts, tmp_path):
    model = fitted(texts, head)
    assert model.score(other_texts).figures["accuracy"] >= 0.9
    odd = ["", "。", "从未见过的话", "很" * 300, *[row.text for row in other_texts]]
    before = model.probabilities(odd)
    assert before.shape == (len(odd), 2)
    np.testing.assert_allclose(before.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(model.probabilities(odd[3:4])[0], before[3], atol=1e-5)
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    assert again.options == model.options
    np.testing.assert_array_equal(again.probabilities(odd), before)
    prediction = again.predict(["服务很热情。"])[0]
    assert prediction.label == "good"
    assert prediction.probability == max(prediction.probabilities.values())


@pytest.mark.parametrize("head", ["linear", "textcnn", "bilstm-max"])
@pytest.mark.parametrize("mode", ["frozen", "finetune", "multichannel"])
def test_given_word_vectors_know_words_that_training_did_not_have(head, mode, texts, vectors, tmp_path):
    train = Examples.of([row for row in texts if "满意" not in row.text and "失望" not in row.text])
    model = polyseme.fit(
        "classify", train, encoder=vectors, head=head, encoder_mode=mode, threads=1, batch_size=8, lr=0.03,
        epochs=15, patience=0,
        **({"filters": "2x8"} if head == "textcnn" else {"hidden": 8} if head == "bilstm-max" else {}),
    )  # fmt: skip
    unseen = ["房间很满意。", "早餐很失望。"]
    assert [prediction.label for prediction in model.predict(unseen)] == ["good", "bad"]
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "m").probabilities(unseen), model.probabilities(unseen))


def test_labels_in_parts_are_answered_in_fewer_with_the_sum_of_their_probabilities(texts, vectors, tmp_path):
    finer = [(row.text, f"{row.label}:{'room' if '房间' in row.text else 'other'}") for row in texts]
    written(tmp_path / "finer.tsv", finer)
    model = polyseme.fit("classify", Examples.of(finer), encoder=vectors, head="linear", threads=1, epochs=3)
    unseen = ["房间很满意。", "早餐很失望。", ""]
    whole = model.probabilities(unseen)
    assert model.labels == ["bad:other", "bad:room", "good:other", "good:room"]
    model.with_label_parts(1).save(tmp_path / "m")
    coarse = polyseme.load(tmp_path / "m")
    assert coarse.labels == ["bad", "good"]
    np.testing.assert_allclose(coarse.probabilities(unseen), [[p[0] + p[1], p[2] + p[3]] for p in whole], rtol=1e-6)
    gold = [label.partition(":")[0] for _, label in finer]
    expected = np.mean([p.label == label for p, label in zip(coarse.predict([t for t, _ in finer]), gold, strict=True)])
    for one in (model, coarse):  # the whole model answers as the file is read
        report = one.score(one.examples(tmp_path / "finer.tsv", label_parts=1))
        assert report.labels == ["bad", "good"]
        assert report.figures["accuracy"] == pytest.approx(expected)
    assert coarse.score(coarse.examples(tmp_path / "finer.tsv")).figures["accuracy"] == pytest.approx(expected)


def written(path, rows):
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")


class CountingEncoder(ContextEncoder):
    """An encoder with two layers of artificial vectors, which counts the tokens it encodes."""

    dim, n_layers = 6, 2

    def __init__(self, vectors) -> None:
        self.vectors, self.tokens = vectors, 0

    def tokenize(self, text: str) -> list[str]:
        return self.vectors.tokenize(text)

    def encode_tokens(self, sentences: Iterable, *, layers: str | int = "all") -> Iterator[EncodedSentence]:
        for tokens in self.token_lists(sentences):
            self.tokens += len(tokens)
            plane = self.vectors.lookup(tokens)[:, :6]
            planes = np.stack([np.zeros_like(plane), plane])
            yield EncodedSentence(tokens, planes if layers == "all" else planes[1:])


@pytest.mark.parametrize("at", ["input", "hidden", "both"])
def test_a_frozen_encoder_runs_once_and_its_layers_are_mixed_where_they_enter(at, texts, vectors):
    encoder = CountingEncoder(vectors)
    model = polyseme.fit(
        "classify", texts, encoder=encoder, head="bilstm-max", elmo_at=at, hidden=8, threads=1, lr=0.02, epochs=5
    )
    assert encoder.tokens == sum(len(texts.segmentation.tokens(row.text)) for row in texts)
    assert model.score(texts).figures["accuracy"] >= 0.9
    sums = model.encoder.inputs.sources[-1].module
    assert (sums.dim, sums.beside) == {"input": (6, 0), "hidden": (0, 6), "both": (6, 6)}[at]
    assert model.encoder.dim == 16 + sums.beside


@pytest.mark.parametrize("toward", ["zero", "uniform"])
def test_the_penalty_on_the_mixed_layers_is_that_of_elmo_s_program_or_of_the_article(toward, texts, vectors):
    model = polyseme.fit(
        "classify", texts, encoder=CountingEncoder(vectors), head="bilstm-max", hidden=8, threads=1, epochs=0,
        mix_penalty=0.3, toward=toward,
    )  # fmt: skip
    inputs = model.encoder.inputs.module
    weights = np.array([0.7, -1.1])
    inputs.sources[-1].mixes[0].scalars.data[:] = torch.from_numpy(weights)
    shares = np.exp(weights) / np.exp(weights).sum()
    expected = {"zero": 0.3 * (weights**2).sum(), "uniform": 0.3 * ((shares - 1 / 2) ** 2).sum()}[toward]
    assert inputs.penalty().item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("options", "learn"), [({}, True), ({"dim": 8}, False), ({"encoder_mode": "frozen"}, False)])
def test_given_word_vectors_learn_unless_they_stand_beside_learned_ones(options, learn, texts, vectors):
    model = polyseme.fit("classify", texts, encoder=vectors, head="dan", threads=1, epochs=1, hidden=8, **options)
    (source,) = [one for one in model.encoder.inputs.sources if isinstance(one, FixedVectors)]
    assert (source.learned is not None) == learn


def test_a_layer_pools_and_learns_words_as_it_is_told(texts, vectors):
    wide = polyseme.fit("classify", texts, encoder=vectors, head="linear", dim=5, threads=1, epochs=1)
    assert wide.encoder.dim == 5 + 8
    alone = polyseme.fit("classify", texts, encoder=vectors, head="linear", pool="max", threads=1, epochs=1)
    assert alone.encoder.options.pool == "max"
    with pytest.raises(OptionError, match="pool=max is for the vectors of one frozen encoder"):
        polyseme.fit("classify", texts, encoder=CountingEncoder(vectors), head="linear", pool="max")  # mixes its layers


def test_heads_without_hidden_states_refuse_an_encoder_there(texts, vectors):
    with pytest.raises(OptionError, match="textcnn has no hidden states"):
        polyseme.fit("classify", texts, encoder=CountingEncoder(vectors), head="textcnn", elmo_at="hidden")


def test_attention_says_which_words_counted(texts, other_texts):
    model = fitted(texts, "self-attention", epochs=15)
    for (tokens, weights), row in zip(model.attention([row.text for row in other_texts]), other_texts, strict=True):
        assert "".join(tokens) == row.text
        assert weights.sum() == pytest.approx(1, abs=1e-5)
    with pytest.raises(OptionError, match="has no word weights"):
        fitted(texts, "dan", epochs=1).attention(["房间"])


def test_train_keeps_the_encoder_of_the_same_training(texts):
    options = {"filters": "2x8", "threads": 1, "epochs": 2, "batch_size": 8}
    encoder = polyseme.train("textcnn", texts, **options)
    model = polyseme.fit("classify", texts, head="textcnn", **options)
    lines = [row.text for row in texts]
    np.testing.assert_array_equal(encoder.encode(lines), model.encoder.encode(lines))


def test_an_encoder_of_another_training_stands_frozen_under_a_layer(texts, other_texts, tmp_path):
    encoder = polyseme.train("dan", texts, threads=1, epochs=2, hidden=8)
    before = encoder.encode(["房间很干净。"])
    model = polyseme.fit("classify", texts, encoder=encoder, head="linear", threads=1, epochs=3, lr=0.05)
    assert np.array_equal(model.encoder.encode(["房间很干净。"]), before)
    model.save(tmp_path / "m")
    rows = [row.text for row in other_texts]
    assert np.array_equal(polyseme.load(tmp_path / "m").probabilities(rows), model.probabilities(rows))


def test_balanced_weights_make_classes_count_alike():
    targets = np.array([0, 0, 0, 1])
    weights = class_weights(targets, 3, "balanced")
    np.testing.assert_allclose(weights, [4 / 6, 4 / 2, 0])
    assert class_weights(targets, 3, "none") is None


def test_odd_labels_are_told_with_their_row_and_nothing_is_lost(texts, caplog):
    rows = [*texts, ("房间很大。", "unique")]
    dev = Examples.of([("服务很冷淡。", "bad"), ("前台很好看。", "pretty")])
    with caplog.at_level(logging.WARNING):
        model = polyseme.fit("classify", Examples.of(rows), dev, head="dan", hidden=8, epochs=1, threads=1)
    assert "the label 'unique' has one example (row 61)" in caplog.text
    assert "the label 'pretty' is not in the training examples (1 rows, first row 2)" in caplog.text
    assert model.labels == ["bad", "good", "unique"]
    report = model.score(dev)
    assert report.n == 2
    assert report.figures["accuracy"] <= 0.5


def test_folds_score_every_text_once_and_seeds_differ(texts):
    from polyseme.api import plan_fit
    from polyseme.tasks.fit import mean_and_deviation
    from polyseme.training.run import Run

    plan = plan_fit("classify", texts, head="dan", hidden=8, epochs=2, threads=1, batch_size=8)
    reports = list(plan.folds(3, Run()))
    assert sum(report.n for report in reports) == len(texts)
    values = [report.figures["accuracy"] for report in reports]
    mean, deviation = mean_and_deviation(reports)
    assert mean["accuracy"] == pytest.approx(np.mean(values))
    assert deviation["accuracy"] == pytest.approx(np.std(values, ddof=1))
    one, other = (model for model, _ in plan.seeds(2, Run()))
    assert (one.probabilities(["房间很大。"]) != other.probabilities(["房间很大。"])).any()


def test_an_interrupted_fit_goes_on_to_the_same_model(texts, tmp_path):
    options = {"head": "textcnn", "filters": "2x8", "threads": 1, "epochs": 4, "batch_size": 8}
    whole = polyseme.fit("classify", texts, **options)

    pressed = []

    def stop(what: str, done: float, total: float | None, /, **facts: object) -> None:
        if what == "training" and facts["epoch"] >= 2 and not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        polyseme.fit("classify", texts, out=tmp_path / "m", progress=stop, **options)
    assert (tmp_path / "m.checkpoint").exists()
    resumed = polyseme.fit("classify", texts, out=tmp_path / "m", resume=True, **options)
    np.testing.assert_array_equal(resumed.probabilities(["房间很大。"]), whole.probabilities(["房间很大。"]))
    assert not (tmp_path / "m.checkpoint").exists()


def test_options_belong_to_their_heads():
    options = ClassifyOptions(head="dan", n_layers=3)
    assert head_options("classify", options).n_layers == 3
    assert head_options("classify", ClassifyOptions(head="dan")).hidden == 300
    assert head_options("classify", ClassifyOptions(head="rnn")).hidden == 128
    with pytest.raises(OptionError, match=r"textcnn has no option 'rows': it is one of self-attention"):
        head_options("classify", ClassifyOptions(head="textcnn", rows=3))


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([("a", "x"), ("b", "x")], {}, "one label"),
        ([("a", 0.5), ("b", 1.7), ("c", 2.5)], {}, "numbers"),
        ([("a", "x"), ("b", "y")] * 5, {"head": "nothing"}, "head"),
        ([("a", "x"), ("b", "y")] * 5, {"metric": "bleu", "epochs": 1}, "bleu"),
    ],
)
def test_what_cannot_be_fitted_is_told_in_one_line(rows, options, words):
    with pytest.raises(PolysemeError) as error:
        polyseme.fit("classify", Examples.of(rows), threads=1, **options)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_f1_may_select_the_weights_though_held_out_texts_have_one_label(texts):
    dev = texts.subset([n for n in range(len(texts)) if texts[n].label == "good"])
    model = fitted(texts, "dan", dev=dev, metric="f1")
    assert model.score(dev).figures["f1"] > 0.9


def test_an_unknown_task_and_a_wrong_kind_are_refused(texts):
    with pytest.raises(OptionError, match="there is no task 'clasify'; did you mean 'classify'"):
        polyseme.fit("clasify", texts)
    with pytest.raises((OptionError, TrainingError)):
        polyseme.fit("classify", Examples.of([("a", "b", "x"), ("c", "d", "y")]))


@pytest.mark.parametrize("method", ["dan", "textcnn", "dcnn", "rnn", "bilstm-max", "self-attention", "han"])
def test_training_without_an_encoder_refuses_what_is_for_one(method, texts):
    with pytest.raises(OptionError, match=f"is for a given encoder, and training {method} takes none: fit classify"):
        polyseme.train(method, texts, elmo_at="both")
    shown = {flag.name for flag in option_flags(options_of(method))}
    assert "dim" in shown
    assert not shown & {"encoder_mode", "layers", "mix_penalty", "elmo_at", "lm_weight", "top_layers"}


def test_letters_alone_are_an_input_and_nothing_is_none(texts, tmp_path):
    model = polyseme.train("dan", texts, dim=0, letters=4, n_layers=0, epochs=1, threads=1)
    assert model.dim == 4
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "m").encode(["房间", ""]), model.encode(["房间", ""]))
    with pytest.raises(OptionError, match=r"there is no input: give dim more than 0$"):
        polyseme.train("dan", texts, dim=0)
