"""Training Transformers: what is learned, from which start, and that it runs elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from tiny_transformers import SIZES, SMALL, save_tokenizer, wordpiece

import polyseme
from polyseme.cli.main import polyseme as command
from polyseme.contexts.transformer.files.huggingface import write_huggingface
from polyseme.contexts.transformer.network import Network
from polyseme.contexts.transformer.options import BertOptions, with_shape
from polyseme.contexts.transformer.pretrain.bert import make_task
from polyseme.contexts.transformer.pretrain.start import bert_config, fresh, look_at_neighbours
from polyseme.contexts.transformer.subwords import learn_wordpieces
from polyseme.errors import FormatError, OptionError, PolysemeError
from polyseme.text.corpus import Corpus
from polyseme.training.task import Part


@pytest.fixture(scope="module")
def shuffled(fifty_lines) -> Corpus:
    order = np.random.default_rng(1).permutation(np.repeat(np.arange(50), 4))
    return Corpus.from_sentences([fifty_lines[n] for n in order])


@pytest.fixture(scope="module")
def bert():
    """A BERT trained on lines that repeat one character: a masked character follows from its context."""
    signs = "春夏秋冬东南西北金木水火土天地人"
    order = np.random.default_rng(1).integers(len(signs), size=200)
    text = Corpus.from_sentences([[signs[n]] * 40 for n in order])
    return polyseme.train("bert", text, epochs=4, pairs="none", hold_out=0.1, **{**SMALL, "lr": 1e-2})


@pytest.fixture(scope="module")
def gpt(shuffled):
    return polyseme.train("gpt", shuffled, epochs=12, lr=5e-3, hold_out=0.1, **SMALL)


def test_bert_learns_to_tell_masked_pieces(bert):
    last = bert.about.curve[-1]
    assert last["masked_perplexity"] < 4  # by the frequencies of the signs alone it is 16
    assert last["masked_accuracy"] > 0.7
    (found,) = bert.fill("水水水水水[MASK]水水水水", topn=3)
    assert found[0][0] == "水"


def test_positions_that_fill_up_a_batch_change_nothing(corpus):
    """The loss is that of transformers, whatever the number of masked pieces; the head sees few different sizes."""
    options = with_shape(BertOptions(size="tiny", n_layers=1, max_size=200, length=32, batch_size=8, pairs="none"))
    pieces = learn_wordpieces(corpus.vocabulary, 200, corpus.segmentation, limit=32)
    network = fresh(transformers.BertForMaskedLM, bert_config(pieces, options), 1)
    task = make_task(network, pieces, corpus, options)
    sizes = set()
    network.whole.cls.register_forward_hook(lambda module, given, told: sizes.add(told.shape[-2]))
    for index in range(task.n_steps(0)):
        loss, n = task.loss(0, index, Part(0, 1))
        last = min((index + 1) * 8, task.examples.n_examples(0))
        masked = task._masked(task.examples, 0, range(index * 8, last))
        labels = torch.full(masked.batch.ids.shape, -100)
        labels[masked.rows[:n], masked.places[:n]] = masked.targets[:n]
        assert int((labels >= 0).sum()) == n
        wanted = network.whole(input_ids=masked.batch.ids, attention_mask=masked.batch.mask, labels=labels).loss
        assert loss.item() / n == pytest.approx(wanted.item(), rel=1e-5)
    assert {size for size in sizes if size != masked.batch.ids.shape[1]} <= {64, 128}


@pytest.mark.parametrize(("dim", "heads"), [(256, 4), (96, 3)])
def test_the_heads_of_a_new_bert_begin_at_the_words_next_to_each(dim, heads):
    config = transformers.BertConfig(
        vocab_size=500, hidden_size=dim, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=64,
        max_position_embeddings=64, initializer_range=dim**-0.5, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(1)
    bert = transformers.BertModel(config).eval()
    look_at_neighbours(bert)
    with torch.no_grad():
        weights = bert(torch.randint(500, (4, 64)), output_attentions=True).attentions[0]
    for head, offset in zip(range(heads), (-1, 1, -2, 2), strict=False):
        assert_looks(weights[:, head], np.arange(64), np.arange(64), offset)


def test_the_heads_of_a_new_xlm_begin_there_too_also_in_the_translation():
    config = transformers.XLMConfig(
        vocab_size=500, emb_dim=128, n_layers=2, n_heads=2, n_langs=2, max_position_embeddings=64,
        init_std=128**-0.5, embed_init_std=128**-0.5, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(1)
    xlm = transformers.XLMModel(config).eval()
    look_at_neighbours(xlm)
    places = np.tile(np.arange(32), 2)
    given = {
        "langs": torch.arange(64)[None].repeat(4, 1) // 32,
        "position_ids": torch.from_numpy(places)[None].repeat(4, 1),
    }
    with torch.no_grad():
        weights = xlm(torch.randint(5, 500, (4, 64)), **given, output_attentions=True).attentions[0]
    for head, offset in enumerate((-1, 1)):
        assert_looks(weights[:, head], places, places[:32], offset)  # at both languages, taken together


def assert_looks(weights: torch.Tensor, places: np.ndarray, seen: np.ndarray, offset: int) -> None:
    """Assert that the word at each of these positions sees most of the one ``offset`` from it, whatever the words."""
    told = weights.mean(dim=0)  # (T, T)
    told = told.view(len(places), -1, len(seen)).sum(dim=1).numpy()  # copies of a position added up
    inside = (places + offset >= 0) & (places + offset < len(seen))
    found = told[inside, places[inside] + offset]
    assert found.mean() > 8 / len(seen)  # a random head gives every place the same
    assert np.mean(told[inside].argmax(axis=1) == places[inside] + offset) > 0.9


def test_gpt_learns_to_go_on(gpt):
    first, last = gpt.about.curve[0], gpt.about.curve[-1]
    assert last["perplexity"] < first["perplexity"] / 3
    assert gpt.language == "causal"
    assert "公园" in gpt.generate("小明打电话给朋友，说明天", 6, temperature=0)


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_what_is_trained_here_gives_the_same_in_transformers(name, request, tmp_path):
    model = request.getfixturevalue(name)
    write_huggingface(model, tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf", local_files_only=True)
    network = transformers.AutoModel.from_pretrained(tmp_path / "hf", local_files_only=True).eval()
    text = "小明在学校打篮球，打得很高兴。"
    found = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        states = network(found["input_ids"], output_hidden_states=True).hidden_states
    expected = next(model.encode_pieces([text]))
    assert tokenizer.convert_ids_to_tokens(found["input_ids"][0]) == expected.tokens
    np.testing.assert_allclose(torch.stack(states)[:, 0], expected.layers, atol=1e-5)


@pytest.mark.parametrize("pairs", ["nsp", "sop"])
def test_pairs_are_judged_beside_the_masks(pairs, corpus):
    model = polyseme.train("bert", corpus, epochs=1, pairs=pairs, hold_out=0.3, **SMALL)
    assert 0 <= model.about.curve[-1]["pair_accuracy"] <= 1
    assert type(model.network.whole).__name__ == "BertForPreTraining"


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_whether_a_text_follows_another_is_said_as_transformers_says_it(kind, tmp_path):
    torch.manual_seed(2)
    whole = {
        "bert": lambda: transformers.BertForPreTraining(transformers.BertConfig(**SIZES)),
        "albert": lambda: transformers.AlbertForPreTraining(transformers.AlbertConfig(**SIZES, embedding_size=16)),
    }[kind]().eval()
    for weight in whole.parameters():  # far enough from the beginning that answers differ
        weight.data *= 8
    whole.save_pretrained(tmp_path / "m")
    save_tokenizer(tmp_path / "m", wordpiece())
    pairs = [("小明打了电话。", "没有人接。"), ("天", "小明打了电话给朋友，说明天去公园。" * 20), ("", "好")]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    model, expected = polyseme.load(tmp_path / "m"), []
    for first, second in (pairs[0], pairs[2]):
        given = tokenizer(first, second, return_tensors="pt")
        types = (given["input_ids"] == tokenizer.sep_token_id).long().cumsum(dim=1)
        types -= (given["input_ids"] == tokenizer.sep_token_id).long()  # 1 from behind the first [SEP] on
        with torch.no_grad():
            output = whole(**{**given, "token_type_ids": types})
        scores = output.seq_relationship_logits if kind == "bert" else output.sop_logits
        expected.append(torch.softmax(scores, dim=1)[0, 0].item())
    answers = model.follows(pairs)
    assert answers[[0, 2]].tolist() == pytest.approx(expected, abs=1e-5)
    assert len({*answers.round(3).tolist()}) > 1
    assert model.follows([]).tolist() == []
    said = CliRunner().invoke(command, ["follows", str(tmp_path / "m"), *pairs[0], "--json"])
    assert json.loads(said.output) == {
        "follows": expected[0] >= 0.5,
        "probability": pytest.approx(expected[0], abs=1e-5),
    }
    said = CliRunner().invoke(command, ["follows", str(tmp_path / "m"), *pairs[0]])
    assert said.output.split()[0] == ("yes" if expected[0] >= 0.5 else "no")


def test_a_model_without_that_head_says_so_in_a_line(bert, tmp_path):
    assert not bert.tells_order
    with pytest.raises(OptionError, match="has no head for pairs of sentences"):
        bert.follows([("a", "b")])
    bert.save(tmp_path / "m")
    said = CliRunner().invoke(command, ["follows", str(tmp_path / "m"), "a", "b"])
    assert said.exit_code != 0


@pytest.mark.parametrize("name", ["roberta", "electra", "gpt2"])
def test_published_models_are_trained_further_with_a_fresh_head_where_they_have_none(name, folders, corpus):
    method = "gpt" if name == "gpt2" else "bert"
    start = polyseme.load(folders(name))
    before = next(start.encode_tokens(["打电话"])).layers
    options = {"pairs": "none"} if method == "bert" else {}
    model = polyseme.train(method, corpus, start=start, epochs=1, **{**SMALL, **options})
    assert model.network.whole.config.model_type == start.network.whole.config.model_type
    assert model.pieces.names == start.pieces.names
    assert model.language == ("causal" if method == "gpt" else "masked")
    assert not np.allclose(next(model.encode_tokens(["打电话"])).layers, before)
    np.testing.assert_array_equal(next(start.encode_tokens(["打电话"])).layers, before)


def test_a_wide_network_learns_at_the_rate_of_its_own_size_and_keeps_it_when_trained_further(corpus):
    wide = {**SMALL, "dim": 768, "n_heads": 12, "epochs": 0}
    for method, rate in (("bert", 5e-5), ("gpt", 1e-4)):
        model = polyseme.train(method, corpus, **wide)
        assert model.options.lr == pytest.approx(rate)
        further = polyseme.train(method, corpus, start=model, epochs=0, threads=1)  # the size, mini, is of new networks
        assert further.options.lr == pytest.approx(5e-5)
        assert polyseme.train(method, corpus, start=model, epochs=0, threads=1, lr=1e-3).options.lr == 1e-3


def test_a_command_that_can_be_run_is_named_after_training(fifty_lines, tmp_path):
    (tmp_path / "text").write_text("\n".join(fifty_lines), encoding="utf-8")
    Corpus.build(tmp_path / "text", tmp_path / "corpus")
    small = [
        str(part) for name in ("dim", "n_layers", "n_heads") for part in (f"--{name.replace('_', '-')}", SMALL[name])
    ]
    for data, wanted in (("text", "encode {} TEXT -o VECTORS.npy"), ("corpus", "index {} {} -o INDEX")):
        places = [str(tmp_path / "m"), str(tmp_path / data)]
        done = CliRunner().invoke(
            command, ["train", "gpt", places[1], "-o", places[0], "--epochs", "0", "--force", *small]
        )
        assert done.stderr.splitlines()[-1] == f"next: polyseme {wanted.format(*places)}"


def test_an_albert_is_trained_further_with_its_own_judge_of_pairs(corpus, tmp_path):
    whole = transformers.AlbertForPreTraining(transformers.AlbertConfig(**SIZES, embedding_size=16))
    whole.save_pretrained(tmp_path)
    save_tokenizer(tmp_path, wordpiece())
    before = whole.sop_classifier.classifier.weight.detach().numpy()
    model = polyseme.train("bert", corpus, start=polyseme.load(tmp_path), pairs="sop", epochs=1, **SMALL)
    after = model.network.whole.sop_classifier.classifier.weight.detach().numpy()
    assert after.shape == before.shape
    assert not np.allclose(after, before)
    np.testing.assert_allclose(after, before, atol=0.1)  # the same judge, not a fresh one


def test_a_causal_model_is_not_trained_further_as_a_masked_one(gpt, corpus, folders):
    for start in (gpt, polyseme.load(folders("gpt2"))):
        with pytest.raises(PolysemeError) as error:
            polyseme.train("bert", corpus, start=start, **SMALL)
        assert "\n" not in str(error.value)


def test_pieces_of_another_model_may_be_taken(corpus, folders):
    model = polyseme.train("bert", corpus, tokenizer=str(folders("bert")), epochs=1, pairs="none", **SMALL)
    assert model.pieces.names == polyseme.load(folders("bert")).pieces.names


def test_a_vocabulary_alone_is_a_tokenizer_too(corpus, folders, tmp_path):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"打电话了个他天今"]
    (tmp_path / "vocab.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    model = polyseme.train("bert", corpus, tokenizer=str(tmp_path / "vocab.txt"), epochs=1, pairs="none", **SMALL)
    assert model.pieces.names == names
    given = folders("bert") / "tokenizer.json"
    again = polyseme.train("bert", corpus, tokenizer=str(given), epochs=1, pairs="none", **SMALL)
    assert again.pieces.names == polyseme.load(folders("bert")).pieces.names
    (tmp_path / "words.csv").write_text("a", encoding="utf-8")
    with pytest.raises(FormatError, match=r"neither a vocabulary \(vocab.txt\) nor tokenizer.json"):
        polyseme.train("bert", corpus, tokenizer=str(tmp_path / "words.csv"), **SMALL)


@pytest.mark.parametrize(
    ("method", "name", "lacking"), [("bert", "gpt2", "cls"), ("gpt", "bert", "eos"), ("xlm", "bert", "bos")]
)
def test_a_tokenizer_without_what_the_method_needs_is_refused(method, name, lacking, corpus, folders):
    data = {"zh": corpus} if method == "xlm" else corpus
    more = {"objective": "mlm"} if method == "xlm" else {}
    with pytest.raises(OptionError, match=f"has no {lacking} token"):
        polyseme.train(method, data, tokenizer=str(folders(name)), **SMALL, **more)


def test_what_a_published_model_cannot_do_is_told(folders, corpus, caplog):
    model = polyseme.train(
        "bert", corpus, start=polyseme.load(folders("roberta")), epochs=1, **{**SMALL, "length": 5000}
    )
    most = model.network.positions()
    assert f"reads at most {most} subwords at once: length={most}" in caplog.text
    assert "has no head for pairs of sentences: pairs=none" in caplog.text
    assert (model.options.length, model.options.pairs) == (most, "none")
    gpt = polyseme.train("gpt", corpus, start=polyseme.load(folders("gpt2")), epochs=1, norm="post", **SMALL)
    assert gpt.options.norm == "pre"  # as the network is


def test_the_sizes_are_those_that_are_published():
    base = with_shape(BertOptions(size="base"))
    assert (base.n_layers, base.dim, base.n_heads, base.inner) == (12, 768, 12, 3072)
    mini = with_shape(BertOptions(size="mini", n_heads=8))
    assert (mini.n_layers, mini.dim, mini.n_heads, mini.inner) == (4, 256, 8, 1024)
    with pytest.raises(OptionError, match="do not divide"):
        with_shape(BertOptions(dim=30, n_heads=4))


@pytest.mark.parametrize("pairs", ["nsp", "none"])
def test_a_step_learns_the_same_where_the_last_block_reads_some_places_only(pairs, corpus, monkeypatch):
    options = with_shape(BertOptions(**{**SMALL, "dropout": 0.0, "pairs": pairs}))
    pieces = learn_wordpieces(corpus.vocabulary, 200, corpus.segmentation, limit=32)
    kind = transformers.BertForMaskedLM if pairs == "none" else transformers.BertForPreTraining
    network = fresh(kind, bert_config(pieces, options), 1)
    task = make_task(network, pieces, corpus, options)
    assert network.last_block is network.whole.bert.encoder.layer[-1]
    network.train()
    found = []
    for fast in (True, False):
        if not fast:
            monkeypatch.setattr(Network, "last_block", None)
        network.zero_grad()
        loss, _ = task.loss(0, 0, Part())
        loss.backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
        found.append((float(loss.detach()), gradients))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert found[0][1].keys() == found[1][1].keys()
    for key, gradient in found[1][1].items():
        torch.testing.assert_close(found[0][1][key], gradient, atol=1e-4, rtol=1e-3)
