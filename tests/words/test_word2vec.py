"""word2vec: what it learns, which vectors it returns, interruption and further training."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
from tests.processes import run_program

import polyseme
from polyseme.errors import OptionError, TrainingError, used_as
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run
from polyseme.words.fasttext_classifier import SupervisedOptions, train_supervised
from polyseme.words.word2vec import Word2VecOptions, with_passes

SMALL = {"dim": 16, "epochs": 3, "min_count": 1, "seed": 7, "threads": 1, "sample": 0.0}


@pytest.mark.parametrize("loss", ["negative", "hierarchical"])
@pytest.mark.parametrize("architecture", ["skipgram", "cbow"])
@pytest.mark.parametrize("threads", [1, 2])
def test_words_of_one_topic_come_together_and_the_loss_falls(topics, topic_margin, architecture, loss, threads):
    options = {**SMALL, "epochs": 8, "lr": 0.1, "threads": threads}
    model = polyseme.train("word2vec", topics, architecture=architecture, loss=loss, **options)
    assert topic_margin(model) > 0.3
    losses = [record["loss"] for record in model.about.curve]
    assert len(losses) == 8
    assert losses[-1] < losses[0]


def test_the_four_kinds_of_vectors(topics):
    models = {
        kind: polyseme.train("word2vec", topics, vectors=kind, **SMALL) for kind in ("input", "output", "sum", "concat")
    }
    a, b = models["input"].vectors, models["output"].vectors
    assert not np.array_equal(a, b)
    np.testing.assert_array_equal(models["sum"].vectors, a + b)
    np.testing.assert_array_equal(models["concat"].vectors, np.hstack([a, b]))
    np.testing.assert_array_equal(models["sum"].input, a)


def test_a_hierarchical_model_has_no_output_vectors(topics):
    with pytest.raises(OptionError, match="predicts tree nodes"):
        polyseme.train("word2vec", topics, loss="hierarchical", vectors="sum", **SMALL)


class Stop(Exception):
    """Raised by a Progress to stop the training."""


def stop_at(epoch, error):
    def progress(what, done, total, /, **facts):
        if what == "training" and facts["epoch"] == epoch:
            raise error

    return progress


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Stop()])
def test_an_interrupted_training_goes_on_to_the_same_bits(topics, tmp_path, error):
    whole = polyseme.train("word2vec", topics, **SMALL)
    before = threading.active_count()
    with pytest.raises(type(error)):
        polyseme.train("word2vec", topics, out=tmp_path / "m", progress=stop_at(3, error), **SMALL)
    assert threading.active_count() == before
    resumed = polyseme.train("word2vec", topics, out=tmp_path / "m", resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.input, whole.input)
    np.testing.assert_array_equal(resumed.output, whole.output)
    assert [r["loss"] for r in resumed.about.curve] == [r["loss"] for r in whole.about.curve]


KILLED = """
import os, signal, sys, polyseme
def progress(what, done, total, /, **facts):
    if what == "training" and facts["epoch"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
polyseme.train("word2vec", polyseme.Corpus.open(sys.argv[1]), out=sys.argv[2], progress=progress,
               dim=16, epochs=3, min_count=1, seed=7, threads=1, sample=0.0)
"""


def test_a_killed_training_loses_no_more_than_the_epoch_it_was_in(topics, tmp_path):
    done = run_program(KILLED, topics.path, tmp_path / "m", imports=["polyseme.words.word2vec"])
    assert done.returncode == -signal.SIGKILL
    seen = []

    def progress(what, done, total, /, **facts):
        seen.extend([facts["epoch"]] if what == "training" else [])

    resumed = polyseme.train("word2vec", topics, out=tmp_path / "m", resume=True, progress=progress, **SMALL)
    assert set(seen) == {3}
    np.testing.assert_array_equal(resumed.input, polyseme.train("word2vec", topics, **SMALL).input)


def test_progress_tells_words_per_second_and_ends_at_the_end(topics):
    heard = []
    polyseme.train("word2vec", topics, progress=lambda *place, **facts: heard.append((place, facts)), **SMALL)
    assert heard[0][0][0].startswith("preparing")  # which compiles, and may take longer than the training
    (what, done, total), facts = heard[-1]
    assert (what, done, total) == ("training", 3 * topics.n_tokens, 3 * topics.n_tokens)
    assert facts["words_per_second"] > 0
    assert facts["loss"] > 0


@pytest.mark.parametrize("method", ["glove", "fasttext", "nnlm", "polyglot"])
def test_other_methods_go_on_from_the_input_vectors_of_concatenated_ones(topics, method):
    old = polyseme.train("word2vec", topics, vectors="concat", **SMALL)
    new = polyseme.train(method, topics, start=old, dim=16, min_count=1, epochs=1, lr=1e-9, threads=1)
    rows = new.subwords.own if method == "fasttext" else getattr(new, "input", new.vectors)
    np.testing.assert_allclose(rows[new.key_to_index["猫"]], old.input[old.key_to_index["猫"]], atol=1e-4)


@pytest.mark.parametrize("method", ["word2vec", "glove", "wordrank"])
def test_words_go_on_from_a_classifier_whose_outputs_are_labels(topics, method):
    labels = [str(number % 2) for number in range(topics.n_sentences)]
    old = train_supervised(list(topics), labels, SupervisedOptions(dim=8, epochs=1), Run())
    new = polyseme.train(method, topics, start=old, dim=8, min_count=1, epochs=1, lr=1e-9, threads=1)
    np.testing.assert_allclose(new.input[new.key_to_index["猫"]], old["猫"], atol=1e-4)


def test_further_training_adds_new_words_and_keeps_old_ones(topics):
    old = polyseme.train("word2vec", topics, **SMALL)
    more = Corpus.from_sentences([["猫", "老虎", "狗", "老虎"], ["老虎", "的", "猫"]] * 5)
    new = polyseme.train("word2vec", more, start=old, **{**SMALL, "lr": 1e-7})
    assert set(new.index_to_key) == {*old.index_to_key, "老虎"}
    for word in old.index_to_key:
        np.testing.assert_allclose(new[word], old[word], atol=1e-4)
    counts = dict(zip(new.index_to_key, new.vocabulary.counts.tolist(), strict=True))
    before = dict(zip(old.index_to_key, old.vocabulary.counts.tolist(), strict=True))
    assert counts["老虎"] == 15
    assert counts["猫"] == before["猫"] + 10
    assert counts["一"] == before["一"]
    assert (np.diff(new.vocabulary.counts) <= 0).all()


def test_further_training_learns_where_the_new_words_belong(topics):
    old = polyseme.train("word2vec", topics, **{**SMALL, "epochs": 8, "lr": 0.1})
    more = Corpus.from_sentences([["老虎", "猫", "狗", "老虎", "鱼"], ["鸟", "老虎", "马", "猫"]] * 40)
    new = polyseme.train("word2vec", more, start=old, **{**SMALL, "lr": 0.1})
    assert new.similarity("老虎", "猫") > new.similarity("老虎", "三") + 0.3


def test_a_start_of_another_length_is_refused(topics):
    old = polyseme.train("word2vec", topics, **SMALL)
    with pytest.raises(TrainingError, match="dim=16"):
        polyseme.train("word2vec", topics, start=old, **{**SMALL, "dim": 8})


@pytest.mark.parametrize(
    ("sentences", "options", "words"),
    [
        ([["猫"] * 9] * 9, {}, "needs two"),
        ([["猫", "狗"]], {"min_count": 2}, "give more text, or min_count=1"),
        ([["猫"], ["狗"]], {}, "in the same sentence"),
        ([["猫", "狗"] * 9] * 9, {"lr": 1000}, "lower lr"),
    ],
    ids=["one word", "none frequent", "never together", "diverging"],
)
def test_what_cannot_be_trained_is_told_in_one_line(sentences, options, words):
    with pytest.raises(TrainingError, match=words) as error:
        polyseme.train("word2vec", Corpus.from_sentences(sentences), **{**SMALL, **options})
    assert "\n" not in str(error.value)


def test_advice_names_the_flag_of_the_command():
    with used_as("command"), pytest.raises(TrainingError, match="give more text, or --min-count 1"):
        polyseme.train("word2vec", Corpus.from_sentences([["猫", "狗"]]), **{**SMALL, "min_count": 2})


def test_a_vocabulary_of_two_words_has_one_negative_and_trains():
    model = polyseme.train("word2vec", Corpus.from_sentences([["猫", "狗"] * 20]), **SMALL)
    assert np.isfinite(model.vectors).all()


def test_a_sentence_longer_than_the_work_area_is_trained_in_pieces():
    words = np.random.default_rng(0).integers(0, 50, 30_000)
    model = polyseme.train("word2vec", Corpus.from_sentences([[f"w{i}" for i in words]]), **{**SMALL, "epochs": 1})
    assert model.about.curve[0]["loss"] < 6 * np.log(2) + 0.01
    assert len(model) == 50


def test_a_further_training_goes_on_from_the_same_model_only(topics, tmp_path):
    old = polyseme.train("word2vec", Corpus.from_sentences([["老虎", "狮子"]] * 9), **SMALL)
    whole = polyseme.train("word2vec", topics, start=old, **SMALL)
    with pytest.raises(Stop):
        polyseme.train("word2vec", topics, out=tmp_path / "m", start=old, progress=stop_at(3, Stop()), **SMALL)
    with pytest.raises(TrainingError, match="model to train further"):
        polyseme.train("word2vec", topics, out=tmp_path / "m", resume=True, **SMALL)
    resumed = polyseme.train("word2vec", topics, out=tmp_path / "m", start=old, resume=True, **SMALL)
    np.testing.assert_array_equal(resumed.input, whole.input)


def test_an_interrupted_training_goes_on_with_other_threads_but_no_other_options(topics, tmp_path):
    with pytest.raises(Stop):
        polyseme.train("word2vec", topics, out=tmp_path / "m", progress=stop_at(3, Stop()), **SMALL)
    with pytest.raises(TrainingError, match="window was 5 and is 4"):
        polyseme.train("word2vec", topics, out=tmp_path / "m", resume=True, window=4, **SMALL)
    epochs = []
    polyseme.train(
        "word2vec",
        topics,
        out=tmp_path / "m",
        resume=True,
        progress=lambda what, done, total, /, **facts: epochs.append(facts.get("epoch")),
        **{**SMALL, "threads": 2},
    )
    assert {*epochs} == {None, 3}  # the first two epochs are not trained again
    opened = polyseme.load(tmp_path / "m")
    assert opened.options.threads == 2
    assert [record["epoch"] for record in opened.about.curve] == [1, 2, 3]


def test_resuming_without_a_checkpoint_is_told(topics, tmp_path, caplog):
    polyseme.train("word2vec", topics, out=tmp_path / "m", resume=True, **SMALL)
    assert "starts from the beginning" in caplog.text


def test_a_short_text_is_read_more_often(topics):
    assert polyseme.train("word2vec", topics, min_count=1, dim=8, threads=1, epochs=2).options.epochs == 2
    assert polyseme.train("word2vec", topics, min_count=1, dim=8, threads=1).options.epochs == 30
    for n_words, passes in ((1_000_000, 15), (3_000_000, 5), (100_000_000, 5)):
        assert with_passes(Word2VecOptions(), n_words).epochs == passes
