"""Learned sentence encoders against small references in NumPy, with the hand cases of their papers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from polyseme.learn.modules import TextTokens
from polyseme.neural.layers import AttentionPooling
from polyseme.neural.recurrent import Recurrent
from polyseme.sentences.encoders import (
    BiLstmMaxModule,
    DanModule,
    DcnnModule,
    HanModule,
    RnnModule,
    SelfAttentionModule,
    TextCnnModule,
    dynamic_k,
    folded,
    wide_convolution,
)

LENGTHS = [7, 1, 4]
MASK = torch.arange(7)[None] < torch.tensor(LENGTHS)[:, None]
X = torch.randn(3, 7, 6, generator=torch.Generator().manual_seed(0))
TOKENS = TextTokens(X, MASK)
FILTERS = [(2, 4), (3, 4)]


def modules() -> dict[str, torch.nn.Module]:
    torch.manual_seed(1)
    return {
        "dan": DanModule(6, 2, 5, 0.3),
        "mean": DanModule(6, 0, 5, 0.0),
        "textcnn": TextCnnModule(6, FILTERS),
        "textcnn k-max": TextCnnModule(6, FILTERS, pooling="k-max", k=3),
        "textcnn mean": TextCnnModule(6, FILTERS, "tanh", "mean"),
        "dcnn": DcnnModule(6, [(3, 2), (2, 3)], 2),
        "rnn": RnnModule(Recurrent(6, 3, n_layers=2)),
        "rnn gru": RnnModule(Recurrent(6, 3, kind="gru", bidirectional=False)),
        "bilstm-max": BiLstmMaxModule(Recurrent(6, 3)),
        "self-attention": SelfAttentionModule(Recurrent(6, 3), 2, 5, 0.3),
        "han": HanModule(Recurrent(6, 3, kind="gru"), Recurrent(6, 2, kind="gru"), 4),
    }


@pytest.mark.parametrize("name", modules())
def test_a_vector_depends_on_its_own_text_only_and_padding_is_never_read(name):
    module = modules()[name].eval()
    sentence = torch.tensor([[0, 0, 1, 1, 1, 2, 3]] * 3)
    noisy = torch.where(MASK.unsqueeze(-1), X, torch.full_like(X, 1e3))
    together = module(TextTokens(noisy, MASK, sentence=sentence)).vectors
    assert together.shape == (3, module.dim)
    for row, n in enumerate(LENGTHS):
        alone = module(TextTokens(X[row : row + 1, :n], MASK[row : row + 1, :n], sentence=sentence[row : row + 1, :n]))
        torch.testing.assert_close(together[row], alone.vectors[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", modules())
def test_a_text_without_tokens_has_a_finite_vector_and_gradient(name):
    module = modules()[name]
    nothing = TextTokens(torch.zeros(2, 1, 6, requires_grad=True), torch.zeros(2, 1, dtype=torch.bool))
    vectors = module(nothing).vectors
    assert torch.isfinite(vectors).all()
    if vectors.requires_grad:
        vectors.sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)


# ---- DAN


def test_dan_is_layers_over_the_mean_whatever_the_order():
    module = modules()["dan"].eval()
    z = X[0].mean(0).numpy()
    for layer in module.layers:
        z = np.maximum(layer.weight.detach().numpy() @ z + layer.bias.detach().numpy(), 0)
    np.testing.assert_allclose(module(TOKENS).vectors[0].detach(), z, atol=1e-6)
    turned = module(TextTokens(X[:1].flip(1), MASK[:1])).vectors
    torch.testing.assert_close(turned, module(TOKENS).vectors[:1])


def test_word_dropout_averages_the_words_kept_and_all_where_none_was():
    module = DanModule(6, 0, 1, 0.9).train()
    torch.manual_seed(0)
    texts = X[2:, :4].expand(200, -1, -1)
    found = module(TextTokens(texts, MASK[2:, :4].expand(200, -1))).vectors
    subsets = [X[2, list(kept)].mean(0) for kept in _subsets(4)]
    for vector in found:
        assert min(float((vector - mean).abs().max()) for mean in subsets) < 1e-5
    whole = X[2, :4].mean(0)
    share = sum(float((vector - whole).abs().max()) < 1e-5 for vector in found) / 200
    assert share == pytest.approx(0.9**4, abs=0.12)  # how often all four are dropped


def _subsets(n: int) -> list[tuple[int, ...]]:
    return [tuple(i for i in range(n) if bits >> i & 1) for bits in range(1, 2**n)]


# ---- TextCNN


def test_textcnn_is_the_greatest_filter_answer_over_all_windows():
    module = modules()["textcnn"]
    for row, n in enumerate(LENGTHS):
        text = np.pad(X[row, :n].numpy(), ((2, 2), (0, 0)))
        expected = []
        for weight, bias in zip(module.weights, module.biases, strict=True):
            w, b, h = weight.detach().numpy(), bias.detach().numpy(), weight.shape[1]
            windows = [text[i : i + h] for i in range(len(text) - h + 1)]
            expected += [max(max(0.0, (w[f] * window).sum() + b[f]) for window in windows) for f in range(len(w))]
        np.testing.assert_allclose(module(TOKENS).vectors[row].detach(), expected, atol=1e-5)


def test_a_filter_of_width_one_is_the_maximum_over_words():
    module = TextCnnModule(6, [(1, 4)], "identity")
    scores = X[0] @ module.weights[0][:, 0].t() + module.biases[0]
    torch.testing.assert_close(module(TOKENS).vectors[0], scores.amax(0))


def test_a_planted_trigram_is_found_wherever_it_stands():
    module = TextCnnModule(6, [(3, 1)])
    module.weights[0].data.copy_(X[2, :3][None] * 10)
    answers = []
    for place in range(5):
        text = torch.zeros(1, 7, 6)
        text[0, place : place + 3] = X[2, :3]
        answers.append(module(TextTokens(text, torch.ones(1, 7, dtype=torch.bool))).vectors.item())
    assert answers == pytest.approx([answers[0]] * 5, rel=1e-5)


# ---- DCNN


def test_dynamic_k_of_the_papers_example():
    assert [int(dynamic_k(torch.tensor([18]), layer, 3, 3)) for layer in (1, 2, 3)] == [12, 6, 3]


def test_wide_convolution_is_the_full_correlation_of_each_row():
    x = torch.randn(1, 2, 1, 5, generator=torch.Generator().manual_seed(3))
    weight = torch.randn(2, 1, 1, 3, generator=torch.Generator().manual_seed(4))
    found, places = wide_convolution(x, weight, torch.tensor([5]))
    assert places.tolist() == [7]
    for row in range(2):
        expected = np.correlate(x[0, row, 0].numpy(), weight[row, 0, 0].numpy(), mode="full")
        np.testing.assert_allclose(found[0, row, 0], expected, atol=1e-6)


def test_folding_adds_rows_in_pairs():
    x = torch.arange(6.0).view(1, 3, 1, 2)
    assert folded(x).flatten().tolist() == [0 + 2, 1 + 3, 4, 5]


def test_dcnn_layer_by_layer_against_numpy():
    module = modules()["dcnn"]
    for row, s in enumerate(LENGTHS):
        maps = [X[row, :s].numpy().T]  # each (rows, places)
        for layer, (weight, bias) in enumerate(zip(module.weights, module.biases, strict=True), start=1):
            w, b = weight.detach().numpy(), bias.detach().numpy()
            k = max(2, math.ceil((2 - layer) / 2 * s))
            made = []
            for out in range(w.shape[1]):
                rows = [
                    sum(np.correlate(one[r], w[r, out, into], mode="full") for into, one in enumerate(maps))
                    for r in range(w.shape[0])
                ]
                pairs = [rows[i] + rows[i + 1] if i + 1 < len(rows) else rows[i] for i in range(0, len(rows), 2)]
                kept = [values[np.sort(np.argsort(-values)[:k])] for values in pairs]
                made.append(np.tanh(np.stack(kept) + b[out][:, None]))
            maps = made
        expected = np.zeros((maps[0].shape[0], len(maps), 2))
        for number, one in enumerate(maps):
            expected[:, number, : one.shape[1]] = one
        np.testing.assert_allclose(module(TOKENS).vectors[row].detach(), expected.ravel(), atol=1e-5)


# ---- recurrent


def test_bilstm_max_of_one_token_is_its_state():
    module = modules()["bilstm-max"]
    torch.testing.assert_close(module(TOKENS).vectors[1], module.states(X, MASK)[0][1, 0])


# ---- attention


def test_the_penalty_of_the_rows():
    distinct = torch.eye(5)[None, :3]
    assert AttentionPooling.redundancy(distinct).item() == pytest.approx(0)
    r, n = 3, 5
    uniform = torch.full((1, r, n), 1 / n)
    assert AttentionPooling.redundancy(uniform).item() == pytest.approx(r * (1 - 1 / n) ** 2 + r * (r - 1) / n**2)
    assert AttentionPooling.redundancy(torch.full((1, 1, n), 1 / n)).item() == pytest.approx((1 - 1 / n) ** 2)


def test_self_attention_is_a_softmax_over_tokens_and_the_mean_where_it_has_no_opinion():
    module = modules()["self-attention"]
    encoding = module(TOKENS)
    states = module.states(X, MASK)[0].detach().numpy()
    w1, w2 = (layer.weight.detach().numpy() for layer in (module.pooling.inner, module.pooling.queries))
    for row, n in enumerate(LENGTHS):
        scores = w2 @ np.tanh(w1 @ states[row, :n].T)  # (r, n)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(encoding.vectors[row].detach(), (weights @ states[row, :n]).ravel(), atol=1e-5)
        np.testing.assert_allclose(encoding.attention[row, :n].detach(), weights.mean(0), atol=1e-5)
        overlap = weights @ weights.T - np.eye(2)
        assert encoding.penalty[row].item() == pytest.approx(0.3 * (overlap**2).sum(), rel=1e-4)
    module.pooling.queries.weight.data.zero_()
    mean = module.states(X, MASK)[0][0].mean(0)
    torch.testing.assert_close(module(TOKENS).vectors[0], mean.repeat(2), atol=1e-5, rtol=1e-4)


def test_han_in_one_batch_is_the_loop_over_sentences():
    module = modules()["han"]
    numbers = torch.tensor([[0, 0, 1, 1, 1, 2, 3], [0] * 7, [0, 1, 1, 1, 1, 1, 1]])
    encoding = module(TextTokens(X, MASK, sentence=numbers))
    for row, n in enumerate(LENGTHS):
        sentences, within = [], []
        for number in range(int(numbers[row, :n].max()) + 1):
            words = X[row, :n][numbers[row, :n] == number][None]
            there = torch.ones(1, words.shape[1], dtype=torch.bool)
            vector, weights = module.of_words(module.words(words, there)[0], there)
            sentences.append(vector[:, 0])
            within.append(weights[0, 0])
        document = torch.stack(sentences, dim=1)
        there = torch.ones(1, document.shape[1], dtype=torch.bool)
        vector, between = (found[:, 0] for found in module.of_sentences(module.sentences(document, there)[0], there))
        torch.testing.assert_close(encoding.vectors[row], vector[0], atol=1e-5, rtol=1e-4)
        expected = torch.cat([w * between[0, number] for number, w in enumerate(within)])
        torch.testing.assert_close(encoding.attention[row, :n], expected, atol=1e-5, rtol=1e-4)
        assert encoding.attention[row].sum().item() == pytest.approx(1, abs=1e-5)
