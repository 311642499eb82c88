"""Batches by a budget of tokens: every text once, of about one length, shuffled by seed and epoch alone."""

from __future__ import annotations

import numpy as np
import pytest

from polyseme.neural.batches import BudgetBatches

SIZES = np.random.default_rng(0).integers(0, 60, 3000)


@pytest.mark.parametrize("padded", [False, True])
def test_an_epoch_has_every_text_once_within_the_budget(padded):
    batches = BudgetBatches(SIZES, tokens=200, seed=3, padded=padded)
    for epoch in (0, 1):
        found = [batches.rows(epoch, index) for index in range(batches.n_steps(epoch))]
        assert sorted(np.concatenate(found)) == list(range(3000))
        for rows in found:
            assert (np.diff(SIZES[rows]) <= 0).all()  # the longest first
            if padded:
                assert len(rows) * SIZES[rows[0]] <= 200
        if not padded:
            assert np.mean([SIZES[rows].sum() for rows in found]) == pytest.approx(200, rel=0.1)


def test_texts_of_a_batch_are_about_as_long_as_each_other():
    batches = BudgetBatches(SIZES, tokens=400, seed=0, padded=True)
    found = [batches.rows(0, index) for index in range(batches.n_steps(0))]
    filled = sum(len(rows) * SIZES[rows[0]] for rows in found)
    assert SIZES.sum() > 0.95 * filled


def test_the_order_follows_from_seed_and_epoch():
    def order(seed, epoch):
        batches = BudgetBatches(SIZES, tokens=200, seed=seed)
        return [batches.rows(epoch, index).tolist() for index in range(batches.n_steps(epoch))]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_at_most_so_many_texts_and_never_none():
    batches = BudgetBatches([500, 3, 3, 3, 0, 0, 0, 0], tokens=100, seed=0, padded=True, most=3)
    found = batches.in_order()
    assert [rows.tolist() for rows in found] == [[0], [1, 2, 3], [4, 5, 6], [7]]
    assert BudgetBatches([], tokens=10, seed=0).n_steps(0) == 0
    assert BudgetBatches([], tokens=10, seed=0).in_order() == []
