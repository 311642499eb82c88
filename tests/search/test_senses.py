"""Planted groups are found in their number, and one group is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from polyseme.arrays import FloatArray
from polyseme.interfaces import LanguageModel, Sentence, WordLosses
from polyseme.search import build_index
from polyseme.search.occurrences.cluster import APART, cluster, learn_apart, mixture, silhouettes, v_measure
from polyseme.search.occurrences.splits import find_splits, learn_cutoffs
from polyseme.search.occurrences.uses import Listing, offers_substitutes
from polyseme.text.corpus import Corpus

from .conftest import DIM, Neighbours

D = 64
Draw = Callable[[np.random.Generator], np.ndarray]


def cloud(rng: np.random.Generator, n: int) -> np.ndarray:
    """One group, wider in some directions than in others, like the vectors of real occurrences."""
    return rng.normal(size=(n, D)) * np.linspace(2, 0.2, D)


def groups(*sizes: int) -> Draw:
    def draw(rng: np.random.Generator) -> np.ndarray:
        centres = rng.normal(size=(len(sizes), D))
        centres *= 8 / np.linalg.norm(centres, axis=1, keepdims=True)
        return np.concatenate([cloud(rng, n) + centre for n, centre in zip(sizes, centres, strict=True)])

    return draw


ONE: dict[str, Draw] = {
    "normal": lambda rng: cloud(rng, 500),
    "heavy tails": lambda rng: rng.standard_t(3, size=(500, D)) * np.linspace(2, 0.2, D),
    "uniform": lambda rng: rng.random((500, D)),
    "long": lambda rng: cloud(rng, 500) / 10 + np.outer(rng.random(500) * 6, np.ones(D) / 8),
    "few": lambda rng: cloud(rng, 30),
}


def as_vectors(points: np.ndarray) -> FloatArray:
    return points.astype(np.float32)


@pytest.mark.parametrize("kind", ONE)
@pytest.mark.parametrize("seed", [0, 1])
def test_one_group_is_one_sense(kind: str, seed: int) -> None:
    assert cluster(as_vectors(ONE[kind](np.random.default_rng(seed)))).max() == 0


@pytest.mark.parametrize("sizes", [(250, 250), (450, 50), (300, 200, 100, 60), (20, 15)])
@pytest.mark.parametrize("seed", [0, 1])
def test_planted_groups_are_found(sizes: tuple[int, ...], seed: int) -> None:
    labels = cluster(as_vectors(groups(*sizes)(np.random.default_rng(seed))))
    truth = np.repeat(np.arange(len(sizes)), sizes)
    assert labels.max() + 1 == len(sizes)
    assert np.mean(labels == truth) > 0.97  # numbered by falling size, as they were planted


def test_groups_that_point_the_same_way_are_one_sense() -> None:
    rng = np.random.default_rng(4)
    shared, one, other = np.linalg.qr(rng.normal(size=(D, 3)))[0].T * 20
    phrases = [cloud(rng, 200) / 4 + shared * 0.9 + direction * 0.44 for direction in (one, other)]  # cosine 0.8
    uses = [cloud(rng, 200) / 4 + direction for direction in (one, other)]  # cosine 0
    assert cluster(as_vectors(np.concatenate(phrases)), apart=0.95).max() == 1  # two tight groups, to be sure
    assert cluster(as_vectors(np.concatenate(phrases)), apart=0.5).max() == 0
    assert cluster(as_vectors(np.concatenate(uses)), apart=0.5).max() == 1


def test_how_far_senses_lie_apart_is_learnt_from_words_and_pairs_of_words() -> None:
    rng = np.random.default_rng(5)
    words = []
    for _ in range(20):  # every word has two set phrases with a cosine of about 0.8, words have cosines about 0
        shared, one, other = rng.normal(size=(3, D)) * 20 / D**0.5
        words.append(as_vectors(np.concatenate([cloud(rng, 60) / 4 + shared * 0.9 + d * 0.44 for d in (one, other)])))
    bound = learn_apart(words)
    assert 0.2 < bound < 0.7
    assert all(cluster(word, apart=bound).max() == 0 for word in words[:5])
    assert all(cluster(np.concatenate(pair), apart=bound).max() == 1 for pair in (words[:2], words[2:4]))
    assert learn_apart(words[:5]) == APART  # too few to learn from


def test_very_few_or_equal_vectors_are_one_sense() -> None:
    assert cluster(np.ones((1, 5), dtype=np.float32)).tolist() == [0]
    assert cluster(np.ones((40, 5), dtype=np.float32)).max() == 0
    assert cluster(as_vectors(groups(40, 40)(np.random.default_rng(0))), max_clusters=1).max() == 0


def test_the_senses_of_a_word_of_a_corpus(tmp_path: Path, corpus: Corpus) -> None:
    index = build_index(Neighbours(), corpus, tmp_path / "i", dim=2 * DIM)
    found = index.senses("打", max_senses=4)
    in_ball = np.array([any(ball in hit.text for ball in ("篮球", "排球", "网球")) for hit in found.hits])
    for label in range(len(found.senses)):
        inside = in_ball[found.labels == label]
        assert inside.all() or not inside.any()  # no sense mixes the two uses
    assert sum(sense.share for sense in found.senses) == pytest.approx(1.0)
    assert sum(sense.size for sense in found.senses) == len(found.hits) == found.count == 300
    assert found.points.shape == (300, 2)
    shares = [sense.share for sense in found.senses]
    assert shares == sorted(shares, reverse=True)
    telephone = {"给", "往", "电话", "手机", "号码"}
    first = found.senses[0]
    assert telephone & set(first.substitutes[:3])  # no language model: the words that stand near
    assert len({hit.text for hit in first.typical}) == len(first.typical) == 5


@pytest.mark.parametrize("softmax", [True, False])
def test_senses_are_labelled_by_the_model_only_where_it_has_its_softmax(
    corpus: Corpus, tmp_path: Path, softmax: bool
) -> None:
    class Language(Neighbours, LanguageModel):
        """A language model that predicts one word everywhere, or has no softmax."""

        language = "both-ways" if softmax else None

        def word_losses(self, sentences: Sequence[Sentence]) -> Iterator[WordLosses]:
            raise AssertionError("labels are what is expected: no losses are asked for")

        def expected(self, sentence: Sentence, position: int, topn: int) -> list[tuple[str, float]]:
            return [("电话", 0.9)]

    index = build_index(Language(), corpus, tmp_path / "i", dim=16)
    assert offers_substitutes(index.encoder) is softmax
    labels = [sense.substitutes for sense in index.senses("打").senses]
    assert (labels == [["电话"]] * len(labels)) is softmax
    assert all(labels)


def test_a_silhouette_compares_the_way_to_the_own_mean_with_that_to_the_next() -> None:
    line = np.array([[0.0], [2.0], [10.0], [12.0], [6.4]], dtype=np.float32)
    found = silhouettes(line, np.array([0, 0, 1, 1, 0]))
    means = (8.4 / 3, 11.0)
    ways = [(abs(x - means[own]), abs(x - means[1 - own])) for x, own in zip(line[:, 0], (0, 0, 1, 1, 0), strict=True)]
    assert found == pytest.approx([(b - a) / max(a, b) for a, b in ways], abs=1e-5)
    assert silhouettes(line, np.zeros(5, dtype=np.int64)).tolist() == [0.0] * 5


def test_words_that_split_are_found_with_their_scores_and_the_cut_off_parts_two_words() -> None:
    rng = np.random.default_rng(6)
    centres = np.linalg.qr(rng.normal(size=(D, 24)))[0].T * 8
    words = {f"one{i}": as_vectors(cloud(rng, 100) / 4 + centres[i]) for i in range(20)}
    words["two"] = as_vectors(np.concatenate([cloud(rng, 60) / 4 + centres[20], cloud(rng, 40) / 4 + centres[21]]))
    words["rare"] = as_vectors(np.concatenate([cloud(rng, 97) / 4 + centres[22], cloud(rng, 3) / 4 + centres[23]]))
    beside = rng.integers(0, 50, size=(100, 2))
    ((word, score),) = find_splits(list(words), lambda word: (words[word], beside), apart=0.5)
    assert word == "two"
    assert 0.5 < score <= 1
    phrase = beside.copy()
    phrase[60:, 0] = 7  # its second use always stands behind the same word
    assert find_splits(["two"], lambda word: (words[word], phrase), apart=0.5) == []
    units = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in words.values()][:20]
    alike, other_words = learn_cutoffs(units)
    assert alike is not None
    assert other_words is not None
    pair = np.concatenate(units[:2])
    seen = pair - pair.mean(axis=0) / 2
    seen /= np.linalg.norm(seen, axis=1, keepdims=True)
    same, different = seen[:100] @ seen[:100].T, seen[:100] @ seen[100:].T
    hits, false = (same >= alike).mean(), (different >= alike).mean()
    assert hits > 0.95
    assert hits / (hits + false) > 0.85
    assert learn_cutoffs(units[:4]) == (None, None)  # too few to learn from


def test_every_occurrence_of_a_frequent_word_is_put_to_a_use(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build_index(Neighbours(), corpus, tmp_path / "i", dim=2 * DIM)
    monkeypatch.setattr("polyseme.search.occurrences.uses.MOST", 100)
    found = index.senses("打", max_senses=2)
    assert found.n_looked_at == 100
    assert found.count == 300
    listing = Listing(index, found)
    lines = [line for use in (1, 2) for line in listing.lines(use)]
    assert sorted(line.sentence for line in lines) == sorted(index.sentences_of(np.array(index.occurrences("打"))))
    assert listing.count(1) == 200  # two thirds stand by the telephone
    for line in lines:
        assert any(ball in line.text for ball in ("篮球", "排球", "网球")) == (line.use == 2)
    scores = [line.score for line in listing.lines(1)]
    assert scores == sorted(scores, reverse=True)
    assert listing.lines(1)[0].before == corpus.text(listing.lines(1)[0].sentence - 1)


def test_the_typical_sentences_of_a_use_differ(tmp_path: Path) -> None:
    lists = [
        ["张", "三", "、", "李", "四", "、", "王", "五", "、", "赵", "六", "、", "打", "、", f"钱{i}"]
        for i in range(60)
    ]
    speech = [
        [f"他{i % 7}", "昨天", "给", "我", "打", ["电话", "手机", "号码"][i % 3], "了", f"吧{i}"] for i in range(60)
    ]
    text = Corpus.from_sentences([*lists, *speech], tmp_path / "c", segment="space")
    index = build_index(Neighbours(), text, tmp_path / "i", dim=2 * DIM)
    (use,) = index.senses("打", max_senses=1).senses
    assert sum("、" in hit.text for hit in use.typical) <= 1  # not five lists of names where there are sentences
    assert len({word for hit in use.typical for word in ("电话", "手机", "号码") if word in hit.text}) > 1


def test_a_mixture_is_as_likely_as_that_of_scikit_learn() -> None:
    from sklearn.mixture import GaussianMixture

    points = groups(120, 60, 40)(np.random.default_rng(3))[:, :4]
    posterior = mixture(points, 6, seed=1)
    peer = min((GaussianMixture(k, covariance_type="diag", random_state=1).fit(points) for k in range(1, 7)),
               key=lambda fitted: fitted.bic(points))  # fmt: skip
    assert posterior.shape[1] == peer.n_components
    assert posterior.sum(axis=1) == pytest.approx(np.ones(220))
    assert v_measure(peer.predict(points), posterior.argmax(axis=1)) > 0.95


def test_the_v_measure_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import v_measure_score

    rng = np.random.default_rng(2)
    truth, labels = rng.integers(0, 3, 50), rng.integers(0, 5, 50)
    assert v_measure(truth, labels) == pytest.approx(v_measure_score(truth, labels))
    assert v_measure(truth, truth) == pytest.approx(1.0)
    assert v_measure(np.zeros(5, dtype=np.int64), np.zeros(5, dtype=np.int64)) == 1.0
