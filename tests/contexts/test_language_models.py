"""Every language model costs a text what the chain rule says, by NumPy, plain torch or transformers' own networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import polyseme
from polyseme import interfaces
from polyseme.contexts.elmo.plain import open_plain
from polyseme.contexts.ulmfit import model as ulmfit_model
from polyseme.errors import OptionError, TextError
from polyseme.evaluate.kinds import evaluate_file
from polyseme.interfaces import LanguageModel
from polyseme.sentences.lift import lift
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

SENTENCES = [
    ["小明", "打", "了", "电话"],
    ["姐姐", "喜欢", "reading", "old", "books", "。"],  # the words of the model, others, and blanks between them
    ["顯微鏡"],
]
TEXTS = ["小明打了电话", "姐姐喜欢reading old books。", "顯微鏡"]  # the same, as it is written
CLASSES = ["小明", "姐姐", "打", "了", "电话", "喜欢", "。"]
CHARACTERS = sum(len(word) for words in SENTENCES for word in words)
SMALL = {"min_count": 1, "threads": 1}
TINY = {"dim": 16, "n_layers": 1, "n_heads": 2, "length": 48, "max_size": 60, "batch_size": 8, "threads": 1, "lr": 1e-2}
Losses = list[list[float]]  # -log p of every prediction, by direction; words first, in text order


class Chain(NamedTuple):
    """What the chain rule gives for a sentence."""

    losses: Losses
    by_word: list[float]  # of the first direction
    unknown: int


@pytest.fixture(scope="module")
def corpus(fifty_lines) -> Corpus:
    return Corpus.from_sentences([*fifty_lines, "Anna likes the old room and reads old books."] * 2)


@pytest.fixture(scope="module")
def models(corpus, random_elmo, tmp_path_factory) -> Callable[[str], Any]:
    """A small model of each kind, made once."""
    folder = tmp_path_factory.mktemp("models")
    makers: dict[str, Callable[[], Any]] = {
        "elmo": lambda: random_elmo(alphabet="words", words=CLASSES, classes=CLASSES),
        "plain elmo": lambda: _plain(model("elmo"), folder / "elmo"),
        "ulmfit": lambda: polyseme.train("ulmfit", corpus, dim=8, hidden=10, n_layers=2, epochs=1, lr=0.05, **SMALL),
        "ulmfit backward": lambda: polyseme.train(
            "ulmfit", corpus, dim=8, hidden=10, units="chars", direction="backward", epochs=1, **SMALL
        ),
        "nnlm": lambda: polyseme.train("nnlm", corpus, dim=8, hidden=6, order=3, epochs=2, **SMALL),
        "bert": lambda: polyseme.train("bert", corpus, epochs=1, pairs="none", **TINY),
        "gpt": lambda: polyseme.train("gpt", corpus, epochs=1, **TINY),
        "xlm": lambda: polyseme.train("xlm", {"zh": corpus}, epochs=1, objective="clm", **TINY),
    }
    made: dict[str, Any] = {}

    def model(name: str) -> Any:
        if name not in made:
            made[name] = makers[name]()
        return made[name]

    return model


def _plain(elmo: Any, path: Path) -> Any:
    elmo.save(path)
    return open_plain(path)


# ---- the references


def log_softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    logits = np.asarray(logits, dtype=np.float64)
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def of_elmo(model: Any, words: list[str], text: str, numpy_bilm: Callable[..., Any]) -> Chain:
    """The biLM in NumPy; the classes unknown, begin and end follow the words."""
    weights = {name: tensor.detach().numpy() for name, tensor in model.bilm.state_dict().items()}
    n = len(CLASSES)
    ids = model.alphabet.name_all(["<bos>", *words, "<eos>"]).tolist()
    top = numpy_bilm(weights, model.bilm.config, [(None, i) for i in ids], boundaries=True)[-1]
    half = top.shape[1] // 2
    classes = [n + 1, *(CLASSES.index(word) if word in CLASSES else n for word in words), n + 2]

    def loss(state: NDArray[Any], place: int) -> float:
        return -float(log_softmax(weights["softmax_weight"] @ state + weights["softmax_bias"])[classes[place]])

    forward = [loss(top[place - 1, :half], place) for place in range(1, len(ids))]
    backward = [loss(top[place + 1, half:], place) for place in range(len(ids) - 1)]
    losses = [forward, [*backward[1:], backward[0]]]
    return Chain(losses, forward[:-1], classes.count(n))


def of_ulmfit(model: Any, words: list[str], text: str) -> Chain:
    """Plain nn.LSTMs under a softmax over the embeddings."""
    pieces = [list(word) for word in words] if model.options.units == "chars" else [[word] for word in words]
    if model.options.units == "chars" and "old" in words:  # blanks are units of their own between words of letters
        for word in ("old", "books"):
            pieces[words.index(word)].insert(0, " ")
    units = [model.units.index.get(unit, 1) for word in pieces for unit in word]
    backward = model.options.direction == "backward"
    row = [0, *(units[::-1] if backward else units), 0]
    x = model.module.table[torch.tensor(row[:-1])][None]
    for layer, (n_in, n_out) in zip(model.module.layers, model.options.layer_sizes(), strict=True):
        plain = nn.LSTM(n_in, n_out, batch_first=True)
        plain.load_state_dict({
            "weight_ih_l0": layer.input[0], "weight_hh_l0": layer.recurrent[0],
            "bias_ih_l0": layer.bias[0], "bias_hh_l0": torch.zeros_like(layer.bias[0]),
        })  # fmt: skip
        x, _ = plain(x)
    logits = (x[0] @ model.module.table.T + model.module.bias).detach().numpy()
    losses = [-float(log_softmax(scores)[target]) for scores, target in zip(logits, row[1:], strict=True)]
    of_units = losses[:-1][::-1] if backward else losses[:-1]
    ends = np.cumsum([len(word) for word in pieces])
    by_word = [sum(of_units[end - len(word) : end]) for word, end in zip(pieces, ends, strict=True)]
    return Chain([[*of_units, losses[-1]]], by_word, units.count(1))


def of_nnlm(model: Any, words: list[str], text: str) -> Chain:
    """softmax(b + U tanh(d + H x)) in NumPy; the unknown word and the boundary follow the words."""
    weights = {name: tensor.detach().numpy().astype(np.float64) for name, tensor in model.module.state_dict().items()}
    known, n = list(model.index_to_key), len(model)
    ids = [known.index(word) if word in known else n for word in words]
    padded, losses = [n + 1, n + 1, *ids, n + 1], []
    for at in range(2, len(padded)):
        x = np.concatenate([weights["words.weight"][padded[at - 1]], weights["words.weight"][padded[at - 2]]])
        hidden = np.tanh(weights["inner.weight"] @ x + weights["inner.bias"])
        losses.append(-float(log_softmax(weights["table"] @ hidden + weights["bias"])[padded[at]]))
    return Chain([losses], losses[:-1], ids.count(n))


def of_transformer(model: Any, words: list[str], text: str) -> Chain:
    """The network of transformers on the pieces of the library ``tokenizers``, one window or one mask at a time."""
    cut = model.pieces.tokenizer.encode(text, add_special_tokens=False)
    whole = model.pieces.tokenizer.encode(text).ids
    ids, network = cut.ids, model.network.whole.eval()
    before = whole.index(ids[0]) if whole != ids else 0
    losses: dict[int, float] = {}

    def logits(row: list[int]) -> NDArray[Any]:
        languages = {"langs": torch.zeros(1, len(row), dtype=torch.long)} if model.method == "xlm" else {}
        with torch.inference_mode():
            return np.asarray(network(torch.tensor([row]), **languages).logits[0])

    for place, target in enumerate(ids):
        if model.language == "masked":
            row = [*whole[:before], *ids, *whole[before + len(ids) :]]
            row[before + place] = model.pieces.tokenizer.token_to_id("[MASK]")
            losses[place] = -float(log_softmax(logits(row)[before + place])[target])
        elif before + place:
            losses[place] = -float(log_softmax(logits([*whole[:before], *ids[:place]])[-1])[target])
    by_word, end = [], 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        inside = [n for n, (first, last) in enumerate(cut.offsets) if first < end and last > start]
        by_word.append(sum(losses.get(n, 0.0) for n in inside))
    unknown = model.pieces.id_of("unk")
    return Chain([list(losses.values())], by_word, ids.count(unknown))


REFERENCES: dict[str, Callable[..., Chain]] = {
    "elmo": of_elmo, "plain elmo": of_elmo, "ulmfit": of_ulmfit, "ulmfit backward": of_ulmfit, "nnlm": of_nnlm,
    "bert": of_transformer, "gpt": of_transformer, "xlm": of_transformer,
}  # fmt: skip


@pytest.fixture
def chains(models, numpy_bilm) -> Callable[[str], list[Chain]]:
    def of(name: str) -> list[Chain]:
        model, more = models(name), {"numpy_bilm": numpy_bilm} if "elmo" in name else {}
        if name == "plain elmo":
            model = models("elmo")
        return [REFERENCES[name](model, words, text, **more) for words, text in zip(SENTENCES, TEXTS, strict=True)]

    return of


# ---- what all of them promise


@pytest.mark.parametrize("name", REFERENCES)
def test_perplexity_and_bits_are_those_of_the_chain_rule(name, models, chains):
    wanted, found = chains(name), models(name).perplexity(SENTENCES)
    ways = [[loss for chain in wanted for loss in chain.losses[way]] for way in range(len(wanted[0].losses))]
    means = [float(np.mean(losses)) for losses in ways]
    assert found.perplexity == pytest.approx(math.exp(np.mean(means)), rel=1e-4)
    assert found.bits_per_character == pytest.approx(np.mean(means) * len(ways[0]) / math.log(2) / CHARACTERS, rel=1e-4)
    assert (found.tokens, found.sentences) == (len(ways[0]), len(SENTENCES))
    assert found.unknown == sum(chain.unknown for chain in wanted)
    if len(means) == 2:
        assert [found.forward, found.backward] == pytest.approx(list(map(math.exp, means)), rel=1e-4)
    else:
        assert found.forward is found.backward is None


@pytest.mark.parametrize("name", REFERENCES)
def test_surprisals_are_the_sums_over_the_units_of_each_word(name, models, chains):
    found = models(name).surprisals([*SENTENCES, []])
    for wanted, of_words in zip([chain.by_word for chain in chains(name)], found, strict=False):
        assert of_words.dtype == np.float32
        np.testing.assert_allclose(of_words, wanted, rtol=1e-4, atol=1e-4)
    assert found[-1].shape == (0,)


@pytest.mark.parametrize("name", REFERENCES)
def test_a_text_costs_the_same_however_it_is_paged(name, models, monkeypatch):
    model = models(name)
    many = [*SENTENCES, ["小明", "喜欢"] * 9, *SENTENCES[:1]]
    whole = model.perplexity(many)
    monkeypatch.setattr(interfaces, "CHARACTERS_AT_ONCE", 1)  # a page for each sentence
    monkeypatch.setattr(ulmfit_model, "UNITS_AT_ONCE", 7)  # and a long one in stretches
    steps = []
    paged = model.perplexity(iter(many), lambda what, done, total, **facts: steps.append((what, done, facts)))
    assert paged.perplexity == pytest.approx(whole.perplexity, rel=1e-5)
    assert (paged.tokens, paged.sentences, paged.unknown) == (whole.tokens, whole.sentences, whole.unknown)
    assert [what for what, _, _ in steps] == ["perplexity"] * len(many)
    assert steps[-1][1:] == (paged.tokens, {"perplexity": pytest.approx(paged.perplexity)})


@pytest.mark.parametrize("name", REFERENCES)
def test_what_it_expects_in_a_place_does_not_look_at_the_word_there(name, models):
    model = models(name)
    found = model.substitutes(["小明", "打", "了", "电话"], 1, topn=5)
    other = model.substitutes(["小明", "见", "了", "电话"], 1, topn=5)
    assert len(found) == 5
    assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
    assert 0 < sum(p for _, p in found) <= 1 + 1e-6
    assert dict(found) == pytest.approx(dict(other), rel=1e-3)
    (filled,) = model.fill("小明[MASK]了电话", topn=5)
    assert len(filled) == 5


@pytest.mark.parametrize("name", REFERENCES)
def test_wrong_questions_get_one_line(name, models):
    model = models(name)
    for ask, says in (
        (lambda: model.substitutes(["小明"], 1), "no position 1"),
        (lambda: model.substitutes(["小明"], -1), "no position -1"),
        (lambda: model.substitutes(["小明"], 0, topn=0), "topn must be at least 1"),
        (lambda: model.fill("小明"), "mark the"),
        (lambda: model.perplexity("小明"), "several sentences"),
    ):
        with pytest.raises(OptionError, match=says) as error:
            ask()
        assert "\n" not in str(error.value)
    with pytest.raises(TextError):
        model.perplexity([[], ""])


@pytest.mark.parametrize("name", REFERENCES)
def test_a_sentence_without_words_costs_nothing(name, models):
    model = models(name)
    with_them, without = model.perplexity([[], *SENTENCES, ""]), model.perplexity(SENTENCES)
    assert astuple(with_them)[:5] == pytest.approx(astuple(without)[:5], rel=1e-5)


@pytest.mark.parametrize("name", REFERENCES)
def test_a_file_is_evaluated_by_the_same_figures(name, models, tmp_path):
    lines = ["小明打了电话。", "姐姐喜欢看书。"]
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    report = evaluate_file(models(name), tmp_path / "text.txt")
    alone = models(name).perplexity(lines)
    ways = {} if alone.forward is None else {"forward": alone.forward, "backward": alone.backward}
    wanted = {"perplexity": alone.perplexity, "bits": alone.bits_per_character, **ways}
    assert report.kind == "perplexity"
    assert {key: report.whole[key] for key in wanted} == pytest.approx(wanted, rel=1e-5)
    used = alone.tokens - alone.unknown
    assert (report.whole["sentences"], report.whole["used"], report.whole["total"]) == (2, used, alone.tokens)


def test_what_a_model_can_do_is_declared(models, corpus, random_elmo):
    said = {name: (models(name).language, models(name).continues) for name in REFERENCES}
    assert said == {
        "elmo": ("both-ways", False), "plain elmo": ("both-ways", False), "ulmfit": ("causal", True),
        "ulmfit backward": ("causal", False), "nnlm": ("causal", False), "bert": ("masked", False),
        "gpt": ("causal", True), "xlm": ("causal", False),
    }  # fmt: skip
    assert all(isinstance(models(name), LanguageModel) for name in REFERENCES)
    for name in ("ulmfit", "gpt"):
        assert models(name).generate("小明", length=3, seed=2).startswith("小明")
    for name in ("ulmfit backward", "bert", "xlm"):
        with pytest.raises(OptionError, match="cannot continue"):
            models(name).generate("小明")
    vectors = polyseme.train("counts", corpus, min_count=1)
    assert not isinstance(lift(vectors, "contexts"), LanguageModel)
    assert lift(vectors, "contexts").language is None


def test_a_model_without_its_softmax_says_so(random_elmo):
    model = random_elmo(alphabet="words", words=CLASSES)
    assert model.language is None
    for ask in (
        lambda: model.perplexity(SENTENCES),
        lambda: model.surprisals(SENTENCES),
        lambda: model.substitutes(["了"], 0),
    ):
        with pytest.raises(OptionError, match="not a language model"):
            ask()


@pytest.mark.parametrize("name", ["nnlm", "gpt"])
def test_words_weigh_by_how_much_they_surprise_any_of_them(name, models, tmp_path):
    rows = np.eye(3, dtype=np.float32)
    words = ["小明", "打", "电话"]
    vectors = WordVectors(Vocabulary(words, np.array([3, 2, 1])), rows)
    encoder = lift(vectors, "sentences", pool="surprisal", reader=models(name), residual=0.0)
    raised = np.exp(np.clip(models(name).surprisals([words])[0].astype(np.float64), 0, 10))
    np.testing.assert_allclose(encoder.encode([words])[0], raised / raised.sum(), atol=1e-5)
    encoder.save(tmp_path / "pooled")
    np.testing.assert_allclose(polyseme.load(tmp_path / "pooled").encode([words]), encoder.encode([words]), atol=1e-6)
