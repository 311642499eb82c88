"""The demo's figure, against a count done one query at a time."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from polyseme.evaluate.tag_agreement import Agreement, WordAgreement, neighbour_scores


def by_hand(vectors: np.ndarray, tags: np.ndarray, k: int) -> tuple[float, float]:
    shares, votes = [], []
    for query in range(len(vectors)):
        others = sorted((-float(vectors[query] @ vectors[i]), i) for i in range(len(vectors)) if i != query)[:k]
        near = [int(tags[i]) for _, i in others]
        shares.append(near.count(int(tags[query])) / k)
        counted = Counter(near)
        best = max(counted.values())
        strength = {tag: -sum(s for s, i in others if tags[i] == tag) for tag in counted if counted[tag] == best}
        votes.append(max(strength, key=lambda tag: strength[tag]) == tags[query])
    return float(np.mean(shares)), float(np.mean(votes))


@pytest.mark.parametrize("k", [1, 4, 10])
def test_share_and_vote_are_as_counted_by_hand(k: int) -> None:
    rng = np.random.default_rng(k)
    tags = rng.integers(0, 3, 60)
    vectors = rng.normal(size=(60, 6)) + np.eye(6)[tags] * 1.2
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    share, vote = neighbour_scores(vectors.astype(np.float32), tags, k)
    expected = by_hand(vectors.astype(np.float32), tags, k)
    assert share == pytest.approx(expected[0])
    assert vote == pytest.approx(expected[1])


def test_an_occurrence_does_not_count_itself() -> None:
    tags = np.arange(20) % 20  # every tag is there once: only itself would agree
    share, vote = neighbour_scores(np.eye(20, dtype=np.float32), tags, 5)
    assert share == vote == 0


def test_programs_get_the_means_and_every_word() -> None:
    words = [
        WordAgreement("里", 300, {"f": 200, "q": 100}, 0.9, 0.95, 0.55, 2 / 3),
        WordAgreement("会", 400, {"v": 300, "n": 100}, 0.7, 0.85, 0.65, 3 / 4),
    ]
    record = json.loads(json.dumps(Agreement(words).to_json(), ensure_ascii=False))
    assert (record["share"], record["vote"], record["chance"]) == pytest.approx((0.8, 0.9, 0.6))
    assert [word["tags"] for word in record["words"]] == [{"f": 200, "q": 100}, {"v": 300, "n": 100}]
