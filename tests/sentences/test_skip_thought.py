"""Skip-thought against a decoder that runs word by word, an exact linear map, and artificial text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import polyseme
from polyseme.errors import OptionError, TrainingError
from polyseme.sentences import sentence_order, universal
from polyseme.sentences.sentence_order import (
    END,
    UNKNOWN,
    SkipThoughtModule,
    Stories,
    TargetWords,
    WordDecoder,
    WordOutput,
    linear_map,
)
from polyseme.text.corpus import Corpus


def test_a_decoder_reads_each_word_to_write_the_next_one_and_then_the_end():
    torch.manual_seed(0)
    lists = [["b", "a", "a"], [], ["c", "x"]]
    written = TargetWords.of([["a", "a", "b", "c"]], 1)
    ids = written.ids(lists)
    assert ids.padded(np.arange(3), 4).tolist() == [[3, 2, 2, END], [END, 0, 0, 0], [4, UNKNOWN, END, 0]]
    x, vectors = torch.randn(3, 3, 5), torch.randn(3, 4)
    decoder = WordDecoder(5, 4)
    output = WordOutput(4, written.counts, negative=100)
    torch.nn.init.normal_(output.bias)
    classes = torch.from_numpy(ids.padded(np.arange(3), 4))
    states, targets = decoder(x, np.array([3, 0, 2]), vectors, classes)
    found = output.loss(states, targets, np.random.default_rng(0))
    # The same by a cell of torch that reads [word before; vector], a sentence at a time.
    cell = torch.nn.GRUCell(5 + 4, 4)
    rnn, condition = decoder.rnn, decoder.condition.weight
    cell.weight_ih.data = torch.cat([rnn.weight_ih_l0, condition], dim=1).data
    cell.weight_hh.data, cell.bias_ih.data, cell.bias_hh.data = (
        getattr(rnn, f"{name}_l0").data for name in ("weight_hh", "bias_ih", "bias_hh")
    )
    expected = torch.zeros(())
    for number, tokens in enumerate(lists):
        h, before = vectors[number], torch.zeros(5)
        for step in range(len(tokens) + 1):
            h = cell(torch.cat([before, vectors[number]])[None], h[None])[0]
            expected = expected + F.cross_entropy(h @ output.weight.t() + output.bias, classes[number, step])
            before = x[number, step] if step < len(tokens) else before
    torch.testing.assert_close(found, expected)
    assert output.score(states, targets) == pytest.approx(expected.item(), rel=1e-5)


def test_neighbours_are_sentences_of_the_same_document():
    stories = Stories([["w"]] * 6, np.array([0, 0, 0, 1, 2, 2]))
    rows = np.array([5, 0, 3, 1])
    assert rows[stories.neighbours(rows, 1, 6)].tolist() == [0, 1]
    assert rows[stories.neighbours(rows, -1, 6)].tolist() == [5, 1]
    assert rows[stories.neighbours(rows, 1, 2)].tolist() == [0]  # what lies behind the end is held out


def test_the_encoders_are_forward_both_ways_or_side_by_side():
    sizes = {how: SkipThoughtModule(3, 8, how) for how in ("uni", "bi", "combined")}
    assert {how: module.dim for how, module in sizes.items()} == {"uni": 8, "bi": 8, "combined": 16}
    assert [one.n_directions for one in sizes["combined"].encoders] == [1, 2]
    with pytest.raises(OptionError, match="even"):
        SkipThoughtModule(3, 7, "bi")


def topics(n_blocks: int) -> list[list[str]]:
    """Documents whose sentences are all on one topic, with different words."""
    random = np.random.default_rng(0)
    words = [[f"{letter}{n}" for n in range(6)] for letter in "abc"]
    return [random.choice(words[block % 3], 3).tolist() for block in range(n_blocks) for _ in range(8)]


SMALL = {"dim": 12, "hidden": 12, "epochs": 4, "batch_size": 16, "min_count": 1, "lr": 0.01, "threads": 1}


@pytest.mark.parametrize("how", [{}, {"directions": "combined", "condition": "first-state", "negative": 6}])
def test_sentences_that_are_followed_alike_become_alike(how):
    model = polyseme.train("skip-thought", Corpus.from_sentences(topics(45)), **SMALL, **how)
    # Of 18 words, a sentence's neighbours have 6: an end, then chance among these.
    assert model.about.curve[-1]["held_out_loss"] < (3 * np.log(6) + 0.5) / 4 + 0.15
    alike = model.similarity([["a0", "a1", "a2"]], [["a3", "a4", "a5"], ["b3", "b4", "b5"]])[0]
    assert alike[0] > alike[1]


def test_the_map_between_two_spaces_is_found_exactly():
    random = np.random.default_rng(1)
    x, turn, shift = random.normal(size=(40, 5)), random.normal(size=(5, 3)), random.normal(size=3)
    found = linear_map(x.astype(np.float32), (x @ turn + shift).astype(np.float32))
    np.testing.assert_allclose(found, np.vstack([turn, shift]), atol=1e-5)


def test_words_that_only_the_given_vectors_have_are_mapped_into_the_encoder(tmp_path):
    random = np.random.default_rng(2)
    known = [f"{letter}{n}" for letter in "abc" for n in range(6)]
    given = {word: random.normal(size=4) for word in [*known, "new", "b9"]}
    lines = [f"{word} {' '.join(f'{x:.6f}' for x in vector)}" for word, vector in given.items()]
    (tmp_path / "given.txt").write_text(f"{len(given)} 4\n" + "\n".join(lines) + "\n", encoding="utf-8")
    corpus = Corpus.from_sentences(topics(9))
    model = polyseme.train("skip-thought", corpus, **SMALL, expand=str(tmp_path / "given.txt"))
    plain = polyseme.train("skip-thought", corpus, **SMALL)
    np.testing.assert_array_equal(model.encode([["a0", "b1"]]), plain.encode([["a0", "b1"]]))  # known words keep theirs
    table, learned = model.inputs.sources[0], plain.inputs.sources[0]
    rows = plain.inputs.module.sources[0].weight.detach().numpy()[[learned.index[word] for word in known]]
    x = np.hstack([[given[word] for word in known], np.ones((18, 1))])
    expected = np.append(given["new"], 1) @ np.linalg.solve(x.T @ x, x.T @ rows)  # the normal equations
    np.testing.assert_allclose(table.module.weight.detach().numpy()[table.index["new"]], expected, atol=1e-3)
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "m").encode([["new"]]), model.encode([["new"]]))


@pytest.mark.parametrize("method", ["skip-thought", "gensen"])
def test_too_few_words_to_expand_from_are_told_before_the_training(tmp_path, method, monkeypatch):
    monkeypatch.setattr(sentence_order, "fit", None)
    monkeypatch.setattr(universal, "fit", None)
    (tmp_path / "few.txt").write_text("1 4\na0 1 2 3 4\n", encoding="utf-8")
    corpus = Corpus.from_sentences(topics(9))
    with pytest.raises(TrainingError, match="too few"):
        polyseme.train(
            method, {"corpus": corpus} if method == "gensen" else corpus, **SMALL, expand=str(tmp_path / "few.txt")
        )
