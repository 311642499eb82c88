"""Encoders among others: sentence-transformers' evaluators and folders, scikit-learn's pipelines."""

from __future__ import annotations

import numpy as np
import pytest
import sentence_transformers
import torch
from scipy.stats import spearmanr
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
)
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import polyseme
from polyseme.arrays import unit_rows
from polyseme.errors import OptionError
from polyseme.sentences.files.static_embedding import write_static_embedding
from polyseme.sentences.lift import lift
from polyseme.store.model import About
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

WORDS = ["the", ".", "cat", "dog", "don't", "sleeps", "3.14", "u.s.", "a", "b", ",", "music", "猫", "睡觉"]
TEXTS = [
    "The cat sleeps.", "the dog, the DOG!", "I don't know the U.S. 3.14", "", "abc ab ba", "unknown words only",
    "music a,b", "cat " * 50,
]  # fmt: skip


def words(**cut):
    vectors = np.random.default_rng(1).normal(size=(len(WORDS), 6)).astype(np.float32)
    about = About(segmentation=Segmentation(case="lower", **cut))
    return WordVectors(Vocabulary(WORDS, np.arange(len(WORDS), 0, -1)), vectors, about=about)


@pytest.fixture(scope="module")
def encoder():
    return lift(words(), "sentences")


def test_sentence_transformers_evaluators_take_an_encoder_as_a_model(encoder):
    first, second = TEXTS[:5], ["the cat", "a dog", "music", "b", "the dog sleeps"]
    gold = [1.0, 0.8, 0.1, 0.3, 0.6]
    found = EmbeddingSimilarityEvaluator(first, second, gold, write_csv=False)(encoder)
    cosines = [float(encoder.similarity([a], [b])[0, 0]) for a, b in zip(first, second, strict=True)]
    assert found["spearman_cosine"] == pytest.approx(spearmanr(gold, cosines).statistic)
    queries, corpus = {"q": "the cat"}, {"x": "The cat.", "y": "music"}
    retrieved = InformationRetrievalEvaluator(queries, corpus, {"q": {"x"}}, write_csv=False, accuracy_at_k=[1])(
        encoder
    )
    assert retrieved["cosine_accuracy@1"] == 1


def test_mteb_evaluates_an_encoder(encoder):
    mteb, datasets = pytest.importorskip("mteb"), pytest.importorskip("datasets")
    first, second = TEXTS[:3], ["the cat", "a dog", "music"]
    gold = [1.0, 0.5, 0.0]
    unstated = (
        "reference date domains task_subtypes license annotations_creators dialect sample_creation bibtex_citation"
    )

    class Pairs(mteb.abstasks.AbsTaskSTS):
        metadata = mteb.abstasks.task_metadata.TaskMetadata(
            name="Pairs", description="Three pairs.", dataset={"path": "none", "revision": "1"}, type="STS",
            category="t2t", modalities=["text"], eval_splits=["test"], eval_langs=["eng-Latn"],
            main_score="cosine_spearman", **dict.fromkeys(unstated.split()),
        )  # fmt: skip
        min_score, max_score = 0, 1

        def load_data(self, **_):
            rows = {"sentence1": first, "sentence2": second, "score": gold}
            self.dataset, self.data_loaded = {"test": datasets.Dataset.from_dict(rows)}, True

    found = mteb.evaluate(encoder, [Pairs()], cache=None).task_results[0].scores["test"][0]
    cosines = encoder.similarity_pairwise(first, second)
    assert found["cosine_pearson"] == pytest.approx(np.corrcoef(cosines, gold)[0, 1], abs=1e-5)


