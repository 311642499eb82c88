"""One-hot and counted rows: the numbers are those worked out by hand, the answers those of the same dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from starlette.testclient import TestClient

import polyseme
from polyseme.errors import FormatError, OptionError, TrainingError
from polyseme.evaluate.kinds import evaluate_file
from polyseme.serve.app import create_app
from polyseme.serve.library import Library, model_item
from polyseme.store.folder import Parts
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.counts import Counts
from polyseme.words.files.models import save_vectors_as
from polyseme.words.kernels import nearest as kernels_nearest
from polyseme.words.sparse import SparseRows
from polyseme.words.vectors import WordVectors

SENTENCES = [["a", "b", "a"], ["b", "c"]]
SUMS = np.array([[2.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]])  # a a, a b twice, b c; none across sentences


@pytest.fixture(scope="module")
def counts(topics: Corpus) -> Counts:
    model: Counts = polyseme.train("counts", topics, min_count=1)
    return model


@pytest.fixture(scope="module")
def dense(counts: Counts) -> WordVectors:
    """The same vectors as a dense matrix."""
    return WordVectors(counts.vocabulary, counts.vectors.matrix.toarray())


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("raw", SUMS),
        ("log", np.log(1 + SUMS)),
        ("ppmi", np.log(np.maximum(1, SUMS * 8 / np.outer([4, 3, 1], [4, 3, 1])))),
    ],
)
def test_the_cells_are_those_worked_out_by_hand(cells, expected):
    model = polyseme.train("counts", Corpus.from_sentences(SENTENCES), cells=cells, min_count=1, smoothing=1.0)
    assert model.index_to_key == ["a", "b", "c"]
    np.testing.assert_allclose(model[["a", "b", "c"]], expected, atol=1e-6)
    assert model.vectors.matrix.nnz == np.count_nonzero(expected)


def test_raw_counts_are_symmetric_and_a_row_sums_to_the_window_of_its_word(topics):
    model = polyseme.train("counts", topics, cells="raw", min_count=1, window=3)
    matrix = model.vectors.matrix
    assert abs(matrix - matrix.T).nnz == 0
    expected = dict.fromkeys(model.index_to_key, 0)
    for sentence in topics:
        for place, word in enumerate(sentence):
            expected[word] += len(sentence[max(0, place - 3) : place + 4]) - 1
    assert dict(zip(model.index_to_key, matrix.sum(axis=1), strict=True)) == expected


def test_every_pair_of_one_hot_words_is_at_a_right_angle(topics):
    model = polyseme.train("onehot", topics, min_count=1)
    rows = model[model.index_to_key]
    np.testing.assert_array_equal(rows, np.eye(len(model)))
    assert model.similarity("猫", "狗") == 0
    assert {score for _, score in model.most_similar("猫", topn=50)} == {0.0}
    assert np.linalg.norm(model["猫"] - model["狗"]) == pytest.approx(2**0.5)


def test_sparse_rows_answer_what_the_dense_matrix_answers(counts, dense, tmp_path):
    same = {"rel": 1e-5, "abs": 1e-6}
    for ask in (
        lambda wv: wv.most_similar("猫", topn=5),
        lambda wv: wv.most_similar(["猫", "一"], ["狗"], topn=4, restrict=9),
        lambda wv: wv.most_similar("猫", restrict=["狗", "二", "三"]),
        lambda wv: wv.analogy("猫", "狗", "一", topn=4),
        lambda wv: wv.analogy("猫", "狗", "一", method="mul", topn=4),
    ):
        sparse_answer, dense_answer = ask(counts), ask(dense)
        assert [word for word, _ in sparse_answer] == [word for word, _ in dense_answer]
        assert [s for _, s in sparse_answer] == pytest.approx([s for _, s in dense_answer], **same)
    assert counts.similarity("猫", "鱼") == pytest.approx(dense.similarity("猫", "鱼"), **same)
    assert counts.doesnt_match(["猫", "狗", "一"]) == dense.doesnt_match(["猫", "狗", "一"])
    analogies = tmp_path / "analogies"
    analogies.write_text(": x\n猫 狗 一 二\n鸟 鱼 三 四\n马 猫 五 一\n", encoding="utf-8")
    assert evaluate_file(counts, analogies).rows == evaluate_file(dense, analogies).rows


def test_the_server_s_search_takes_sparse_rows_too(counts, dense):
    asked = dense[["猫", "一"]] / np.linalg.norm(dense[["猫", "一"]], axis=1, keepdims=True)
    for wv in (counts, dense):
        places, cosines = kernels_nearest.nearest_rows(wv.vectors, wv.inverse_norms, asked, 4)
        assert counts.index_to_key[places[0, 0]] == "猫"
        assert cosines[:, 0] == pytest.approx([1, 1], abs=1e-6)


def test_neighbours_of_a_large_vocabulary_never_fill_its_matrix():
    from scipy.sparse import random_array

    n = 300_000  # 360 GB with all the zeros
    rows = random_array((n, n), density=5e-6, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    wv = WordVectors(Vocabulary([f"w{i}" for i in range(n)], np.ones(n)), SparseRows(rows))
    (first, cosine), *_ = wv.most_similar("w7", topn=3)
    exact = rows @ rows[[7]].toarray().ravel() * wv.inverse_norms * wv.inverse_norms[7]
    exact[7] = -1
    assert first == f"w{int(exact.argmax())}"
    assert cosine == pytest.approx(exact.max(), abs=1e-6)


def test_the_words_that_a_word_stands_near(counts):
    row = counts["猫"]
    associates = counts.associates("猫", topn=3)
    assert [score for _, score in associates] == sorted(row.tolist(), reverse=True)[:3]
    assert all(row[counts.key_to_index[word]] == np.float32(score) for word, score in associates)


def test_counts_trained_further_are_the_counts_of_both_texts():
    first, second = [["猫", "狗", "猫"], ["狗", "鱼"]], [["鱼", "鸟"], ["猫", "鸟", "鸟", "狗"]]
    model = polyseme.train("counts", Corpus.from_sentences(first), min_count=1)
    grown = polyseme.train("counts", Corpus.from_sentences(second), start=model, min_count=1)
    at_once = polyseme.train("counts", Corpus.from_sentences(first + second), min_count=1)
    for word in at_once.index_to_key:
        for other in at_once.index_to_key:
            assert grown[word][grown.key_to_index[other]] == pytest.approx(
                at_once[word][at_once.key_to_index[other]], abs=1e-6
            )


def test_other_methods_cannot_go_on_from_sparse_vectors(counts, topics):
    with pytest.raises(TrainingError, match="sparse"):
        polyseme.train("word2vec", topics, start=counts, dim=len(counts))


def test_a_folder_whose_matrix_was_altered_is_refused(counts):
    tensors = dict(counts.parts().tensors)
    columns = np.array(tensors["row_columns"])
    columns[3] = len(counts)
    for name, value in (("row_columns", columns), ("row_starts", tensors["row_starts"][:-1])):
        parts = Parts({**tensors, name: value}, counts.parts().tables)
        with pytest.raises(FormatError, match="altered"):
            Counts.from_parts(counts.options, parts, counts.about)


def test_dense_files_of_sparse_vectors_are_written_only_on_request(counts, dense, tmp_path):
    with pytest.raises(OptionError, match="--dense"):
        save_vectors_as(counts, tmp_path / "m.vec", "word2vec-text")
    assert not (tmp_path / "m.vec").exists()
    for form in ("word2vec-text", "word2vec-binary", "glove"):
        save_vectors_as(counts, tmp_path / form, form, dense=True)
        np.testing.assert_array_equal(polyseme.load(tmp_path / form).vectors, dense.vectors)
    with pytest.raises(OptionError, match="word2vec-binary"):
        save_vectors_as(counts, tmp_path / "m.bin", "fasttext", dense=True)


def test_the_map_of_sparse_vectors_keeps_their_topics_apart(counts):
    from polyseme.view.word_map import Maps

    rows, plane = Maps().points(counts, "pca", 13)
    at = {counts.index_to_key[row]: point for row, point in zip(rows, plane, strict=True)}
    animals, numbers = (np.mean([at[word] for word in group], axis=0) for group in ("猫狗鸟鱼马", "一二三四五"))
    apart = np.linalg.norm(animals - numbers)
    assert apart > max(np.linalg.norm(at[word] - animals) for word in "猫狗鸟鱼马")


def test_the_server_answers_from_sparse_vectors(counts, tmp_path):
    library = Library([model_item("counts", "counts", counts)])
    with TestClient(create_app(library, cache=tmp_path), base_url="http://127.0.0.1") as client:
        near = client.get("/api/neighbours", params={"model": "counts", "word": "猫", "topn": 3}).json()["neighbours"]
        assert [(n["word"], pytest.approx(n["score"], abs=1e-5)) for n in near] == counts.most_similar("猫", topn=3)
        like = client.get("/api/analogy", params={"model": "counts", "a": "猫", "b": "狗", "c": "一"}).json()["answers"]
        assert like[0]["word"] == counts.analogy("猫", "狗", "一")[0][0]
        for question in ("graph?model=counts&word=猫", "map?model=counts&size=9", "words?model=counts"):
            assert client.get(f"/api/{question}").status_code == 200
