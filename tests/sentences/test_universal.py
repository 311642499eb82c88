"""GenSen and USE: each signal is learned, and a Transformer's states are summed as the paper says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import polyseme
from polyseme.data.examples import Examples
from polyseme.data.parallel import Parallel
from polyseme.errors import OptionError
from polyseme.learn.modules import TextTokens
from polyseme.sentences import universal
from polyseme.sentences.options import UseOptions
from polyseme.sentences.universal import StateSumModule
from polyseme.text.corpus import Corpus

TOPICS = [[f"{letter}{n}" for n in range(6)] for letter in "abc"]


def sentences(seed: int, n: int) -> list[tuple[int, list[str]]]:
    random = np.random.default_rng(seed)
    return [(number // 8 % 3, random.choice(TOPICS[number // 8 % 3], 3).tolist()) for number in range(n)]


def sources(folder) -> dict:
    """Artificial data: neighbours share a topic, translations are in capitals, labels are the topic."""
    told = sentences(1, 240)
    texts = [(" ".join(words), "abc"[topic]) for topic, words in told]
    pairs = [(a[0], b[0], "same" if a[1] == b[1] else "other") for a, b in zip(texts, texts[4:], strict=False)]
    (folder / "parallel.tsv").write_text("".join(f"{text}\t{text.upper()}\n" for text, _ in texts), encoding="utf-8")
    return {
        "corpus": Corpus.from_sentences([words for _, words in sentences(0, 360)]),
        "parallel": Parallel.read(folder / "parallel.tsv"),
        "nli": Examples.of(pairs),
        "texts": Examples.of(texts),
    }


SMALL = {"dim": 12, "hidden": 16, "classifier": 16, "batch_size": 16, "min_count": 1, "lr": 0.01, "threads": 1}


def test_gensen_learns_from_all_its_sources_at_once(tmp_path):
    shares = "corpus=1 parallel=2 nli=1 texts=1"
    model = polyseme.train("gensen", sources(tmp_path), epochs=8, patience=0, shares=shares, dropout=0.0, **SMALL)
    best = {name: [report[name] for report in model.about.curve] for name in model.about.curve[-1]}
    assert min(best["corpus_held_out_loss"]) < (3 * np.log(6) + 0.5) / 4 + 0.15  # one of six words, then the end
    assert min(best["parallel_held_out_loss"]) < 3 * np.log(6) / 4  # knowing the topic alone
    assert max(best["nli_accuracy"]) > 0.9
    assert max(best["texts_accuracy"]) > 0.9
    assert model.dim == 16
    alike = model.similarity(["a0 a1 a2"], ["a3 a4 a5", "b3 b4 b5"])[0]
    assert alike[0] > alike[1]


@pytest.mark.parametrize("name", ["corpus", "parallel", "nli", "texts"])
def test_any_one_source_is_enough_for_gensen(name, tmp_path):
    data = {name: sources(tmp_path)[name]}
    assert np.isfinite(polyseme.train("gensen", data, epochs=1, **SMALL).encode(["a0 a1", ""])).all()
    with pytest.raises(OptionError, match="not given"):
        polyseme.train("gensen", data, shares="other=1", **SMALL)


@pytest.mark.parametrize("method", ["gensen", "use"])
def test_balanced_weights_count_for_pairs_too(method, tmp_path):
    uneven = {"nli": sources(tmp_path)["nli"].subset([n for n in range(96) if n % 8 < 5])}  # four of five are "same"
    options = {**SMALL, "epochs": 1}
    plain, balanced = (polyseme.train(method, uneven, class_weights=how, **options) for how in ("none", "balanced"))
    assert np.abs(plain.encode(["a0 a1 b2"]) - balanced.encode(["a0 a1 b2"])).max() > 1e-6


@pytest.mark.parametrize("encoder", ["dan", "transformer"])
def test_use_learns_from_neighbours_answers_and_labels(encoder, tmp_path):
    given = sources(tmp_path)
    lines = [f"{' '.join(words)}\n{'xyz'[topic]} {'xyz'[topic]}{number % 5}\n"
             for number, (topic, words) in enumerate(sentences(2, 240))]  # fmt: skip
    (tmp_path / "talk.txt").write_text("\n".join(lines), encoding="utf-8")
    data = {"corpus": given["corpus"], "dialogues": str(tmp_path / "talk.txt"), "nli": given["nli"]}
    options = {**SMALL, "batch_size": 24, "epochs": 4, "patience": 0, "input_dropout": 0.0, "lr": 0.005}
    model = polyseme.train("use", data, encoder=encoder, n_heads=2, inner=32, nonlinear=True, **options)
    curve = model.about.curve
    # Of 24 answers in a batch about a third share the topic and so a share of the words.
    assert min(report["dialogues_held_out_loss"] for report in curve) < np.log(12) - 0.3  # 12 are held out
    assert max(report["nli_accuracy"] for report in curve) > 0.85
    alike = model.similarity(["a0 a1 a2"], ["a3 a4 a5", "b3 b4 b5"])[0]
    assert alike[0] > alike[1]


def test_a_transformers_states_are_summed_and_divided_by_the_root_of_the_length(monkeypatch):
    torch.manual_seed(0)
    module = StateSumModule(3, UseOptions(hidden=8, n_heads=2, inner=16)).eval()
    x = torch.randn(2, 7, 3)
    mask = torch.arange(7)[None] < torch.tensor([[7], [4]])
    found = module(TextTokens(x, mask)).vectors
    alone = module.layers(module.enter(x[1:, :4]), mask[1:, :4])[-1][0]
    torch.testing.assert_close(found[1], alone.sum(dim=0) / 2)  # √4
    monkeypatch.setattr(universal, "STRETCH", 4)
    stretches = module(TextTokens(x, mask)).vectors
    torch.testing.assert_close(stretches[1], found[1])
    rest = module.layers(module.enter(x[:1, 4:]), mask[:1, 4:])[-1][0]
    first = module.layers(module.enter(x[:1, :4]), mask[:1, :4])[-1][0]
    torch.testing.assert_close(stretches[0], (first.sum(dim=0) + rest.sum(dim=0)) / 7**0.5)


def test_the_dan_reads_bigrams_too_and_so_knows_some_order():
    data = {"corpus": Corpus.from_sentences([words for _, words in sentences(0, 80)])}
    model = polyseme.train("use", data, epochs=1, **{**SMALL, "batch_size": 8})
    assert not np.allclose(model.encode(["a0 a1"]), model.encode(["a1 a0"]))
    without = polyseme.train("use", data, epochs=1, bigrams=0, **{**SMALL, "batch_size": 8})
    np.testing.assert_allclose(without.encode(["a0 a1"]), without.encode(["a1 a0"]), atol=1e-6)
