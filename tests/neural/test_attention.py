"""Attention and transformer layers against NumPy and torch's own multi-head attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from polyseme.errors import OptionError
from polyseme.neural.layers import SCORES, AttentionLayer, AttentionPooling, Transformer, sinusoids

MASK = torch.tensor([[True, True, True, False], [True, False, False, False], [False, False, False, False]])


def softmax(scores):
    e = np.exp(scores - scores.max())
    return e / e.sum()


def weights_of(linear):
    return linear.weight.detach().numpy().astype(np.float64)


@pytest.mark.parametrize("n_queries", [1, 3])
def test_pooling_is_the_formula_over_each_text_s_own_tokens(n_queries):
    torch.manual_seed(2)
    pooling = AttentionPooling(5, 6, n_queries=n_queries)
    x = torch.randn(3, 4, 5)
    found, weights = pooling(x, MASK)
    inner, bias, queries = weights_of(pooling.inner), pooling.inner.bias.detach().numpy(), weights_of(pooling.queries)
    for row, length in enumerate([3, 1, 0]):
        text = x[row, :length].numpy().astype(np.float64)
        for k in range(n_queries):
            wanted = np.zeros(5)
            if length:
                wanted = softmax(np.tanh(text @ inner.T + bias) @ queries[k]) @ text
            np.testing.assert_allclose(found[row, k].detach(), wanted, rtol=1e-4, atol=1e-6)
    assert not weights[:, :, 3].any()
    overlap = weights[0].detach().numpy() @ weights[0].detach().numpy().T - np.eye(n_queries)
    assert pooling.redundancy(weights)[0].item() == pytest.approx((overlap**2).sum(), rel=1e-4)


@pytest.mark.parametrize("score", SCORES)
def test_queries_find_what_the_named_score_says(score):
    torch.manual_seed(3)
    attention = AttentionLayer(5, 5, score=score, hidden=6)
    queries, keys, values = torch.randn(3, 2, 5), torch.randn(3, 4, 5), torch.randn(3, 4, 7)
    found, weights = attention(queries, keys, MASK, values)
    for row, length in enumerate([3, 1, 0]):
        for q in range(2):
            query, near = queries[row, q].numpy(), keys[row, :length].numpy()
            if score == "general":
                scores = near @ (weights_of(attention.turn) @ query)
            elif score == "additive":
                turned = weights_of(attention.of_query) @ query + attention.of_query.bias.detach().numpy()
                scores = np.tanh(turned + near @ weights_of(attention.of_key).T) @ weights_of(attention.weigh)[0]
            else:
                scores = near @ query / (np.sqrt(5) if score == "scaled" else 1)
            wanted = softmax(scores) if length else np.zeros(0)
            np.testing.assert_allclose(weights[row, q, :length].detach(), wanted, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(
                found[row, q].detach(), wanted @ values[row, :length].numpy(), rtol=1e-4, atol=1e-6
            )


def test_vectors_of_unlike_lengths_have_no_dot_product():
    with pytest.raises(ValueError, match="use general, additive"):
        AttentionLayer(5, 6)
    assert AttentionLayer(5, 6, score="general")(torch.randn(1, 2, 5), torch.randn(1, 4, 6), MASK[:1])[0].shape == (
        1,
        2,
        6,
    )


def test_pooling_without_an_opinion_is_the_mean():
    pooling = AttentionPooling(5, 6)
    pooling.queries.weight.data.zero_()
    x = torch.randn(3, 4, 5)
    torch.testing.assert_close(pooling(x, MASK)[0][0, 0], x[0, :3].mean(0))


# ---- transformer


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("causal", [False, True])
def test_a_text_reads_the_same_in_any_company(norm, causal):
    torch.manual_seed(4)
    model = Transformer(8, n_layers=2, n_heads=2, inner=16, norm=norm, causal=causal).eval()
    x = torch.randn(3, 4, 8)
    together = model(x, MASK)
    assert len(together) == 3
    for row, length in enumerate([3, 1]):
        lonely = model(x[row : row + 1, :length], MASK[row : row + 1, :length])
        for a, b in zip(lonely, together, strict=True):
            torch.testing.assert_close(a[0], b[row, :length], rtol=1e-5, atol=1e-5)
            assert not b[row, length:].any()
    assert all(torch.isfinite(plane).all() and not plane[2].any() for plane in together)


def test_a_causal_reader_does_not_see_what_follows():
    torch.manual_seed(5)
    x, mask = torch.randn(1, 6, 8), torch.ones(1, 6, dtype=torch.bool)
    changed = x.clone()
    changed[0, 4] *= -1
    for causal in (True, False):
        model = Transformer(8, n_layers=2, n_heads=2, inner=16, causal=causal).eval()
        before, after = model(x, mask)[-1], model(changed, mask)[-1]
        assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6) == causal
        assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-3)


def test_a_layer_is_the_paper_s_formula():
    torch.manual_seed(6)
    model = Transformer(8, n_layers=1, n_heads=2, inner=16, norm="post").eval()
    x, mask = torch.randn(1, 5, 8), torch.ones(1, 5, dtype=torch.bool)
    layer, first = model.layers[0], x * 8**0.5 + sinusoids(5, 8)
    attended = layer.self_attn(first, first, first, need_weights=False)[0]
    middle = layer.norm1(first + attended)
    wanted = layer.norm2(middle + layer.linear2(torch.relu(layer.linear1(middle))))
    torch.testing.assert_close(model(x, mask)[-1], wanted, rtol=1e-5, atol=1e-5)


def test_positions_are_sines_and_cosines():
    found = sinusoids(50, 7)
    for place, i in ((0, 0), (3, 2), (49, 6)):
        assert found[place, i].item() == pytest.approx(np.sin(place / 10000 ** (i / 7)), abs=1e-4)
    assert found[49, 3].item() == pytest.approx(np.cos(49 / 10000 ** (2 / 7)), abs=1e-4)


def test_heads_must_divide_the_length():
    with pytest.raises(OptionError, match="3 attention heads do not divide the dimension 8"):
        Transformer(8, n_layers=1, n_heads=3, inner=16)
