"""What the page says when something is wrong, and the calls it shows: in its own language, and such that they work."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.conftest import Surroundings, word_table
from tests.serve.pages import Open, texts

from polyseme.search import TextIndex
from polyseme.serve.app import create_app
from polyseme.serve.library import Library, corpus_item, model_item, texts_item
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors

ENGLISH = re.compile(r"[A-Za-z]{2,}")


@pytest.mark.parametrize(
    ("view", "state", "says"),
    [
        ("neighbours", {"word": "北京市", "models": "words"}, "“北京市”不在词表的 60 个词里，没有向量；相近的词：北京"),
        ("senses", {"word": "打电"}, "语料里没有“打电”；你要找的是不是 '打'"),
        ("concordance", {"query": "打", "tag": "n"}, "这份语料没有词性标记。"),
        ("concordance", {"query": "打(", "mode": "regex"}, "正则表达式有误（缺少 )，位置 2）。"),
        ("concordance", {"query": "[打", "mode": "regex"}, "正则表达式有误（方括号没有闭合，位置 2）。"),
        ("concordance", {"query": "打(?z)", "mode": "regex"}, "正则表达式有误（写法有误，位置 3）。"),
        ("concordance", {"query": "a" * 501}, "太长了：最多 500 个字符，现在有 501 个。"),
    ],
)
def test_what_is_wrong_is_said_in_chinese_on_the_chinese_page(
    open_page: Open, view: str, state: dict[str, Any], says: str
) -> None:
    (said,) = texts(open_page(view, lang="zh", **state), ".problem")
    assert said.startswith(f"出错了 {says}")
    assert not ENGLISH.search(said)


def test_a_text_too_long_is_told_how_long_it_may_be(open_page: Open, task_address: str) -> None:
    page = open_page("predict", base=task_address, lang="zh", model="classify", text="字" * 20_001)
    assert texts(page, ".problem") == ["出错了 太长了：最多 20,000 个字符，现在有 20,001 个。"]


def test_the_head_of_a_column_and_the_facts_of_a_card_are_in_chinese(open_page: Open, task_address: str) -> None:
    assert texts(open_page("neighbours", lang="zh", word="北京"), ".column-head .soft")[0] == "vectors · 16 维 · 60 词"
    assert texts(open_page("predict", base=task_address, lang="zh", model="tag"), ".column-head .soft") == ["序列标注"]
    facts = texts(open_page("models", lang="zh", name="index"), ".facts dd")
    assert "逐一比较（精确）" in facts


def asked(call: str, client: httpx.Client) -> httpx.Response:
    """Send the request of a curl command and return the response."""
    words = shlex.split(call.replace("\\\n", " "))
    address = next(word for word in words if word.startswith("http"))
    if "-G" in words:
        given = [words[i + 1] for i, word in enumerate(words) if word == "--data-urlencode"]
        return client.get(address, params=dict(pair.split("=", 1) for pair in given))
    return client.post(address, json=json.loads(words[words.index("-d") + 1]))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_calls_of_the_description_can_be_pasted_and_every_parameter_is_explained(
    open_page: Open, client: httpx.Client, lang: str
) -> None:
    page = open_page("api", lang=lang)
    told = dict(zip(texts(page, ".endpoint h2"), texts(page, ".endpoint pre"), strict=True))
    without = {name for name, call in told.items() if '"NAME"' in call}
    assert without == {"POST /api/predict", "POST /api/attention"}  # no model here answers those
    for name, call in told.items():
        if name not in without:
            answer = asked(call, client)
            assert answer.status_code == 200, (call, answer.text)
    assert "" not in texts(page, ".endpoint td.soft")


def test_figures_of_tasks_and_facts_of_their_data_are_in_chinese(open_page: Open, task_address: str) -> None:
    names = ["classify", "pair", "tag", "span", "choice"]
    figures = texts(open_page("curves", base=task_address, lang="zh", models=",".join(names)), "figcaption strong")
    assert {"损失", "验证集损失", "准确率", "每秒样本数"} <= set(figures)
    assert [name for name in figures if ENGLISH.search(name.replace("F1", ""))] == []
    for name in names:
        card = open_page("models", name=name, base=task_address, lang="zh")
        assert [label for label in texts(card, ".sheet dt") if ENGLISH.search(label)] == []
    home = open_page("home", base=task_address, lang="zh")
    assert [line for line in texts(home, ".loaded span") if line.startswith("类别：") and "," in line] == []


def test_a_text_index_has_a_card_with_calls(open_page: Open, serving: Any, tmp_path: Path) -> None:
    index = TextIndex.of(word_table(), ["北京 苹果", "音乐 北京"])
    with serving(create_app(Library([texts_item("notes", "notes", index)]))) as address:
        calls = texts(open_page("models", base=address), ".sheet pre")
        assert calls[0].startswith("import polyseme")
        assert calls[1].startswith("polyseme search MODEL notes ")
        assert "2 texts" in texts(open_page(base=address), ".loaded")[0]


def test_a_novel_is_searched_by_word_vectors_at_once_and_other_models_say_what_to_do(
    open_page: Open, serving: Any, tmp_path: Path
) -> None:
    novel = Corpus.from_sentences(["北京 音乐"] * 20_000 + ["苹果 苹果1"], tmp_path / "novel", segment="space")
    shelf = [model_item("words", "words", word_table()), model_item("context", "context", Surroundings())]
    with serving(create_app(Library([*shelf, corpus_item("novel", "novel", novel)]))) as address:
        page = open_page("search", base=address, lang="zh", query="苹果", models="words,context")
        page.wait_for_selector(".found li")
        assert texts(page, ".found .text")[0] == "苹果 苹果1"
        (said,) = texts(page, ".problem")
        assert "“novel”有 20,001 句" in said
        assert "polyseme search context novel -o INDEX" in said

        page = open_page("search", base=address, lang="zh", query="苹果")  # nobody asked for the other model
        page.wait_for_selector(".found li")
        assert texts(page, ".problem") == []
        assert page.is_checked("#chip-words")
        assert not page.is_checked("#chip-context")


@pytest.mark.parametrize("width", [1400, 1280, 1024])
def test_the_tabs_stand_in_one_row(open_page: Open, width: int) -> None:
    for lang in ("en", "zh"):
        page = open_page(lang=lang, width=width)
        tops = page.locator(".tab").evaluate_all("tabs => tabs.map((tab) => tab.getBoundingClientRect().top)")
        assert len(set(tops)) == 1


def test_words_to_begin_with_are_no_words_of_grammar(open_page: Open, serving: Any) -> None:
    words = ["我们", "那里", "什么", "which", "the", "宝玉", "打", "window", "are", "黛玉"]
    model = WordVectors(Vocabulary(words, range(len(words), 0, -1)), word_table(len(words)).vectors)
    with serving(create_app(Library([model_item("words", "words", model)]))) as address:
        page = open_page("neighbours", base=address)
        assert texts(page, ".examples a") == ["宝玉", "window", "黛玉"]


@pytest.mark.parametrize(
    ("lang", "names"), [("en", {"n noun", "v verb", "others"}), ("zh", {"n 名词", "v 动词", "其他"})]
)
def test_the_colours_of_a_map_are_told(
    open_page: Open, serving: Any, tmp_path: Path, lang: str, names: set[str]
) -> None:
    words = ["的", *(f"{family}{i}" for family in ("书", "读") for i in range(20))]
    (tmp_path / "text.txt").write_text(
        "".join(f"{word}/{'n' if word[0] == '书' else 'v'}  。/w\n" for word in words[1:]), encoding="utf-8"
    )
    tagged = corpus_item("tagged", "tagged", Corpus.build(tmp_path / "text.txt", tmp_path / "c"))
    model = model_item("words", "words", WordVectors(Vocabulary(words, range(41, 0, -1)), word_table(41).vectors))
    with serving(create_app(Library([model, tagged]))) as address:
        assert set(texts(open_page("map", base=address, colour="tag", lang=lang), ".legend span:has(.dot)")) == names
        told = texts(open_page("map", base=address, colour="cluster", lang=lang), ".legend span:has(.dot)")
        assert {word for each in told for word in each.split()} <= set(words[1:])  # 的, the first, tells nothing
    with serving(create_app(Library([model]))) as address:  # without a tagged text there is nothing to colour by
        assert "tag" not in open_page("map", base=address, lang=lang).locator("#colour option").evaluate_all(
            "options => options.map((option) => option.value)"
        )


def test_the_text_under_an_index_is_searched_too(open_page: Open, serving: Any, library: Library) -> None:
    with serving(create_app(Library([library.items["context"], library.items["index"]]))) as address:
        page = open_page("search", base=address, query="给 打 电话")
        page.wait_for_selector(".found li")
        best = TextIndex.build(library.items["context"].thing, library.corpus("index")).search("给 打 电话")
        assert texts(page, ".found .text") == [hit.text for hit in best]


def test_hits_in_a_text_lead_to_its_own_index_or_nowhere(open_page: Open, serving: Any, library: Library) -> None:
    line = "#lines .kwic:first-of-type a"
    assert "index=index" in open_page("concordance", query="打", corpus="corpus").locator(line).get_attribute("href")
    other = corpus_item("other", "other", Corpus.from_sentences(["他 打 球"], segment="space"))
    with serving(create_app(Library([other, library.items["index"]]))) as address:
        page = open_page("concordance", base=address, query="打", corpus="other")
        assert texts(page, "#lines mark") == ["打"]
        assert page.locator(line).get_attribute("href") is None


def test_a_wrong_token_is_told_in_chinese_alone(open_page: Open, library: Library, serving: Any) -> None:
    with serving(create_app(library, token="a-long-token")) as base:
        page = open_page(base=base, lang="zh", until="#token")
        page.fill("#token", "another-token")
        page.keyboard.press("Enter")
        page.wait_for_selector(".problem")
        assert "令牌不对。" in page.inner_text(".problem")
        assert "token" not in page.inner_text(".problem")
        page.close()
