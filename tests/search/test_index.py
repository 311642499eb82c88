"""Every occurrence is found again, with its place, its sentence and its neighbours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from polyseme.api import recognise
from polyseme.errors import OptionError, UnknownWord
from polyseme.search import Index, build_index
from polyseme.search.occurrences.index import locate
from polyseme.text.corpus import Corpus

from .conftest import DIM, Neighbours, word_vector


@pytest.fixture
def index(tmp_path: Path, corpus: Corpus, encoder: Neighbours) -> Index:
    return build_index(encoder, corpus, tmp_path / "i", dim=2 * DIM)


def test_every_occurrence_of_every_word_but_punctuation_is_indexed(index: Index, corpus: Corpus) -> None:
    counted = Counter(word for sentence in corpus for word in sentence if word not in "，。")
    assert len(index) == sum(counted.values()) == index.facts["n_occurrences"]
    assert {word: index.count(word) for word in index.words} == counted
    assert index.count("。") == index.count("没有这个词") == 0
    assert recognise(index.path) == "index"


def test_occurrences_lead_back_to_their_words(index: Index, corpus: Corpus) -> None:
    for word in ("打", "电话", "尾7"):
        rows = index.occurrences(word)
        for hit in index.hits(rows, np.ones(len(rows))):
            assert corpus.sentence(hit.sentence)[hit.token] == hit.word == hit.text[hit.start : hit.end] == word


def test_the_mean_of_all_layers_can_stand_for_an_occurrence(
    tmp_path: Path, corpus: Corpus, encoder: Neighbours
) -> None:
    index = build_index(encoder, corpus, tmp_path / "i", dim=2 * DIM, states="mean")
    assert (index.facts["states"], index.layers) == ("mean", [0])
    hits = index.same_sense(["给", "打", "电话"], word="打", topn=10)
    assert {hit.text[hit.end : hit.end + 2] for hit in hits} <= {"电话", "手机", "号码"}
    with pytest.raises(OptionError, match="combine all layers into one"):
        build_index(encoder, corpus, tmp_path / "j", states="mean", layers="1")


def test_scores_are_the_cosines_of_the_centred_and_scaled_states(index: Index, corpus: Corpus) -> None:
    states = []  # computed here, from the encoder's definition alone
    for sentence in corpus:
        own = [word_vector(word) for word in ("<S>", *sentence, "</S>")]
        states += [np.r_[own[i - 1], own[i + 1]] for i in range(1, len(own) - 1) if own is not None]
    kept = np.array([word not in "，。" for sentence in corpus for word in sentence])
    z = np.array(states)[kept]
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    words = np.array([word for sentence in corpus for word in sentence])[kept]
    own = z[words == "打"]
    own = own - own.mean(axis=0) / 2  # half of what all uses share is taken off
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    query = corpus.sentence(4)
    expected = np.sort(np.delete(own @ own[4], 4))[::-1]  # the sentence that is asked about is no answer
    hits = index.same_sense(query, word="打", topn=60)
    assert all(hit.text != corpus.text(4) for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert np.abs([hit.score for hit in hits] - expected[: len(hits)]).max() < 0.01


def test_other_words_in_the_same_place_are_found_each_once(tmp_path: Path, encoder: Neighbours) -> None:
    sentences = [["我", verb, "茶", f"尾{i}"] for i in range(20) for verb in ("喝", "品", "泡")]
    sentences += [["他", verb, "球", f"尾{i}"] for i in range(20) for verb in ("踢", "打", "看")]
    corpus = Corpus.from_sentences(sentences, segment="space")
    index = build_index(encoder, corpus, tmp_path / "i", dim=2 * DIM)
    found = index.same_sense(["我", "喝", "茶", "尾3"], position=1, any_word=True, topn=2)
    assert {hit.word for hit in found} == {"品", "泡"}


def test_an_occurrence_is_not_its_own_neighbour(index: Index) -> None:
    row = index.occurrences("打")[7]
    found = index.like(row, topn=50)
    assert row not in {hit.occurrence for hit in found}
    texts = [(hit.text, hit.start) for hit in found]
    assert len(texts) == len(set(texts))


def test_layers_are_kept_as_asked(tmp_path: Path, corpus: Corpus, encoder: Neighbours) -> None:
    index = build_index(encoder, corpus, tmp_path / "i", layers="all", dim=DIM)
    assert index.facts["layer"] == 1
    assert sorted(index.layers) == [0, 1]
    own = index.same_sense(corpus.sentence(0), word="打", layer=0)
    assert all(hit.score == pytest.approx(1.0, abs=0.02) for hit in own)  # layer 0 does not see the context
    single = build_index(encoder, corpus, tmp_path / "j", dim=DIM)
    with pytest.raises(OptionError, match="--layers all"):
        single.same_sense(corpus.sentence(0), word="打", layer=0)


def test_half_precision_and_8_bit_agree(tmp_path: Path, corpus: Corpus, encoder: Neighbours) -> None:
    answers = []
    for precision in ("float16", "int8"):
        index = build_index(encoder, corpus, tmp_path / precision, precision=precision, dim=2 * DIM)
        answers.append(index.same_sense(corpus.sentence(10), word="打", topn=20))
    for half, eighth in zip(*answers, strict=True):
        assert half.score == pytest.approx(eighth.score, abs=0.01)


def test_function_words_and_rare_words_can_be_left_out(tmp_path: Path, corpus: Corpus, encoder: Neighbours) -> None:
    index = build_index(encoder, corpus, tmp_path / "i", skip="function", min_count=7, dim=8)
    assert index.count("给") == 0
    assert index.count("打") == 300
    assert index.count("尾7") == 0
    with pytest.raises(UnknownWord, match="was not indexed"):
        index.senses("尾7")


def test_a_question_names_its_word(index: Index) -> None:
    with pytest.raises(OptionError, match="which word"):
        index.same_sense("去 打 篮球")
    with pytest.raises(OptionError, match="is not in the sentence"):
        index.same_sense("去 打 篮球", word="电话")
    with pytest.raises(OptionError, match="no position 5"):
        index.same_sense("去 打 篮球", position=5)
    with pytest.raises(OptionError, match="not '去'"):
        index.same_sense("去 打 篮球", position=1, word="去")
    with pytest.raises(UnknownWord, match="did you mean"):
        index.senses("打x")
    assert index.same_sense("去打篮球", word="打")  # cut out of raw text though the segmentation would not


def test_a_word_is_cut_out_where_the_rest_is_words_too(encoder: Neighbours) -> None:
    share = {"这里": 0.26, "里": 0.16, "这": 0.31, "有": 0.21, "三十": 0.05}
    tokens, place = locate("这里 有 三十里 三十里", None, "里", encoder, lambda word: share.get(word, 0.003))
    assert tokens == ["这里", "有", "三十", "里", "三十里"]
    assert place == 3


def test_a_word_that_stands_everywhere_in_raw_text_is_tried_in_a_few_places_only(
    encoder: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts = []
    monkeypatch.setattr(encoder, "tokenize", lambda text: cuts.append(text) or text.split())
    tokens, place = locate("的了" * 5000, None, "的了", encoder, lambda word: 0.5)
    assert tokens[place] == "的了"
    assert len(cuts) < 100
