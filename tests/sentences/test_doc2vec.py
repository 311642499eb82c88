"""doc2vec: its steps against NumPy, and documents that are nearest to themselves."""

from __future__ import annotations

import numpy as np
import pytest

import polyseme
from polyseme.arrays import unit_rows
from polyseme.errors import OptionError, TrainingError
from polyseme.sentences.doc2vec import ARCHITECTURES
from polyseme.text.corpus import Corpus
from polyseme.words.kernels.documents import DBOW, DM, DM_CONCAT, Plan, train_documents
from polyseme.words.kernels.predict import Text
from polyseme.words.kernels.rows import alias_table, logistic_table, padded, random_state

TOPICS = 12
architectures = pytest.mark.parametrize("architecture", ARCHITECTURES)


def sigma(z):
    return 1 / (1 + np.exp(-z))


@pytest.fixture(scope="module")
def topics():
    """Two texts on each topic, with words of the topic and common words."""
    random = np.random.default_rng(7)

    def text(topic):
        own = [f"t{topic}w{i}" for i in random.integers(0, 15, 60)]
        common = [f"c{i}" for i in random.integers(0, 30, 40)]
        return random.permutation([*own, *common]).tolist()

    return [text(topic) for topic in range(TOPICS)], [text(topic) for topic in range(TOPICS)]


@pytest.fixture(scope="module")
def models(topics):
    corpus = Corpus.from_sentences(topics[0], documents="line")
    options = {"dim": 24, "epochs": 60, "min_count": 1, "threads": 1, "inference_epochs": 30, "sample": 0}
    return {name: polyseme.train("doc2vec", corpus, architecture=name, **options) for name in ARCHITECTURES}


@architectures
def test_a_new_text_lies_next_to_the_document_of_its_topic(models, topics, architecture):
    model = models[architecture]
    nearest = (unit_rows(model.encode(topics[1])) @ unit_rows(model.documents).T).argmax(axis=1)
    assert (nearest == np.arange(TOPICS)).mean() > 0.8
    itself = (unit_rows(model.encode(topics[0])) @ unit_rows(model.documents).T).argmax(axis=1)
    assert (itself == np.arange(TOPICS)).mean() > 0.9


@architectures
def test_a_text_s_vector_depends_on_the_text_alone_and_leaves_the_model_as_it_is(models, topics, architecture):
    model = models[architecture]
    before = {name: array.copy() for name, array in model.parts().tensors.items()}
    found = model.encode(topics[1])
    np.testing.assert_array_equal(model.encode(topics[1][::-1])[::-1], found)
    np.testing.assert_array_equal(np.stack([model.encode([text])[0] for text in topics[1]]), found)
    for name, array in model.parts().tensors.items():
        np.testing.assert_array_equal(array, before[name])
    assert not model.encode([["never"], []]).any()


def trained(plan, documents, inputs, outputs, words, lr=0.1):
    """One pass over one document with a vocabulary of three words; every other word is a negative sample."""
    text = Text(
        np.array(words, dtype=np.int32),
        np.array([0, len(words)]),
        np.full(3, 0xFFFFFFFF, dtype=np.uint32),
        np.arange(3, dtype=np.int32),
    )
    moved = [padded(*matrix.shape) for matrix in (documents, inputs, outputs)]
    for matrix, values in zip(moved, (documents, inputs, outputs), strict=True):
        matrix[:, : values.shape[1]] = values
    result = np.zeros(2)
    train_documents(
        text, 0, len(words), alias_table(np.ones(3)), plan, *moved, lr, lr, random_state(1), logistic_table(), result
    )
    return [
        matrix[:, : values.shape[1]] for matrix, values in zip(moved, (documents, inputs, outputs), strict=True)
    ], result


def test_a_new_text_sets_out_from_the_mean_of_all_documents(topics):
    corpus = Corpus.from_sentences(topics[0], documents="line")
    options = {"dim": 8, "epochs": 5, "min_count": 1, "threads": 1, "inference_epochs": 1, "inference_lr": 1e-9}
    model = polyseme.train("doc2vec", corpus, **options)
    np.testing.assert_allclose(model.encode(topics[1][:1])[0], model.documents.mean(axis=0), atol=1e-6)


@pytest.fixture
def small():
    random = np.random.default_rng(2)
    return [random.normal(size=(n, 8)).astype(np.float32) for n in (1, 3, 3)]


def test_a_step_of_dbow_is_the_formula(small):
    documents, _, outputs = small
    (moved, _, rows), result = trained(Plan(DBOW, 1, 2, 1, True), *small, words=[1])
    signs = np.array([-1, 1, -1])
    z = signs * (outputs @ documents[0])
    steps = 0.1 * signs * sigma(-z)
    np.testing.assert_allclose(moved[0], documents[0] + steps @ outputs, atol=2e-3)
    np.testing.assert_allclose(rows, outputs + np.outer(steps, documents[0]), atol=2e-3)
    assert result[0] == pytest.approx(np.log1p(np.exp(-z)).sum(), rel=0.02)