def test_encode_takes_the_arguments_of_sentence_transformers_and_batches_of_mteb(encoder):
    plain = encoder.encode(TEXTS)
    unit = encoder.encode(TEXTS, batch_size=2, normalize_embeddings=True, show_progress_bar=False, device="cpu")
    np.testing.assert_allclose(unit, unit_rows(plain), atol=1e-6)
    tensor = encoder.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), plain)
    np.testing.assert_array_equal(encoder.encode(TEXTS, prompt="cat "), encoder.encode([f"cat {t}" for t in TEXTS]))
    np.testing.assert_array_equal(encoder.encode(TEXTS, truncate_dim=2), plain[:, :2])
    batches = [{"text": TEXTS[:3]}, {"text": TEXTS[3:]}]
    np.testing.assert_array_equal(encoder.encode(batches, task_name="STS", prompt_type=None), plain)
    np.testing.assert_array_equal(encoder.similarity(plain, tensor), encoder.similarity(TEXTS, TEXTS))
    pairs = encoder.similarity_pairwise(TEXTS, TEXTS[::-1])
    np.testing.assert_allclose(pairs, np.diag(encoder.similarity(TEXTS, TEXTS[::-1])), atol=1e-6)
    with pytest.raises(OptionError, match="float32"):
        encoder.encode(TEXTS, precision="int8")


def test_encode_gives_the_types_of_sentence_transformers(tmp_path):
    write_static_embedding(lift(words(), "sentences"), tmp_path / "st")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu", local_files_only=True)
    ours, known = polyseme.load(tmp_path / "st"), ["the cat", "a dog", "music"]
    for how in ({}, {"convert_to_numpy": False}, {"convert_to_tensor": True}, {"output_value": "sentence_embedding"}):
        one, other = ours.encode(known, **how), theirs.encode(known, **how)
        assert type(one) is type(other)
        assert [type(row) for row in one] == [type(row) for row in other]
        np.testing.assert_allclose(np.stack([np.asarray(row) for row in one]), np.stack(list(other)), atol=1e-6)


@pytest.mark.parametrize(
    "option",
    [
        {"output_value": "token_embeddings"}, {"output_value": None}, {"prompt_name": "query"}, {"precision": "int8"},
        {"device": "cuda"}, {"device": ["cpu", "cpu"]}, {"batch_size": 0}, {"batch_size": "x"}, {"truncate_dim": 0},
        {"truncate_dim": 7}, {"unknown": "skip"},
    ],
)  # fmt: skip
def test_what_encode_cannot_give_is_an_error_in_one_line(option, encoder):
    with pytest.raises(OptionError) as error:
        encoder.encode(["the cat"], **option)
    name = next(iter(option))
    assert {"device": "CPU", "precision": "float32", "prompt_name": "prompt="}.get(name, name) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_misspelt_argument_is_an_error_that_names_it(encoder):
    for ask in (encoder.encode, encoder.encode_query, encoder.encode_document):
        with pytest.raises(TypeError, match="normalise_embeddings"):
            ask(["the cat"], normalise_embeddings=True)


def test_a_text_without_a_known_word_is_told_and_may_be_nan_or_an_error(encoder, caplog):
    vectors = encoder.encode(TEXTS)
    assert [message for message in caplog.messages if "3 of 8 texts" in message]
    assert [i for i, vector in enumerate(vectors) if not vector.any()] == [3, 4, 5]
    marked = encoder.encode(iter(TEXTS), unknown="nan", normalize_embeddings=True)
    assert [i for i, vector in enumerate(marked) if np.isnan(vector).all()] == [3, 4, 5]
    np.testing.assert_allclose(marked[[0, 1]], unit_rows(vectors[[0, 1]]), atol=1e-6)
    with pytest.raises(OptionError, match="text 1 has no word that the model knows: 'unknown'"):
        encoder.encode(["the cat", "unknown"], unknown="error")
    caplog.clear()
    encoder.encode(["the cat"])
    assert not caplog.messages


