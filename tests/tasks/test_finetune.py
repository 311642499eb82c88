"""Encoders fine-tuned with a task: they give the same layers as in encoding, they change, the given one does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tasks.conftest import reviews
from tests.tasks.test_classify import CountingEncoder
from tests.tasks.test_pair import pairs
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

import polyseme
from polyseme.api import plan_fit
from polyseme.contexts.fine_tuning import usual_rate
from polyseme.contexts.transformer.network import Network
from polyseme.data.examples import Examples
from polyseme.errors import OptionError
from polyseme.interfaces import silent
from polyseme.sentences.transformer import SentenceTransformer, TunedTexts, to_tune
from polyseme.sentences.vector_layers import Dense
from polyseme.tasks.options import (
    ClassifyOptions,
    LinearOptions,
    PairOptions,
    TagOptions,
    head_options,
    held_out_share,
    tuned_epochs,
)
from polyseme.text.corpus import Corpus

SENTENCES = [["房间", "很", "干净", "。"], ["好"], [], ["服务", "unbelievable", "的", "酒店"]]
SMALL = {"threads": 1, "epochs": 3, "batch_size": 8, "lr": 0.01}


@pytest.fixture(scope="module")
def elmo():
    lines = [text for text, _ in reviews(40)]
    return polyseme.train("elmo", Corpus.from_sentences(lines), epochs=1, seed=1, threads=1)


@pytest.fixture(scope="module")
def bert(shared_data):
    return polyseme.load(shared_data / "models" / "hf_tiny" / "bert-tiny-zh")


def scored_pairs(n):
    texts = [text for text, _ in reviews(2 * n)]
    return Examples.of([(texts[k], texts[-k - 1], k % 6) for k in range(n)], scored=True)


def inner_encoder(model):
    """The encoder that was fine-tuned with a classifier."""
    found = model.encoder
    return found.encoder if isinstance(found, SentenceTransformer) else found.inputs.encoders[0]


@pytest.mark.parametrize("name", ["elmo", "bert"])
def test_layers_in_training_are_those_of_encoding(name, request):
    encoder = request.getfixturevalue(name)
    tuned = encoder.tuned()
    with torch.no_grad():
        layers = tuned.network.eval()(*tuned.read(SENTENCES)).numpy()  # (B, T, L, D)
    for row, encoded in enumerate(encoder.encode_tokens(SENTENCES)):
        np.testing.assert_allclose(
            layers[row, : len(SENTENCES[row])], encoded.layers.transpose(1, 0, 2), atol=2e-5, rtol=1e-4
        )


@pytest.mark.parametrize("name", ["elmo", "bert"])
@pytest.mark.parametrize("head", ["linear", "bilstm-max"])
def test_an_encoder_learns_with_the_task_and_the_given_one_stays(name, head, request, tmp_path):
    encoder, texts = request.getfixturevalue(name), Examples.of(reviews(40))
    lines = [row.text for row in texts]
    before = [sentence.layers for sentence in encoder.encode_tokens(lines[:2])]
    more = {"hidden": 8} if head == "bilstm-max" else {}
    model = polyseme.fit("classify", texts, encoder=encoder, head=head, encoder_mode="finetune", **SMALL, **more)
    moved = [sentence.layers for sentence in inner_encoder(model).encode_tokens(lines[:2])]
    assert any((a != b).any() for a, b in zip(moved, before, strict=True))
    for a, b in zip(before, encoder.encode_tokens(lines[:2]), strict=True):
        np.testing.assert_array_equal(a, b.layers)
    model.save(tmp_path / "m")
    asked = [*lines, "房间很干净，unbelievable。" * 100]  # longer than the network reads at once
    np.testing.assert_allclose(
        polyseme.load(tmp_path / "m").probabilities(asked), model.probabilities(asked), atol=1e-5
    )


@pytest.mark.parametrize("name", ["bert-tiny-zh", "gpt2-tiny"])
@pytest.mark.parametrize("pieces", ["mean", "first", "last"])
def test_a_text_longer_than_the_network_is_read_in_the_windows_of_encoding(name, pieces, shared_data):
    encoder = polyseme.load(shared_data / "models" / "hf_tiny" / name).pooled_by(pieces)
    words = ["房间", "unbelievable", "的", "good", "酒店", "房", "，"]
    sentences = [[words[n * n % 7] for n in range(k)] for k in (encoder.runner.room, 2 * encoder.runner.room + 5, 1, 0)]
    tuned = encoder.tuned()
    with torch.no_grad():
        layers = tuned.network.eval()(*tuned.read(sentences)).numpy()  # (B, T, L, D)
    for row, encoded in enumerate(encoder.encode_tokens(sentences)):
        np.testing.assert_allclose(
            layers[row, : len(sentences[row])], encoded.layers.transpose(1, 0, 2), atol=2e-5, rtol=1e-4
        )


def test_the_cross_encoder_reads_both_texts_as_one(bert, tmp_path):
    model = polyseme.fit("pair", pairs(24), encoder=bert, head="cross", threads=1, epochs=1, batch_size=8)
    rows = [("房间很干净。", "服务很热情。"), ("", ""), ("房间" * 400, "前台")]
    found = model.probabilities(rows)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert (model.probabilities([rows[0][::-1]]) != found[:1]).any()
    model.save(tmp_path / "m")
    np.testing.assert_allclose(polyseme.load(tmp_path / "m").probabilities(rows), found, atol=1e-5)
    with pytest.raises(OptionError, match="give one encoder"):
        polyseme.fit("pair", pairs(24), head="cross")


def test_pairs_learned_in_a_random_order_are_read_as_the_mean_of_both(bert, tmp_path):
    tuned = {"head": "cross", "threads": 1, "epochs": 1, "batch_size": 8, "held_out": 0}
    model, again, in_order = (
        polyseme.fit("pair", pairs(24), encoder=bert, orders=orders, **tuned) for orders in ("random", "random", "one")
    )
    rows = [("房间很干净。", "服务很热情。"), ("房间" * 400, "前台")]
    found = model.probabilities(rows)
    np.testing.assert_allclose(model.probabilities([row[::-1] for row in rows]), found, atol=1e-6)
    np.testing.assert_array_equal(again.probabilities(rows), found)  # the orders drawn depend on the seed alone
    network, pieces = model.reader.encoder.network, model.reader.encoder.pieces
    first, second = rows[0]
    with torch.no_grad():
        states = []
        for ids, types in (pieces.pair(first, second), pieces.pair(second, first)):
            given = {"input_ids": torch.from_numpy(ids)[None], "token_type_ids": torch.from_numpy(types)[None]}
            states.append(network.whole.base_model(**given).pooler_output)
        expected = torch.softmax(model.net.output((states[0] + states[1]) / 2), dim=1)
    np.testing.assert_allclose(found[:1], expected.numpy(), atol=1e-5)
    weight = next(iter(in_order.net.output.parameters()))
    assert not torch.equal(weight, next(iter(model.net.output.parameters())))  # it did learn from other inputs
    model.save(tmp_path / "m")
    np.testing.assert_allclose(polyseme.load(tmp_path / "m").probabilities(rows), found, atol=1e-5)


def test_tags_are_learned_from_the_first_piece_of_a_word(bert):
    rows = [(["unbelievable", "酒店"], ["B-X", "O"]), (["好", "unbelievable"], ["O", "B-X"])] * 10
    model = polyseme.fit("tag", Examples.of(rows, kind="tags"), encoder=bert, encoder_mode="finetune", **SMALL)
    words, encoder = ["酒店", "unbelievable"], model.inputs.encoders[0]
    text_ids = encoder.pieces.ids(["酒店unbelievable"])[0]  # of the words as they are joined
    assert len(text_ids) > 3  # the second word has several pieces
    ids = torch.tensor([[*encoder.pieces.before, *text_ids, *encoder.pieces.behind]])
    with torch.no_grad():
        states = encoder.network.whole.base_model(ids).last_hidden_state[0]
        found = model.net.inputs(model.inputs.prepare([words]).batch(np.array([0]))).x[0]
    torch.testing.assert_close(found, states[[1, 3]], atol=1e-4, rtol=1e-4)  # 酒 of 酒店, and the other word's first
    assert bert.options.pieces == "mean"  # the given one stays


def test_an_encoder_that_cannot_learn_says_so(vectors):
    with pytest.raises(OptionError, match="cannot be fine-tuned"):
        polyseme.fit(
            "classify", Examples.of(reviews(20)), encoder=CountingEncoder(vectors), head="rnn", encoder_mode="finetune"
        )


def test_lower_layers_learn_more_slowly_and_those_below_the_top_ones_not_at_all(bert):
    texts = Examples.of(reviews(24))
    given = {name: tensor.clone() for name, tensor in bert.network.state_dict().items()}
    model = polyseme.fit("classify", texts, encoder=bert, head="linear", encoder_mode="finetune", top_layers=1, **SMALL)
    learned = inner_encoder(model).network.state_dict()
    moved = {name for name, tensor in learned.items() if not torch.equal(tensor, given[name])}
    top = max(int(name.split("encoder.layer.")[1].split(".")[0]) for name in given if "encoder.layer." in name)
    assert moved
    assert all(f"encoder.layer.{top}." in name or ".pooler." in name for name in moved)
    assert any(".pooler." in name for name in moved)

    own = head_options("classify", model.options, len(texts))
    task = model.learning(texts, None, own, silent)
    rates = {name.rsplit("network.", 1)[-1]: group.lr_factor for name, group in task.groups(0).items()}
    layer = "whole.bert.encoder.layer."
    known = [rates[f"{layer}{number}."] for number in range(top + 1)]
    assert known == pytest.approx([0.3 / 1.1 ** (top - number) for number in range(top + 1)])


def test_a_model_of_sentence_transformers_is_tuned_by_the_transformer_in_it(bert):
    tuned = {"head": "linear", "encoder_mode": "finetune", **SMALL}
    both = [
        polyseme.fit("classify", Examples.of(reviews(16)), encoder=encoder, pool=pool, **tuned)
        for encoder, pool in ((SentenceTransformer(bert, ("mean",)), "auto"), (bert, "mean"))
    ]
    lines = [text for text, _ in reviews(4, seed=3)]
    np.testing.assert_allclose(both[0].probabilities(lines), both[1].probabilities(lines), atol=1e-6)


def test_a_bert_classifies_by_its_pooler_over_the_first_token_as_transformers_does(bert, shared_data, tmp_path):
    tuned = {"encoder_mode": "finetune", **SMALL}
    model = polyseme.fit("classify", Examples.of(reviews(16)), encoder=bert, **tuned)
    model.save(tmp_path / "m")
    texts, layer = ["房间很干净。", "服务 unbelievable"], model.output[-1]
    folder = shared_data / "models" / "hf_tiny" / "bert-tiny-zh"
    tokenizer, whole = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    whole.load_state_dict(model.encoder.encoder.network.whole.base_model.state_dict())
    with torch.no_grad():
        first = whole(**tokenizer(texts, padding=True, return_tensors="pt")).pooler_output
        expected = torch.softmax(first @ layer.weight.T + layer.bias, dim=1).numpy()
    for loaded in (model, polyseme.load(tmp_path / "m")):
        np.testing.assert_allclose(loaded.probabilities(texts), expected, atol=1e-5)
    by_mean, by_first = (
        polyseme.fit("classify", Examples.of(reviews(16)), encoder=bert, pool=pool, **tuned).probabilities(texts)
        for pool in ("mean", "first")
    )
    np.testing.assert_allclose(by_first, expected, atol=1e-5)
    assert not np.allclose(by_mean, expected, atol=1e-3)
    with pytest.raises(OptionError, match="pool=sif is for a frozen encoder"):
        polyseme.fit("classify", Examples.of(reviews(16)), encoder=bert, pool="sif", **tuned)


def test_vectors_in_training_are_those_of_the_sentence_encoder(bert):
    encoder = SentenceTransformer(bert, ("mean", "max"), [Dense(2 * bert.dim, 6)])
    texts = ["房间很干净。", "好", "", "服务员的态度 unbelievable 极了，下次还来。"]
    tuned = TunedTexts(encoder)
    with torch.no_grad():
        vectors = tuned.net.eval()(tuned.prepare(texts).batch(np.arange(4))).vectors.numpy()
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-5)


def test_of_a_long_text_both_ends_are_read(bert):
    encoder = to_tune(bert, LinearOptions(max_pieces=12), bert.about)
    long = "一二三四五六七八九十百千万上下左右大小多少"
    np.testing.assert_allclose(encoder.encode([long]), encoder.encode([long[:5] + long[-5:]]), atol=1e-6)


def test_the_pieces_that_are_not_read_stay_as_they_are(bert, monkeypatch):
    monkeypatch.setattr("polyseme.contexts.transformer.network.LARGE_TABLE", 1)
    texts = Examples.of(reviews(16))
    model = polyseme.fit("classify", texts, encoder=bert, encoder_mode="finetune", weight_decay=0.1, **SMALL)
    tables = [one.network.whole.get_input_embeddings().weight for one in (bert, model.encoder.encoder)]
    moved = {n for n, (a, b) in enumerate(zip(*tables, strict=True)) if not torch.equal(a, b)}
    read = {n for ids in bert.pieces.ids([row.text for row in texts]) for n in ids.tolist()}
    assert moved
    assert moved <= read | {*bert.pieces.before, *bert.pieces.behind}


def test_before_anything_is_learned_scores_follow_the_cosines_of_the_sentence_encoder(bert, tmp_path):
    encoder, examples = SentenceTransformer(bert), scored_pairs(12)
    model = polyseme.fit("pair", examples, encoder=encoder, head="cosine", epochs=0, threads=1)
    rows = [(row.first, row.second) for row in examples]
    first, second = (torch.from_numpy(encoder.encode([row[side] for row in rows])) for side in (0, 1))
    cosines = torch.cosine_similarity(first, second).numpy()
    scores = np.array([found.score for found in model.predict(rows)])
    np.testing.assert_allclose(scores, 5 / (1 + np.exp(2 - 5 * cosines)), atol=1e-4)
    model = polyseme.fit("pair", examples, encoder=encoder, head="cosine", **SMALL)
    model.save(tmp_path / "m")
    again = polyseme.load(tmp_path / "m")
    np.testing.assert_allclose(again.outputs(rows), model.outputs(rows), atol=1e-5)
    with pytest.raises(OptionError, match="learns scores"):
        polyseme.fit("pair", pairs(8), encoder=encoder, head="cosine")


def test_a_transformer_that_learns_has_a_head_that_suits_it_unless_one_is_given(bert, elmo):
    def chosen(task, train, encoder, **options):
        return plan_fit(task, train, None, encoder, **options).options.head

    texts, tuned = Examples.of(reviews(8)), {"encoder_mode": "finetune"}
    assert chosen("classify", texts, bert, **tuned) == "linear"
    assert chosen("classify", texts, SentenceTransformer(bert), **tuned) == "linear"
    assert chosen("classify", texts, bert, **tuned, head="rnn") == "rnn"
    assert [chosen("classify", texts, *given) for given in ([bert], [None])] == ["textcnn", "textcnn"]
    assert chosen("classify", texts, elmo, **tuned) == "textcnn"
    assert chosen("pair", pairs(8), bert, **tuned) == "cross"
    assert chosen("pair", pairs(8), bert) == "bilstm-max"
    assert chosen("pair", scored_pairs(8), SentenceTransformer(bert), **tuned) == "cosine"
    assert chosen("pair", scored_pairs(8), bert, **tuned) == "cross"


@pytest.mark.parametrize(("dim", "rate"), [(48, 0.3), (384, 0.1), (768, 0.05), (1024, 0.02)])
def test_the_wider_a_transformer_the_more_slowly_it_learns(dim, rate):
    config = BertConfig(vocab_size=8, hidden_size=dim, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    assert usual_rate(Network(BertModel(config))) == rate
    assert usual_rate(torch.nn.Linear(2, 2)) == 0.1


def test_the_fewer_examples_the_more_passes_over_them():
    assert [tuned_epochs(n) for n in (50, 1000, 4000, 8000, 10**6)] == [20, 7, 3, 3, 2]


def test_few_examples_are_all_learned_from_unless_a_part_is_asked_for(bert):
    few = Examples.of(reviews(40))

    def held_out_scores(**options):
        return ["accuracy" in point for point in polyseme.fit("classify", few, None, bert, **options).about.curve]

    tuned = {"encoder_mode": "finetune", "threads": 1, "epochs": 1}
    assert held_out_scores(**tuned) == [False]
    assert held_out_scores(**tuned, held_out=0.2) == [True]
    assert held_out_scores(threads=1, epochs=1, head="linear") == [True]  # whose rate stays: it has to be stopped
    assert held_out_share(ClassifyOptions(), head_options("classify", ClassifyOptions(head="ulmfit")), 500) == 0.1


def test_fine_tuning_has_defaults_of_its_own_and_what_is_given_wins():
    for task, options in (("classify", ClassifyOptions), ("tag", TagOptions), ("pair", PairOptions)):
        head = "linear"
        tuned = head_options(task, options(head=head, encoder_mode="finetune", epochs=7))
        assert (tuned.lr, tuned.schedule, tuned.layers, tuned.epochs) == (1e-3, "slanted", "top", 7)
        assert head_options(task, options(head=head)).layers == "mix"