def test_a_step_of_dm_moves_the_mean_and_all_that_it_is_of(small):
    documents, inputs, outputs = (matrix.astype(np.float64) for matrix in small)
    for centre, neighbour in ((0, 2), (2, 0)):
        mean = (documents[0] + inputs[neighbour]) / 2
        signs = np.where(np.arange(3) == centre, 1, -1)
        steps = 0.1 * signs * sigma(-signs * (outputs @ mean))
        move = steps @ outputs
        outputs = outputs + np.outer(steps, mean)
        documents, inputs = documents + move, inputs + np.outer(np.arange(3) == neighbour, move)
    (moved, words, rows), _ = trained(Plan(DM, 1, 2, 1, True), *small, words=[0, 2])
    np.testing.assert_allclose(moved, documents, atol=3e-3)
    np.testing.assert_allclose(words, inputs, atol=3e-3)
    np.testing.assert_allclose(rows, outputs, atol=3e-3)


def test_a_step_of_dm_concat_keeps_each_place_of_the_window_apart(small):
    documents, inputs, _ = (matrix.astype(np.float64) for matrix in small)
    outputs = np.random.default_rng(4).normal(size=(3, 24))
    given = [small[0], small[1], outputs.astype(np.float32)]
    for centre, places in ((0, [None, 2]), (2, [0, None])):
        joined = np.concatenate([documents[0], *(np.zeros(8) if p is None else inputs[p] for p in places)])
        signs = np.where(np.arange(3) == centre, 1, -1)
        steps = 0.1 * signs * sigma(-signs * (outputs @ joined))
        move = steps @ outputs
        outputs = outputs + np.outer(steps, joined)
        documents = documents + move[:8]
        for number, place in enumerate(places):
            if place is not None:
                inputs[place] += move[8 * (number + 1) : 8 * (number + 2)]
    (moved, words, rows), _ = trained(Plan(DM_CONCAT, 1, 2, 1, True), *given, words=[0, 2])
    np.testing.assert_allclose(moved, documents, atol=3e-3)
    np.testing.assert_allclose(words, inputs, atol=3e-3)
    np.testing.assert_allclose(rows, outputs, atol=3e-3)


def test_documents_are_found_by_number_and_by_title(models, topics):
    model = models["dbow"]
    title = model.titles[3]
    assert title == " ".join(topics[0][3])[: len(title)]
    np.testing.assert_array_equal(model.document(title), model.document(3))
    assert [number for number, _, _ in model.most_similar(3, topn=4)].count(3) == 0
    assert model.most_similar(topics[1][5], topn=1)[0][:2] == (5, model.titles[5])
    for which in ("no such title", 99, -1):
        with pytest.raises(OptionError):
            model.document(which)


def test_an_empty_sentence_does_not_take_the_title_of_the_next():
    corpus = Corpus.from_sentences([["a", "b"], [], ["c", "d"]] * 9, documents="line")
    for texts in ("documents", "sentences"):
        model = polyseme.train("doc2vec", corpus, dim=4, min_count=1, epochs=1, sample=0, threads=1, texts=texts)
        assert model.titles == ["a b", "", "c d"] * 9


def test_further_training_keeps_the_documents_there_are(models, topics):
    first = models["dm"]
    more = Corpus.from_sentences([[*topics[1][0], "new"]], documents="line")
    options = {"architecture": "dm", "dim": 24, "min_count": 1, "threads": 1, "epochs": 5}
    further = polyseme.train("doc2vec", more, start=first, **options)
    np.testing.assert_array_equal(further.documents[:TOPICS], first.documents)
    assert len(further.documents) == len(further.titles) == TOPICS + 1
    assert "new" in further.vocabulary
    with pytest.raises(TrainingError, match="architecture"):
        polyseme.train("doc2vec", more, start=first, **{**options, "architecture": "dbow"})


@pytest.mark.parametrize("architecture", ["dbow", "dm-concat"])
def test_an_interrupted_training_goes_on_to_the_same_bits(topics, tmp_path, architecture):
    corpus = Corpus.from_sentences(topics[0], documents="line")
    options = {"architecture": architecture, "dim": 8, "epochs": 4, "min_count": 1, "threads": 1}

    def stop(what, done, total, /, **facts):
        if what == "training" and facts["epoch"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        polyseme.train("doc2vec", corpus, out=tmp_path / "m", progress=stop, **options)
    again = polyseme.train("doc2vec", corpus, out=tmp_path / "m", resume=True, **options)
    np.testing.assert_array_equal(again.documents, polyseme.train("doc2vec", corpus, **options).documents)