def test_mteb_knows_models_apart(encoder):
    pytest.importorskip("mteb")
    other = lift(words(), "sentences", pool="max")
    again = lift(words(), "sentences")
    assert encoder.mteb_model_meta.name.startswith("polyseme/pooled-")
    for field in ("name", "revision"):
        first, second, third = (getattr(one.mteb_model_meta, field) for one in (encoder, other, again))
        assert first == third != second


@pytest.mark.parametrize("pool", ["mean", "sif"])
def test_pooled_word_vectors_are_read_by_sentence_transformers_to_equal_vectors(pool, tmp_path):
    for name, cut, texts in (
        ("english", {}, TEXTS),
        ("spaces", {"method": "space"}, ["猫 睡觉", "the 猫 , 不知道", ""]),
    ):
        model = lift(words(**cut), "sentences", pool=pool)
        write_static_embedding(model, tmp_path / name)
        theirs = sentence_transformers.SentenceTransformer(str(tmp_path / name), device="cpu", local_files_only=True)
        np.testing.assert_allclose(theirs.encode(texts), model.encode(texts), atol=1e-5)
        np.testing.assert_allclose(polyseme.load(tmp_path / name).encode(texts), model.encode(texts), atol=1e-5)


@pytest.mark.parametrize("method", ["auto", "jieba"])
def test_raw_chinese_is_cut_into_words_by_sentence_transformers(method, tmp_path):
    vocabulary = [
        "我们",
        "喜欢",
        "音乐",
        "，",
        "的",
        "在",
        "图书馆",
        "看书",
        "DNA",
        "3.14",
        "a",
        "我",
        "们",
        "看",
        "书",
    ]
    vectors = np.random.default_rng(2).normal(size=(len(vocabulary), 6)).astype(np.float32)
    counts = np.array([900, 500, 400, 2000, 3000, 1500, 80, 90, 30, 20, 10, 200, 1, 100, 50])
    order = np.argsort(-counts, kind="stable")
    about = About(segmentation=Segmentation(method))
    table = WordVectors(Vocabulary([vocabulary[i] for i in order], counts[order]), vectors, about=about)
    ours = lift(table, "sentences")
    write_static_embedding(ours, tmp_path / "st")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu", local_files_only=True)
    known = ["我们喜欢音乐，", "我们在图书馆看书", "我们的DNA，3.14 a", "ＤＮＡ"]
    np.testing.assert_allclose(theirs.encode(known), ours.encode(known), atol=1e-5)
    unknown = ["我们喜欢abc", "喜欢龘龘的音乐"]  # as long as their unknown parts count, of the same direction
    np.testing.assert_allclose(unit_rows(theirs.encode(unknown)), unit_rows(ours.encode(unknown)), atol=1e-5)
    both = known + unknown
    np.testing.assert_allclose(polyseme.load(tmp_path / "st").encode(both), theirs.encode(both), atol=1e-5)


def test_poolings_that_are_no_mean_of_rows_are_refused(tmp_path):
    with pytest.raises(OptionError, match="mean or sif"):
        write_static_embedding(lift(words(), "sentences", pool="max"), tmp_path / "st")


def test_an_encoder_is_a_step_of_a_pipeline(encoder, fifty_lines):
    tfidf = polyseme.train("tfidf", polyseme.Corpus.from_sentences(fifty_lines))
    labels = ["看书" in line for line in fifty_lines]
    for step in (tfidf, encoder):
        np.testing.assert_array_equal(clone(step).encode(TEXTS), step.encode(TEXTS))  # it has learned what it knows
    fitted = make_pipeline(tfidf, LogisticRegression()).fit(fifty_lines, labels)
    assert fitted.score(fifty_lines, labels) == 1
    expected = LogisticRegression().fit(tfidf.encode_sparse(fifty_lines), labels)
    np.testing.assert_array_equal(fitted.predict(fifty_lines), expected.predict(tfidf.encode_sparse(fifty_lines)))
    np.testing.assert_array_equal(make_pipeline(encoder).fit_transform(TEXTS), encoder.encode(TEXTS))
