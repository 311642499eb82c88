"""A concordance finds every place however the text is cut, and its figures are those of the books."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from polyseme.errors import OptionError
from polyseme.search.kwic.concordance import Concordance, association, concordance
from polyseme.text.corpus import Corpus

SENTENCES = [
    "改革开放以来，T恤卖100元。",
    "他说：改革 开放 很好，New York也好",
    "new  york的改革",
    "我们开放。Party art ART art's",
    "他打了三次电话，又打了球",
    "——",
    "打电话",
]
TAGGED = """
19980101-01-001-001/m 他/r 打/v 电话/n 。/w
19980101-01-001-002/m 一/m 打/q 铅笔/n 。/w
19980101-01-002-001/m 他/r 打/v 了/u 球/n 。/w
"""


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.from_sentences(SENTENCES, segment="jieba")


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    file = tmp_path_factory.mktemp("tagged") / "people.txt"
    file.write_text(TAGGED, encoding="utf-8")
    return Corpus.build(file, format="tagged")


def matches(found: Concordance) -> list[str]:
    return [line.text[line.start : line.end] for line in found.lines()]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("改革开放", ["改革开放", "改革 开放"]),
        ("改革 开放", ["改革开放", "改革 开放"]),
        ("革开", ["革开", "革 开"]),
        ("New York", ["New York"]),  # a capital finds itself
        ("new york", ["New York", "new  york"]),
        ("newyork", []),
        ("art", ["art", "ART", "art"]),  # letters are whole words
        ("T恤", ["T恤"]),
        ("york的", ["york的"]),
        ("100元", ["100元"]),
        ("10", []),
        ("——", ["——"]),
        ("没有", []),
    ],
)
def test_a_string_is_found_however_the_text_is_cut(corpus: Corpus, query: str, found: list[str]) -> None:
    assert matches(concordance(corpus, query)) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (r"打(了|过)?\p{Han}*?电话", ["打了三次电话", "打电话"]),
        (r"^他", ["他", "他"]),
        (r"好$", ["好"]),
        (r".*放", ["改革开放", "他说：改革 开放", "我们开放"]),  # each within its sentence
        (r"[^x]*York", ["他说：改革 开放 很好，New York"]),
        (r"x*", []),
        (r"(?i)ART", ["Party"[1:4], "art", "ART", "art"]),
    ],
)
def test_a_regular_expression_matches_within_a_sentence(corpus: Corpus, query: str, found: list[str]) -> None:
    assert matches(concordance(corpus, query, "regex")) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("打 电话", ["打电话"]),
        ("打/v", ["打", "打"]),
        ("打/q 铅笔", ["打铅笔"]),
        ("打", ["打", "打", "打"]),
        ("*/v */n", ["打电话"]),
        ("/v * 球", ["打了球"]),
        ("他打", ["他打", "他打"]),  # cut as the text was
        ("电?", ["电话"]),
        ("。 一", []),  # not across two sentences
        ("没有", []),
    ],
)
def test_words_in_a_row_with_their_tags(tagged: Corpus, query: str, found: list[str]) -> None:
    assert matches(concordance(tagged, query, "words")) == found


def test_a_word_that_a_text_cut_by_a_function_lacks_is_found_nowhere(tmp_path: Path) -> None:
    Corpus.from_sentences(["a b c"], tmp_path / "c", segment=str.split)
    assert concordance(Corpus.open(tmp_path / "c"), "d", "words").count == 0


def test_hits_can_be_chosen_by_the_tag_of_their_first_word(tagged: Corpus) -> None:
    assert [line.tag for line in concordance(tagged, "打", tag="v").lines()] == ["v", "v"]
    assert concordance(tagged, "打", tag="*").count == 3
    assert concordance(tagged, "打电话", tag="q").count == 0


def spaced(text: str) -> st.SearchStrategy[str]:
    return st.text(alphabet=text, max_size=12)


@given(
    sentences=st.lists(spaced("打开电话 　ab,。"), min_size=1, max_size=8),
    query=st.text(alphabet="打开电话", min_size=1, max_size=3),
)
def test_every_place_is_found_and_its_words_hold_it(sentences: list[str], query: str) -> None:
    corpus = Corpus.from_sentences([*sentences, "。"], segment="char")
    found = concordance(corpus, query)
    wanted = []
    for number, sentence in enumerate(sentences):
        plain, place = "".join(sentence.split()), 0
        while (place := plain.find(query, place)) >= 0:
            wanted.append(number)
            place += len(query)
    assert found.sentences.tolist() == wanted
    for line, (first, behind) in zip(found.lines(), found.places.tolist(), strict=True):
        assert "".join(line.text[line.start : line.end].split()) == query
        words = [corpus.all_words[word] for word in corpus.ids[first:behind]]
        assert "".join(words) == query
        assert line.token == first - corpus.sentence_offsets[line.sentence]


def test_lines_are_sorted_by_what_stands_beside(corpus: Corpus) -> None:
    rows = [["猫", "看", "书"], ["安", "看", "报"], ["波", "看", "安"], ["a", "看", "波"], ["看", "猫"]]
    found = concordance(Corpus.from_sentences(rows), "看", "words")
    # By pinyin; 看 at the beginning of the last has 波 of the one before it on its left, and 看 before that.
    assert [rows[line.sentence][0] for line in found.lines(sort="left")] == ["a", "安", "波", "看", "猫"]
    assert [rows[line.sentence][-1] for line in found.lines(sort="right")] == ["安", "报", "波", "猫", "书"]
    assert [line.sentence for line in found.lines(sort="order")] == [0, 1, 2, 3, 4]
    shuffled = [line.sentence for line in found.lines(sort="random")]
    assert sorted(shuffled) == [0, 1, 2, 3, 4]
    assert shuffled == [line.sentence for line in found.lines(sort="random")]
    some = concordance(corpus, r"打.|改革|art", "regex")
    assert [line.text[line.start : line.end] for line in some.lines(sort="match")] == [
        "art", "art", "art", "打电", "打了", "打了", "改革", "改革", "改革",
    ]  # fmt: skip


def test_a_line_has_what_stands_around_its_sentence_in_the_same_document(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("他来了。他打球。\n他走了。\n\n她打球。\n", encoding="utf-8")
    one, other = concordance(Corpus.build(tmp_path / "text.txt", tmp_path / "c"), "打球").lines()
    assert (one.before, one.text, one.behind) == ("他来了。", "他打球。", "他走了。")
    assert (other.before, other.text, other.behind) == ("", "她打球。", "")


def test_ties_are_sorted_by_the_words_further_away() -> None:
    rows = [["c", "b", "x"], ["a", "b", "x"], ["b", "a", "x"]]
    found = concordance(Corpus.from_sentences(rows), "x", "words")
    assert [line.sentence for line in found.lines(sort="left")] == [2, 1, 0]


def test_frequency_and_dispersion_over_documents() -> None:
    texts = ["甲 乙 甲 丙", "甲 丁", "戊 己 庚 辛 壬 癸"]
    corpus = Corpus.from_sentences(texts, segment="space", documents="line")
    found = concordance(corpus, "甲")
    assert (found.count, found.n_documents) == (3, 2)
    assert found.per_million == 3e6 / 12
    # Half of |2/3 - 4/12| + |1/3 - 2/12| + |0 - 6/12|
    assert found.dispersion == pytest.approx(0.5 * (1 / 3 + 1 / 6 + 1 / 2))
    assert [(one.document, one.count, one.tokens) for one in found.documents()] == [(0, 2, 4), (1, 1, 2)]
    assert found.documents()[0].per_million == 500_000
    assert found.parts(2) == [3, 0]
    assert concordance(corpus, "没有").dispersion is None


def test_the_dispersion_in_a_novel_is_over_equal_parts_of_it() -> None:
    novel = Corpus.from_sentences(["甲 乙"] * 5 + ["丙 丁"] * 15, segment="space")
    # Half of 5 × |1/5 - 1/20| + 15 × |0 - 1/20|
    assert concordance(novel, "甲").dispersion == pytest.approx(0.75)
    assert concordance(novel, "没有").dispersion is None


def test_hits_behind_the_last_word_belong_to_the_last_part() -> None:
    corpus = Corpus.from_sentences(["a b c", "* * *"], segment=lambda text: [c for c in text if c.isalpha()])
    found = concordance(corpus, "*")
    assert found.count == sum(found.parts()) == found.parts()[-1] == 3
    assert found.dispersion == pytest.approx(0.95)


def test_association_scores_are_those_of_the_books() -> None:
    observed, in_corpus, window, n, hits = 30, 100, 1_000, 50_000, 120
    found = association(np.array([observed]), np.array([in_corpus]), window, n, hits)
    table = [[observed, window - observed], [in_corpus - observed, n - window - in_corpus + observed]]
    g = chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
    assert found["loglik"][0] == pytest.approx(g)
    assert found["mi"][0] == pytest.approx(math.log2(observed * n / (window * in_corpus)))
    assert found["logdice"][0] == pytest.approx(14 + math.log2(2 * observed / (hits + in_corpus)))  # Rychlý 2008
    rare = association(np.array([1]), np.array([5_000]), window, n, hits)
    assert rare["loglik"][0] < 0  # keeps away
    assert rare["mi"][0] < 0


def test_collocates_are_counted_within_the_window_and_the_sentence() -> None:
    rows = [["天", "打", "大", "雨", "，", "冷"], ["打", "大", "鼓"], ["雨", "打"], ["雨"]]
    corpus = Corpus.from_sentences(rows)
    found = {one.word: one for one in concordance(corpus, "打").collocates(left=1, right=2, min_count=1)}
    assert {word: (one.count, one.left, one.right) for word, one in found.items()} == {
        "大": (2, 0, 2), "雨": (2, 1, 1), "天": (1, 1, 0), "鼓": (1, 0, 1),
    }  # fmt: skip
    assert found["雨"].in_corpus == 3
    assert found["雨"].expected == pytest.approx(6 * 3 / 12)
    by_count = concordance(corpus, "打").collocates(left=1, right=2, min_count=2, score="count")
    assert [one.word for one in by_count] == ["雨", "大"]  # of equals the more frequent word


def test_the_file_of_a_document_is_its_source(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("今天下雨。\n", encoding="utf-8")
    corpus = Corpus.build([tmp_path / "a.txt", tmp_path / "b.txt"], documents="file")
    assert [line.source for line in concordance(corpus, "下雨").lines()] == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("query", "mode", "message"),
    [
        ("", "text", "the query is empty"),
        (" ", "words", "the query is empty"),
        ("(", "regex", "not a regular expression"),
        ("[", "regex", "not a regular expression"),
        ("x{999999999999}", "regex", "not a regular expression"),
        ("打", "magic", "mode must be one of"),
        ("打/zz", "words", "no word has a tag like 'zz'; the tags are"),
    ],
)
def test_what_cannot_be_looked_for_is_one_line(tagged: Corpus, query: str, mode: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        concordance(tagged, query, mode)


def test_an_expression_without_end_is_given_up() -> None:
    corpus = Corpus.from_sentences([["a" * 60 + "b"]], segment="space")
    with pytest.raises(OptionError, match=r"takes longer than 0\.2 s"):
        concordance(corpus, r"^(\w|[a-z])*c|(a*)*(a*)*(\1)*$c", "regex", seconds=0.2)


def test_tags_need_a_tagged_corpus(corpus: Corpus) -> None:
    with pytest.raises(OptionError, match="no tags"):
        concordance(corpus, "打", tag="v")
    with pytest.raises(OptionError, match="no tags"):
        concordance(corpus, "打/v", "words")
    slashes = Corpus.from_sentences([["80", "km/h"]], segment="space")
    assert concordance(slashes, "km/h", "words").count == 1


def test_a_concordance_shows_itself_in_a_notebook(corpus: Corpus) -> None:
    found = concordance(corpus, "改革")
    assert repr(found).startswith("Concordance('改革': 3 hits, ")
    assert found._repr_html_().count("<td>改革</td>") == 3
