"""What Transformers are trained on: pieces, masks, pairs and streams as the papers say."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import polyseme
from polyseme.contexts.transformer.pretrain.corpus_tokens import PieceCorpus, PieceTable, TokenRun, split
from polyseme.contexts.transformer.pretrain.training_examples import Masking, PairExamples, StreamExamples, truncated
from polyseme.contexts.transformer.subwords import learn_byte_pairs, learn_wordpieces
from polyseme.errors import OptionError
from polyseme.text.corpus import Corpus

GPT_SPECIALS = {"unk_token": "<unk>", "eos_token": "</s>"}


@pytest.fixture(scope="module")
def table(corpus) -> PieceTable:
    return PieceTable(corpus, learn_wordpieces(corpus.vocabulary, 200, corpus.segmentation, limit=32))


# ---- pieces


def test_the_pieces_of_a_word_are_those_it_has_in_running_text(corpus):
    words = Corpus.from_sentences(["The learner learns, learning 学习 3.14 don't U.S.A. 天气！"] * 3)
    for pieces in (
        learn_wordpieces(words.vocabulary, 80, words.segmentation, limit=32),
        learn_byte_pairs(words.vocabulary, 80, words.segmentation, GPT_SPECIALS, single="$A", pair="$A $B", limit=32),
    ):
        text = pieces.ids([words.text(0)])[0].tolist()
        alone = [number for ids in pieces.ids(words.sentence(0)) for number in ids.tolist()]
        assert text == alone
        assert pieces.id_of("unk") not in text


def test_byte_pairs_join_the_most_frequent_pair_first():
    # Sennrich et al. 2016: low ×5, lowest ×2, newer ×6, wider ×3: "e r" (9) first, then "n e" … among (6).
    words = Corpus.from_sentences([["low"] * 5 + ["lowest"] * 2 + ["newer"] * 6 + ["wider"] * 3])
    pieces = learn_byte_pairs(
        words.vocabulary, 100, words.segmentation, GPT_SPECIALS, single="$A", pair="$A $B", limit=9
    )
    counts = Counter()
    for word, n in (("low", 5), ("lowest", 2), ("newer", 6), ("wider", 3)):
        signs = [word[0], *("##" + c for c in word[1:])]
        for pair in pairwise(signs):
            counts[pair] += n
    assert max(counts.values()) == counts["##e", "##r"] == 9
    single = len({sign for pair in counts for sign in pair}) + len(GPT_SPECIALS)
    assert pieces.names[single] == "##er"
    assert "newer" in pieces.names


# ---- masks


def masking(unit: str, share: float = 0.15) -> Masking:
    return Masking(unit, share, 0.8, 0.9, mask=4, ordinary=np.arange(5, 1005))


def test_eighty_per_cent_are_masked_ten_stay_and_ten_become_any_piece():
    random = np.random.default_rng(0)
    ids = np.full(100_000, 7)
    shown = masking("token").replaced(ids, random)
    assert (shown == 4).mean() == pytest.approx(0.8, abs=0.01)
    assert (shown == 7).mean() == pytest.approx(0.1, abs=0.005)
    others = shown[(shown != 4) & (shown != 7)]
    assert len(others) / len(ids) == pytest.approx(0.1, abs=0.005)
    assert set(others) <= set(range(5, 1005))
    assert len(set(others.tolist())) > 990


@pytest.mark.parametrize("unit", ["token", "word", "ngram"])
def test_fifteen_per_cent_of_the_pieces_are_chosen_and_no_special_one(unit):
    words = np.array([-1, *np.repeat(np.arange(40), [1, 2, 3, 1] * 10), -1])  # 72 pieces with both special ones
    chosen = [masking(unit).choose(words, len(words), np.random.default_rng(seed)) for seed in range(300)]
    assert all((words[places] >= 0).all() for places in chosen)
    assert max(map(len, chosen)) == 11  # round(0.15 · 72)
    assert np.mean([len(places) for places in chosen]) > 10.5
    assert len({tuple(places) for places in chosen}) > 250


def test_whole_words_are_masked_or_left_whole():
    words = np.array([-1, *np.repeat(np.arange(40), [1, 2, 3, 1] * 10), -1])
    sizes = Counter(words.tolist())
    for seed in range(200):
        found = Counter(words[masking("word").choose(words, len(words), np.random.default_rng(seed))].tolist())
        assert all(n == sizes[word] for word, n in found.items())


def test_a_word_longer_than_what_may_be_masked_is_masked_in_part():
    places = masking("word").choose(np.array([-1, *[0] * 20, -1]), 22, np.random.default_rng(1))
    assert len(places) == 3


def test_ngrams_have_one_to_three_words_by_their_inverse():
    words = np.arange(600)
    runs: Counter[int] = Counter()
    for seed in range(100):
        places = masking("ngram", 0.02).choose(words, 600, np.random.default_rng(seed))
        for run in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            runs[min(len(run), 4)] += 1
    total = sum(runs.values())
    assert runs[1] / total == pytest.approx(6 / 11, abs=0.06)  # 1 : 1/2 : 1/3
    assert runs[2] / total == pytest.approx(3 / 11, abs=0.06)


def test_chinese_words_are_masked_as_the_corpus_cuts_them(corpus, table):
    stretch = PieceCorpus(table, np.arange(len(corpus))).sentences_between(0, 1)
    names = learn_wordpieces(corpus.vocabulary, 200, corpus.segmentation, limit=32).names
    spelt = ["".join(names[n] for n in stretch.ids[stretch.words == word]) for word in range(stretch.words.max() + 1)]
    assert spelt == corpus.sentence(0)


@pytest.mark.parametrize("mask_as", ["80/10", "80/10/20", "a/b/c", "-10/100/10"])
def test_shares_that_are_none_are_refused(mask_as, corpus):
    with pytest.raises(OptionError, match="mask_as"):
        polyseme.train("bert", corpus, mask_as=mask_as)


# ---- examples


def test_streams_cover_the_text_once_in_every_epoch(corpus, table):
    text = PieceCorpus(table, np.arange(len(corpus)))
    examples = StreamExamples(text, room=30, before=[2], behind=[3], seed=1)
    whole = Counter(text.stretch(0, text.n_pieces).ids.tolist())
    for epoch in range(3):
        found = [examples.example(epoch, n) for n in range(examples.n_examples(epoch))]
        seen = Counter(number for example in found for number in example.ids[1:-1].tolist())
        assert seen == whole or sum(seen.values()) - sum(whole.values()) == examples.n_examples(epoch) * 30 - sum(
            whole.values()
        )
        assert all(seen[number] >= n for number, n in whole.items())
        assert all(example.ids[0] == 2 and example.ids[-1] == 3 for example in found)
    starts = [tuple(examples.example(epoch, 0).ids) for epoch in range(3)]
    assert len(set(starts)) == 3


def test_pairs_are_of_one_document_or_of_two(fifty_lines):
    documents = Corpus.from_sentences([f"{line}" for line in fifty_lines * 4])
    documents.document_offsets = np.arange(0, 201, 10)  # twenty documents of ten sentences
    documents.__dict__.pop("sentence_documents", None)
    pieces = learn_wordpieces(documents.vocabulary, 200, documents.segmentation, limit=64)
    text = PieceCorpus(PieceTable(documents, pieces), np.arange(200))
    labels = []
    for epoch in range(3):
        examples = PairExamples(text, kind="nsp", room=60, cls=2, sep=3, seed=1)
        for n in range(examples.n_examples(epoch)):
            (a_first, a_last), (b_first, b_last), label = examples._plan(epoch)[n]
            same = documents.sentence_documents[a_first] == documents.sentence_documents[b_first]
            assert a_first < a_last
            assert b_first < b_last
            assert (b_first == a_last and same) if label == 0 else not same
            example = examples.example(epoch, n)
            assert len(example.ids) <= 63
            assert example.ids[0] == 2
            assert (example.ids == 3).sum() == 2
            assert example.types.tolist() == sorted(example.types.tolist())
            labels.append(label)
    assert 0.4 < np.mean(labels) < 0.75


def in_documents(corpus: Corpus, size: int) -> PieceCorpus:
    """All sentences of the corpus, as documents of ``size`` sentences."""
    corpus.document_offsets = np.arange(0, len(corpus) + 1, size)
    corpus.__dict__.pop("sentence_documents", None)
    pieces = learn_wordpieces(corpus.vocabulary, 50, corpus.segmentation, limit=64)
    return PieceCorpus(PieceTable(corpus, pieces), np.arange(len(corpus)))


def test_lengths_do_not_tell_whether_a_pair_is_true():
    random = np.random.default_rng(1)
    corpus = Corpus.from_sentences([["a"] * n for n in random.integers(3, 30, size=10_000).tolist()])
    examples = PairExamples(in_documents(corpus, 100), kind="nsp", room=125, cls=2, sep=3, seed=1)
    sizes: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for n in range(examples.n_examples(0)):
        example = examples.example(0, n)
        sizes[example.label].append((int((example.types == 0).sum()) - 1, int((example.types == 1).sum())))
    true, other = (np.array(sizes[label]) for label in (0, 1))
    assert min(len(true), len(other)) > 800
    assert (true[:, 0] > true[:, 1]).mean() == pytest.approx((other[:, 0] > other[:, 1]).mean(), abs=0.06)
    alike = [(np.abs(part[:, 0] - part[:, 1]) <= 1).mean() for part in (true, other)]  # as if both were truncated
    assert alike[0] == pytest.approx(alike[1], abs=0.05)


def test_documents_of_one_sentence_leave_few_true_pairs_and_that_is_said(caplog):
    lines = ["a b c d", "b c d a"] * 100
    PairExamples(in_documents(Corpus.from_sentences(lines), 10), kind="nsp", room=20, cls=2, sep=3, seed=1).n_examples(
        0
    )
    assert not caplog.records
    PairExamples(in_documents(Corpus.from_sentences(lines), 1), kind="nsp", room=20, cls=2, sep=3, seed=1).n_examples(0)
    assert "only 0 of 200 pairs are consecutive sentences" in caplog.text


def test_of_pairs_in_order_half_are_swapped(table, corpus):
    examples = PairExamples(PieceCorpus(table, np.arange(len(corpus))), kind="sop", room=40, cls=2, sep=3, seed=1)
    swapped = [n for n in range(examples.n_examples(0)) if examples._plan(0)[n][2] == 1]
    assert 0.25 < len(swapped) / examples.n_examples(0) < 0.75
    (a_first, a_last), (_, b_last), _ = examples._plan(0)[swapped[0]]
    example = examples.example(0, swapped[0])
    size = examples.text.offsets[b_last] - examples.text.offsets[a_first]
    if size <= 40:
        behind = examples.text.sentences_between(a_first, a_last).ids
        assert example.ids[example.types == 1][:-1].tolist() == behind.tolist()


@pytest.mark.parametrize(("n_a", "n_b", "room"), [(10, 5, 20), (30, 5, 20), (5, 30, 20), (30, 28, 21), (1, 40, 7)])
def test_the_longer_side_is_cut_as_bert_cuts_it(n_a, n_b, room):
    a, b = n_a, n_b
    while a + b > room:  # truncate_seq_pair of google-research/bert
        a, b = (a - 1, b) if a > b else (a, b - 1)
    rows = [TokenRun(np.arange(n), np.arange(n)) for n in (n_a, n_b)]
    found = truncated(*rows, room, np.random.default_rng(1))
    assert sorted(len(part.ids) for part in found) == sorted([a, b])
    assert all((np.diff(part.ids) == 1).all() for part in found)


def test_held_out_sentences_are_whole_documents_and_not_trained_on(table, corpus):
    training, held_out = split(table, 0.1, seed=1)
    assert sorted([*training, *held_out]) == list(range(len(corpus)))
    assert 0 < table.sentence_sizes[held_out].sum() <= 0.1 * table.sentence_sizes.sum() + table.sentence_sizes.max()


def test_long_documents_leave_room_for_others_among_the_held_out():
    """A document of a quarter of what is held out, or more, would be nearly all of it."""
    lines = [["a b c d"] * (400 if n % 2 else 4) for n in range(40)]
    corpus = Corpus.from_sentences(["\n".join(document) for document in lines], documents="line")
    table = PieceTable(corpus, learn_wordpieces(corpus.vocabulary, 50, corpus.segmentation, limit=32))
    for seed in range(5):
        _, held_out = split(table, 0.02, seed=seed)
        assert len(set(corpus.sentence_documents[held_out].tolist())) > 4


@pytest.mark.parametrize("sizes", [[1, *[60] * 40], [200] * 30, [3, 5, *[30] * 20, *[500] * 5], [3] * 10 + [900]])
def test_what_is_held_out_of_a_small_corpus_is_not_next_to_nothing(sizes):
    corpus = Corpus.from_sentences([["a", "b", "c", "d"]] * sum(sizes))
    corpus.document_offsets = np.concatenate([[0], np.cumsum(sizes)])
    corpus.__dict__.pop("sentence_documents", None)
    table = PieceTable(corpus, learn_wordpieces(corpus.vocabulary, 50, corpus.segmentation, limit=32))
    total = table.sentence_sizes.sum()
    for seed in range(5):
        training, held_out = split(table, 0.05, seed=seed)
        assert len(training) + len(held_out) == len(corpus)
        assert min(0.02 * total, 300) <= table.sentence_sizes[held_out].sum() <= 0.1 * total
