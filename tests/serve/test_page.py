"""The page, driven in a real browser: what is drawn, what the keys do, and that it asks nobody else.

Every test fails on a console error, an exception in the page, or a request that leaves the server.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.serve.pages import Open, saved, texts

from polyseme.api import load
from polyseme.search import TextIndex
from polyseme.serve.app import create_app
from polyseme.serve.library import Item, Library, model_item

VIEWS = [
    "home", "concordance", "senses", "sentence", "neighbours", "search", "attention", "analogy", "map", "predict",
    "curves", "models",
]  # fmt: skip


def test_neighbours_of_two_models_side_by_side(open_page: Open, library: Library) -> None:
    page = open_page("neighbours", word="北京")
    assert texts(page, ".column h3") == ["words", "others"]
    for place, name in enumerate(("words", "others")):
        expected = [word for word, _ in library.items[name].thing.most_similar("北京", topn=15)]
        assert texts(page, f".column:nth-of-type({place + 1}) .scores .word") == expected
    page.click("label:has(#chip-others)")
    page.wait_for_function("() => document.querySelectorAll('.column').length === 1")
    assert "models=words" in page.url


def test_a_typed_text_gets_labels_and_shades(open_page: Open, task_address: str, task_library: Library) -> None:
    page = open_page("predict", base=task_address, lang="zh")
    page.fill("#text", "房间很干净。")
    page.keyboard.press("Enter")
    page.wait_for_selector(".labels li")
    (found,) = task_library.items["classify"].thing.predict(["房间很干净。"])
    assert texts(page, ".labels .word") == [*found.probabilities]
    assert texts(page, ".labels .soft")[0] == f"{100 * found.probability:.1f} %"
    assert "".join(texts(page, ".shade")) == "房间很干净。"
    colours = page.locator(".shade").evaluate_all("all => all.map((one) => getComputedStyle(one).backgroundColor)")
    assert len(set(colours)) > 2


def test_entities_are_marked_and_answers_stand_in_their_passage(open_page: Open, task_address: str) -> None:
    page = open_page("predict", base=task_address, model="tag", text="王明来了")
    page.wait_for_selector(".marked")
    assert texts(page, ".running")[0] == "王明人来了"
    assert texts(page, ".entities strong") == ["王明"]
    passage = "他叫李红，住在上海。他喜欢跑步。"
    page = open_page("predict", base=task_address, model="span", passage=passage, question="他住在哪里？")
    page.wait_for_selector(".marked")
    assert texts(page, ".running") == [passage]
    assert texts(page, ".marked") == texts(page, ".outcome strong")
    page = open_page("predict", base=task_address, model="pair", first="很干净", second="很脏")
    page.wait_for_selector(".labels li")
    assert set(texts(page, ".labels .word")) == {"same", "other"}


def test_alternatives_are_ranked_by_their_probabilities(
    open_page: Open, task_address: str, task_library: Library
) -> None:
    page = open_page("predict", base=task_address, model="choice")
    page.fill("#context", "房间很干净。")
    alternatives = ["服务很冷淡。", "位置很方便。", "前台很吵闹。"]
    page.fill("#alternatives", "\n".join([*alternatives, "", "  "]))  # empty lines are none
    page.click("button.primary")
    page.wait_for_selector(".labels li")
    (found,) = task_library.items["choice"].thing.predict([("房间很干净。", alternatives)])
    ranked = sorted(zip(found.probabilities, alternatives, strict=True), reverse=True)
    assert texts(page, ".labels .word") == [text for _, text in ranked]
    assert texts(page, ".labels .soft") == [f"{100 * share:.1f} %" for share, _ in ranked]
    page.fill("#alternatives", "服务很冷淡。")
    page.click("button.primary")
    page.wait_for_selector(".problem")
    assert "alternatives" in texts(page, ".problem")[0]


def test_one_walks_by_click_and_back_by_the_back_button(open_page: Open) -> None:
    page = open_page("neighbours", word="北京", models="words")
    first = texts(page, ".scores .word")
    page.click(".scores li:first-child a")
    page.wait_for_function("word => document.getElementById('word').value === word", arg=first[0])
    assert texts(page, ".scores .word") != first
    page.go_back()
    page.wait_for_function("() => document.getElementById('word').value === '北京'")
    page.wait_for_selector("[data-ready]")
    assert texts(page, ".scores .word") == first


def test_arrows_move_through_the_lists_and_enter_walks(open_page: Open) -> None:
    page = open_page("neighbours", word="北京")
    page.focus(".column:first-of-type li:first-child a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    focused = page.evaluate("document.activeElement.querySelector('.word').textContent")
    assert focused == texts(page, ".column:nth-of-type(2) .scores .word")[2]
    page.keyboard.press("Enter")
    page.wait_for_function("word => document.getElementById('word').value === word", arg=focused)


def test_the_graph_is_drawn_apart_and_walked_by_keys(open_page: Open) -> None:
    page = open_page("neighbours", word="北京", models="words", **{"as": "graph"})
    assert page.locator(".node").count() == 17
    assert page.locator("line.link").count() >= 16
    assert texts(page, ".node.here text") == ["北京"]
    places = page.locator(".node").evaluate_all("nodes => nodes.map((n) => n.getAttribute('transform'))")
    points = [tuple(map(float, place[10:-1].split())) for place in places]
    gaps = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for i, a in enumerate(points) for b in points[:i]]
    assert min(gaps) > 12
    other = page.locator(".node:not(.here)").first
    word = other.get_attribute("data-word")
    other.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("word => document.querySelector('.node.here')?.dataset.word === word", arg=word)
    page.wait_for_function("() => document.activeElement.matches('.node.here')")  # the keys walk on from there
    assert page.locator(".node.past").count() > 0  # where one came from is still there
    page.locator(".node:not(.here) circle").last.click()
    page.wait_for_function("word => document.querySelector('.node.here')?.dataset.word !== word", arg=word)


def test_words_complete_from_the_vocabulary(open_page: Open) -> None:
    page = open_page("neighbours")
    assert texts(page, ".examples a")[:3] == ["北京", "苹果", "音乐"]
    page.locator("#word").press_sequentially("苹果1")
    page.wait_for_selector("#word-options option[value='苹果10']", state="attached")
    page.keyboard.press("Enter")
    page.wait_for_selector(".scores")
    assert "word=%E8%8B%B9%E6%9E%9C1&" in page.url


def test_an_unknown_word_is_explained_in_its_column(open_page: Open) -> None:
    page = open_page("neighbours", word="北京市")
    assert "has no vector" in texts(page, ".problem")[0]


def test_home_shows_what_is_loaded_and_invites(open_page: Open) -> None:
    page = open_page()
    assert texts(page, ".loaded strong") == ["words", "others", "context", "index", "corpus"]
    assert "240 sentences" in page.locator(".loaded").nth(3).inner_text()
    assert page.locator(".invitation").count() == 3
    page.locator(".invitation").first.click()
    page.wait_for_selector(".card")  # a word of the index itself, and its uses


def test_the_api_is_described_on_a_page_of_our_own(open_page: Open) -> None:
    page = open_page("api", lang="zh")
    assert {"GET /api/concordance", "POST /api/same-sense", "GET /api/uses"} <= set(texts(page, ".endpoint h2"))
    told = [text for text in texts(page, ".endpoint h2 + p, .endpoint td.soft") if text]
    assert [text for text in told if not re.search(r"[\u4e00-\u9fff]", text)] == []
    assert "curl -G" in texts(page, ".endpoint pre")[0]
    assert json.loads(saved(page, "#openapi"))["info"]["title"] == "polyseme"


def test_on_a_phone_every_tab_is_in_sight_and_the_graph_is_readable(open_page: Open) -> None:
    page = open_page("neighbours", width=390, word="北京", models="words", **{"as": "graph"})
    boxes = page.locator(".tab").evaluate_all("tabs => tabs.map((tab) => tab.getBoundingClientRect().right)")
    assert max(boxes) <= 390
    heights = page.locator(".node text").evaluate_all(
        "nodes => nodes.map((node) => node.getBoundingClientRect().height)"
    )
    assert min(heights) >= 12


def test_an_analogy_in_two_models(open_page: Open, library: Library) -> None:
    page = open_page("analogy")
    for name, word in (("a", "北京"), ("b", "苹果"), ("c", "音乐")):
        page.fill(f"#{name}", word)
    page.keyboard.press("Enter")
    page.wait_for_selector(".equation")
    answers = [library.items[n].thing.analogy("北京", "苹果", "音乐")[0][0] for n in ("words", "others")]
    assert texts(page, ".equation strong") == answers


def test_curves_are_drawn_from_the_records(open_page: Open) -> None:
    page = open_page("curves")
    assert texts(page, "figcaption strong") == ["loss"]
    assert "training progress" in page.inner_text("figcaption")  # on which models counted otherwise compare too
    assert page.locator(".chart .line").count() == 2
    path = page.locator(".chart .line").first.get_attribute("d")
    heights = [float(part.split(" ")[1]) for part in path.replace("M", "L").split("L")[1:]]
    assert len(heights) == 5
    assert heights == sorted(heights)  # the loss falls, and y grows downwards
    assert "words: 0.6" in texts(page, ".legend span")


def test_options_are_explained_in_the_language_of_the_page(open_page: Open) -> None:
    assert "读自哪个文件" in open_page("models", name="words", lang="zh").inner_text(".sheet")
    assert "the file the vectors were read from" in open_page("models", name="words").inner_text(".sheet")


def test_the_facts_of_every_card_are_in_chinese_on_the_chinese_page(open_page: Open) -> None:
    names = texts(open_page("models", lang="zh"), ".shelf strong")
    assert {"words", "context"} <= set(names)
    for name in names:
        card = open_page("models", name=name, lang="zh")
        for label in texts(card, ".sheet dt"):
            assert any("\u4e00" <= letter <= "\u9fff" for letter in label), (name, label)
        assert not {"true", "false"} & set(texts(card, ".sheet dd"))


def test_the_card_has_calls_to_copy(open_page: Open) -> None:
    page = open_page("models", name="words")
    calls = texts(page, ".sheet pre")
    assert len(calls) == 3
    assert 'most_similar("北京", topn=10)' in calls[0]
    assert calls[1].startswith("polyseme neighbours ")
    assert "/api/neighbours" in calls[2]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".copy").first.click()
    page.wait_for_function("() => document.querySelector('.copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == calls[0]
    page.click("#item-index")
    page.wait_for_function("() => document.querySelector('.sheet h2')?.textContent.startsWith('index')")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_in_both_languages_both_themes_and_on_a_phone(open_page: Open, view: str) -> None:
    light = open_page(view, lang="zh")
    dark = open_page(view, lang="en", scheme="dark", width=360)
    background = "getComputedStyle(document.body).backgroundColor"
    assert light.evaluate(background) != dark.evaluate(background)
    assert light.evaluate("document.documentElement.lang") == "zh-Hans"
    assert light.locator(".tab[aria-current]").inner_text() != dark.locator(".tab[aria-current]").inner_text()
    assert dark.evaluate("document.documentElement.scrollWidth") <= 360


def test_language_and_theme_are_switched_and_remembered(open_page: Open) -> None:
    page = open_page("neighbours", word="北京")
    page.click("#language")
    assert texts(page, ".tab[aria-current]") == ["近邻词"]
    assert "lang=zh" in page.url
    background = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(background)
    page.click("#theme")
    after = page.evaluate(background)
    assert before != after
    page.goto(page.url.replace("?lang=zh", ""))
    page.wait_for_selector("[data-ready]")
    assert texts(page, ".tab[aria-current]") == ["近邻词"]
    assert page.evaluate(background) == after


@pytest.mark.parametrize("view", VIEWS)
def test_an_empty_view_shows_the_command_that_fills_it(open_page: Open, serving: Any, view: str) -> None:
    with serving(create_app(Library([]))) as base:
        page = open_page(view, base=base)
        assert texts(page, ".empty pre")[0].startswith("polyseme ")
        page.close()


def test_a_token_is_asked_for_and_taken_from_the_address(open_page: Open, library: Library, serving: Any) -> None:
    with serving(create_app(library, token="a-long-token")) as base:
        page = open_page(base=base, until="#token")
        page.fill("#token", "another-token")
        page.keyboard.press("Enter")
        page.wait_for_selector(".problem")
        assert "The token is wrong" in page.inner_text(".problem")
        page.fill("#token", "a-long-token")
        page.keyboard.press("Enter")
        page.wait_for_selector("[data-ready]")
        other = page.context.browser.new_page()
        other.goto(f"{base}/#token=a-long-token")
        other.wait_for_selector("[data-ready]")
        assert "a-long-token" not in other.url
        other.click("#api")
        other.wait_for_selector(".endpoint")
        assert "GET /api/neighbours" in texts(other, ".endpoint h2")
        other.close()
        page.close()


def test_no_command_lies_under_its_copy_button(open_page: Open) -> None:
    page = open_page("models", width=400, name="words")
    script = """() => [...document.querySelectorAll('.code')].map((code) => {
        const range = document.createRange();
        range.selectNodeContents(code.querySelector('pre'));
        const button = code.querySelector('.copy').getBoundingClientRect();
        const under = (r) => r.right > button.left && r.top < button.bottom && r.bottom > button.top;
        return [...range.getClientRects()].some(under);
    })"""
    covered = page.evaluate(script)
    assert len(covered) >= 3
    assert not any(covered)


def test_words_that_look_like_html_stay_text(open_page: Open, serving: Any, tmp_path: Path) -> None:
    import numpy as np

    from polyseme.text.vocabulary import Vocabulary
    from polyseme.words.vectors import WordVectors

    words = ["<img src=x onerror=alert(1)>", "<b>粗</b>", "\"'><script>alert(1)</script>", "普通"]
    vectors = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    model = WordVectors(Vocabulary(words, np.array([4, 3, 2, 1])), vectors)
    items: list[Item] = [model_item("<i>名</i>", "/a/<b>path</b>", model)]
    with serving(create_app(Library(items), cache=tmp_path)) as base:
        page = open_page("neighbours", base=base, word="普通")
        assert sorted(texts(page, ".scores .word")) == sorted(words[:3])
        graph = open_page("neighbours", base=base, word="普通", **{"as": "graph"})
        assert sorted(texts(graph, ".node text")) == sorted(words)
        card = open_page("models", base=base)
        assert card.locator("main img, main b, main i, main script").count() == 0
        for each in (page, graph, card):
            each.close()


def test_texts_are_found_by_two_models_with_the_words_of_the_query_marked(open_page: Open, library: Library) -> None:
    page = open_page("search", query="给 打 电话", models="context,words", lang="zh")
    assert texts(page, ".column h3") == ["context", "words"]
    found = texts(page, ".column:nth-of-type(1) .found .text")
    assert len(found) == 10
    index = TextIndex.build(library.items["context"].thing, library.corpus("corpus"))
    assert found == [hit.text for hit in index.search("给 打 电话")]
    scores = texts(page, ".found .score")
    assert set(texts(page, ".found mark")) <= {"给", "打", "电话"}
    assert "没有找到" in page.inner_text(".column:nth-of-type(2)")  # of its words none is in the query
    page.click("label:has(#how-words)")
    page.wait_for_function(  # while it looks there is no score at all
        "first => (document.querySelector('.found .score')?.textContent ?? first) !== first", arg=scores[0]
    )
    assert "how=words" in page.url
    assert texts(page, ".found .text") == [hit.text for hit in index.search("给 打 电话", how="words")]


def test_attention_is_drawn_for_the_layer_and_head_that_are_chosen(open_page, serving, shared_data):
    bert = load(shared_data / "models" / "hf_tiny" / "bert-tiny-zh")
    sentence = "他打了个电话。"
    with serving(create_app(Library([model_item("bert", "bert", bert)]))) as address:
        page = open_page("attention", base=address, sentence=sentence, layer=1, head=2)
        page.wait_for_selector(".attention-lines .from")
        found = bert.attention(sentence)
        assert texts(page, ".attention-lines .from button") == found.tokens
        own = found.weights[0, 1]
        assert page.locator(".attention-lines line").count() == int((own.round(4) >= 0.02).sum())
        page.click("#from-1")
        page.wait_for_selector("#from-1[aria-pressed=true]")
        shown = [float(text.removesuffix(" %")) for text in texts(page, ".attention-lines .to .soft")]
        assert shown == pytest.approx(100 * own[1], abs=0.06)
        page.select_option("#layer", "2")
        page.wait_for_function("location.hash.includes('layer=2')")
        page.set_viewport_size({"width": 390, "height": 800})
        shares = page.locator(".attention-lines .to .soft")
        shares.nth(len(found.tokens) - 1).wait_for()  # those of the other layer
        edges = shares.evaluate_all("shares => shares.map((share) => share.getBoundingClientRect().right)")
        assert len(edges) == len(found.tokens)
        assert max(edges) <= page.locator(".attention-lines").evaluate("(box) => box.getBoundingClientRect().right")
        page.close()  # before the server: a question under way would be refused
