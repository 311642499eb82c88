"""Training reads the same subwords as encoding: a word in a stream has the subwords it has in running text."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from tiny_transformers import byte_bpe, wordpiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import polyseme
from polyseme.contexts.transformer.pretrain.corpus_tokens import PieceCorpus, PieceTable
from polyseme.contexts.transformer.subwords import learn_byte_pairs
from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.text.corpus import Corpus
from polyseme.text.spacing import joined

ENGLISH = ["The terms of the learner", "learning words begins with counting words", "history works well"]
MIXED = [
    "他用Python 3写程序",
    "very good的deep learning模型",
    "计算机技术",
    "我们learning计算机",
    "the 程序 works well",
]


@pytest.fixture
def gpt2(shared_data) -> Pieces:
    return polyseme.load(shared_data / "models" / "hf_tiny" / "gpt2-tiny").pieces


@pytest.fixture
def roberta() -> Pieces:
    return Pieces(*byte_bpe(around=True))


@pytest.fixture
def sentencepiece() -> Pieces:
    """Unigram with Metaspace, as in XLM-R; no subword spans two of the words."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    words = [word for line in Corpus.from_sentences(ENGLISH + MIXED) for word in line]
    text = [*words, *"的。(a", *ENGLISH] * 5
    trainer = trainers.UnigramTrainer(
        vocab_size=120, unk_token="<unk>", special_tokens=["<unk>", "</s>"], show_progress=False
    )
    made.train_from_iterator(text, trainer)
    return Pieces(made, {"unk_token": "<unk>", "eos_token": "</s>"})


def stream(corpus: Corpus, pieces: Pieces) -> list[int]:
    text = PieceCorpus(PieceTable(corpus, pieces), np.arange(len(corpus)))
    return text.stretch(0, text.n_pieces).ids.tolist()


@pytest.mark.parametrize("name", ["gpt2", "roberta", "sentencepiece"])
@pytest.mark.parametrize("lines", [ENGLISH, MIXED])
def test_the_subwords_of_a_stream_are_those_of_the_text(name, lines, request):
    pieces = request.getfixturevalue(name)
    corpus = Corpus.from_sentences(lines, documents="line")
    texts = [joined(words) for words in corpus]
    expected = [number for text in texts for number in pieces.tokenizer.encode(text, add_special_tokens=False).ids]
    assert stream(corpus, pieces) == expected
    assert PieceTable(corpus, pieces).varies


@pytest.mark.parametrize("name", ["gpt2", "roberta"])
def test_the_sentences_of_a_document_follow_each_other_as_in_a_text(name, request):
    pieces = request.getfixturevalue(name)
    corpus = Corpus.from_sentences([*ENGLISH, *MIXED])
    text = joined([word for words in corpus for word in words])
    assert stream(corpus, pieces) == pieces.tokenizer.encode(text, add_special_tokens=False).ids


def test_sentences_can_be_texts_of_their_own(gpt2):
    corpus = Corpus.from_sentences([*ENGLISH, *MIXED])
    text = PieceCorpus(PieceTable(corpus, gpt2, texts="sentence"), np.arange(len(corpus)))
    for number, words in enumerate(corpus):
        expected = gpt2.tokenizer.encode(joined(words)).ids
        assert text.sentences_between(number, number + 1).ids.tolist() == expected


def test_punctuation_follows_its_word_without_a_space(gpt2):
    line = "The terms, (as we know) cost $5: see the rules; are they good? Well!"
    corpus = Corpus.from_sentences([line])
    assert stream(corpus, gpt2) == gpt2.tokenizer.encode(line).ids


@pytest.mark.parametrize("name", ["gpt2", "sentencepiece"])
def test_sizes_words_and_frequencies_fit_the_stream(name, request):
    pieces = request.getfixturevalue(name)
    corpus = Corpus.from_sentences([*ENGLISH, *MIXED])
    table = PieceTable(corpus, pieces)
    text = PieceCorpus(table, np.arange(len(corpus)))
    parts = [text.sentences_between(n, n + 1) for n in range(len(corpus))]
    assert [len(part.ids) for part in parts] == table.sentence_sizes.tolist()
    assert all(set(part.words) == set(range(len(words))) for part, words in zip(parts, corpus, strict=True))
    assert table.frequencies(len(pieces.names)).tolist() == np.bincount(
        np.concatenate([part.ids for part in parts]), minlength=len(pieces.names)
    ).tolist()  # fmt: skip
    whole = stream(corpus, pieces)
    for start, end in pairwise(range(0, len(whole), 7)):
        assert text.stretch(start, end).ids.tolist() == whole[start:end]


def test_one_form_is_kept_where_all_are_equal():
    corpus = Corpus.from_sentences([*ENGLISH, *MIXED])
    specials = {"unk_token": "<unk>", "eos_token": "</s>"}
    own = learn_byte_pairs(
        corpus.vocabulary, 150, corpus.segmentation, specials, single="$A", pair="$A $B", limit=32
    )  # fmt: skip
    for pieces in (own, Pieces(*wordpiece())):
        table = PieceTable(corpus, pieces)
        assert not table.varies
        assert len(table.counts) == len(corpus.all_words)
        text = joined([word for words in corpus for word in words])
        assert stream(corpus, pieces) == pieces.tokenizer.encode(text, add_special_tokens=False).ids


def test_further_training_of_a_published_model_improves_it_on_running_text(shared_data):
    adjectives, nouns, verbs = (
        ("old", "new", "small"),
        ("station", "river", "language"),
        ("known", "described", "found"),
    )
    lines = [
        f"The {adjective} {noun} was {verb} by the {other}."
        for adjective, noun, verb, other in product(adjectives, nouns, verbs, ("people", "government", "army"))
    ]
    training, unseen = [line for n, line in enumerate(lines) if n % 9], lines[::9]
    start = polyseme.load(shared_data / "models" / "hf_tiny" / "gpt2-tiny")
    corpus = Corpus.from_sentences(training, documents="line")
    further = polyseme.train("gpt", corpus, start=start, epochs=15, lr=1e-3, length=64, threads=1, seed=1)
    assert further.perplexity(unseen).perplexity < 0.15 * start.perplexity(unseen).perplexity
