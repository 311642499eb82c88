"""The recursive autoencoder: trees, phrases, unfolding and dynamic pooling as NumPy computes them one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import polyseme
from polyseme.sentences import rae
from polyseme.sentences.rae import (
    AutoEncoder,
    folded,
    greedy_merges,
    least_of_cells,
    number_features,
    pooled_distances,
    unfolding_errors,
)
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

SIZES = [1, 2, 5, 0, 9, 3]
D = 4


class Plain:
    """The autoencoder in NumPy, one text at a time."""

    def __init__(self, net: AutoEncoder) -> None:
        state = {name: tensor.detach().double().numpy() for name, tensor in net.state_dict().items()}
        self.w, self.c = state["fold.weight"], state["fold.bias"]
        self.v, self.d = state["unfold.weight"], state["unfold.bias"]

    def phrase(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        p = np.tanh(self.w @ np.concatenate([a, b]) + self.c)
        return p / np.linalg.norm(p)

    def parts(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = np.tanh(self.v @ p + self.d)
        return both[: len(p)], both[len(p) :]

    def error(self, a: np.ndarray, b: np.ndarray) -> float:
        x, y = self.parts(self.phrase(a, b))
        return float(((x - a) ** 2).sum() + ((y - b) ** 2).sum())

    def tree(self, words: np.ndarray) -> tuple[list[tuple], list[np.ndarray]]:
        """The phrases in the order of the merges, as nested tuples of positions, and their vectors."""
        nodes = [(place, vector) for place, vector in enumerate(words)]
        made, vectors = [], []
        while len(nodes) > 1:
            errors = [self.error(nodes[i][1], nodes[i + 1][1]) for i in range(len(nodes) - 1)]
            best = int(np.argmin(errors))
            (a, x), (b, y) = nodes[best : best + 2]
            nodes[best : best + 2] = [((a, b), self.phrase(x, y))]
            made.append((a, b))
            vectors.append(nodes[best][1])
        return made, vectors

    def unfolded(self, nest: tuple | int, p: np.ndarray, words: np.ndarray) -> float:
        if isinstance(nest, int):
            return float(((words[nest] - p) ** 2).sum())
        return sum(self.unfolded(child, part, words) for child, part in zip(nest, self.parts(p), strict=True))


@pytest.fixture(scope="module")
def batch() -> tuple[AutoEncoder, torch.Tensor, torch.Tensor]:
    torch.manual_seed(4)
    net = AutoEncoder(D)
    x = torch.nn.functional.normalize(torch.randn(len(SIZES), max(SIZES), D), dim=2)
    return net, x, torch.arange(max(SIZES)) < torch.tensor(SIZES)[:, None]


@pytest.mark.parametrize("long", [rae.LONG, 3, 1])  # all texts together; some of them, all of them by themselves
def test_trees_phrases_and_errors_are_those_of_numpy(
    batch: tuple[AutoEncoder, torch.Tensor, torch.Tensor], long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rae, "LONG", long)
    net, x, mask = batch
    plain = Plain(net)
    left, right = greedy_merges(net, x, mask)
    nodes = folded(net, x, mask)
    total = 0.0
    for text, size in enumerate(SIZES):
        words = x[text, :size].double().numpy()
        made, vectors = plain.tree(words)
        names: list = [*range(max(SIZES))]
        for step in range(size - 1):
            names.append((names[left[text, step]], names[right[text, step]]))
        assert names[max(SIZES) :] == made
        own = nodes.vectors[nodes.text == text].detach().numpy()
        np.testing.assert_allclose(own[:size], words, atol=1e-6)
        ours, theirs = sorted(own[size:].tolist()), sorted(vector.tolist() for vector in vectors)
        np.testing.assert_allclose(np.reshape(ours, (-1, D)), np.reshape(theirs, (-1, D)), atol=1e-5)
        if size > 1:
            np.testing.assert_allclose(nodes.vectors[nodes.root[text]].detach(), vectors[-1], atol=1e-5)
        total += sum(plain.unfolded(nest, vector, words) for nest, vector in zip(made, vectors, strict=True))
    assert unfolding_errors(net, nodes).item() == pytest.approx(total, rel=1e-5)


def test_gradients_are_those_of_differences(batch: tuple[AutoEncoder, torch.Tensor, torch.Tensor]) -> None:
    net, x, mask = batch
    net = AutoEncoder(D).double()
    net.load_state_dict({name: tensor.double() for name, tensor in batch[0].state_dict().items()})
    x = x.double()
    unfolding_errors(net, folded(net, x, mask)).backward()  # type: ignore[no-untyped-call]
    for weight in (net.fold.weight, net.unfold.bias):
        flat = weight.data.view(-1)
        values = []
        for step in (1e-6, -2e-6):
            flat[1] += step
            with torch.no_grad():
                values.append(float(unfolding_errors(net, folded(net, x, mask))))
        flat[1] += 1e-6
        assert weight.grad is not None
        assert float(weight.grad.view(-1)[1]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


def test_training_gives_words_back_better_and_texts_keep_their_nodes(fifty_lines: list[str], tmp_path: Path) -> None:
    words = sorted({character for line in fifty_lines for character in line})
    rows = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32)
    WordVectors(Vocabulary(words, np.ones(len(words))), rows).save(tmp_path / "words")
    corpus = polyseme.Corpus.from_sentences([list(line) for line in fifty_lines])
    options = {"word_vectors": str(tmp_path / "words"), "hold_out": 0.2, "threads": 1, "lr": 0.01, "vector": "root"}
    model = polyseme.train("rae", corpus, epochs=8, **options)
    curve = [record["held_out_error"] for record in model.about.curve if "held_out_error" in record]
    assert curve[-1] < 0.9 * curve[0]
    texts = [list("小明"), list("老王打电话"), [], ["书"]]
    nodes = model.nodes(texts)
    assert [len(found) for found in nodes] == [3, 9, 0, 1]
    np.testing.assert_allclose(model.encode(texts)[1], nodes[1][-1], atol=1e-5)
    np.testing.assert_array_equal(model.encode([[]]), np.zeros((1, 8)))
    given = rows[[words.index(character) for character in "小明"]]  # whose vectors are not trained
    np.testing.assert_allclose(nodes[0][:2], given / np.linalg.norm(given, axis=1, keepdims=True), atol=1e-6)


def test_cells_are_even_and_small_matrices_are_repeated() -> None:
    matrix = np.arange(14, dtype=np.float32).reshape(7, 2)
    np.testing.assert_array_equal(least_of_cells(matrix, 3)[:, 0], [0, 4, 8])  # rows 2, 2 and 3
    np.testing.assert_array_equal(least_of_cells(matrix[:2], 3)[:, 0], [0, 0, 2])
    first, second = np.eye(3, dtype=np.float32), np.zeros((4, 3), dtype=np.float32)
    np.testing.assert_allclose(pooled_distances(first, second, 5), np.ones((5, 5)))
    np.testing.assert_allclose(np.diag(pooled_distances(first, first, 3)), 0, atol=1e-6)
    assert not pooled_distances(first, second[:0], 5).any()


@pytest.mark.parametrize(("first", "second", "wanted"), [
    ("no numbers", "at all", [1, 0, 0]), ("in 2001", "of 2001", [1, 1, 0]), ("in 2001", "of 2002", [0, 0, 0]),
    ("3 of 5", "5 left", [0, 0, 1]),
])  # fmt: skip
def test_numbers_are_compared(first: str, second: str, wanted: list[int]) -> None:
    assert number_features(first.split(), second.split()).tolist() == wanted


def test_fit_pair_reads_the_dynamic_pooling(fifty_lines: list[str], tmp_path: Path) -> None:
    corpus = polyseme.Corpus.from_sentences([list(line) for line in fifty_lines])
    model = polyseme.train("rae", corpus, word_dim=8, epochs=1, threads=1, grid=4)
    places = [(i, j) for i in range(0, 50, 3) for j in range(0, 50, 7)]
    rows = [(fifty_lines[i], fifty_lines[j], str(int(i // 5 == j // 5))) for i, j in places]
    options = {"head": "linear", "epochs": 2, "threads": 1}
    task = polyseme.fit("pair", polyseme.Examples.of(rows), encoder=model, out=tmp_path / "task", **options)
    assert task.reader.dim == 4 * 8 + 16 + 3
    pairs = [(first, second) for first, second, _ in rows[:5]]
    opened = polyseme.load(tmp_path / "task")
    before, after = ([found.probability for found in model.predict(pairs)] for model in (task, opened))
    np.testing.assert_allclose(after, before, atol=1e-5)
