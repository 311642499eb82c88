"""What the page does between two answers: quick clicks, late answers, errors, drafts and keys.

Every test fails on a console error, an exception in the page, or a request that leaves the server.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import httpx
import pytest
from tests.serve.conftest import word_table
from tests.serve.pages import Open, texts

from polyseme.search import Index, build_index
from polyseme.serve.app import create_app
from polyseme.serve.library import Library, corpus_item, index_item, model_item
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors


def test_two_clicks_on_more_show_each_line_once(open_page: Open) -> None:
    for question in (
        {"view": "concordance", "query": "打", "corpus": "corpus"},
        {"view": "senses", "word": "打", "use": 1},
    ):
        page = open_page(**question)
        page.wait_for_selector("#lines .kwic")
        page.evaluate("() => { for (let i = 0; i < 3; i++) document.getElementById('more').click(); }")
        page.wait_for_function("() => document.querySelectorAll('#lines .kwic').length > 50")
        page.click("#more")
        page.wait_for_function("() => document.querySelectorAll('#lines .kwic').length > 100")
        shown = page.locator("#lines .kwic a").evaluate_all("links => links.map((a) => a.href)")
        assert len(shown) == len(set(shown)) <= 150


def test_more_that_fails_says_so_and_can_be_asked_again(open_page: Open) -> None:
    page = open_page("concordance", query="打", corpus="corpus", lang="zh")
    busy = {"error": {"type": "busy", "message": "the server is busy"}}
    failing = lambda route: route.fulfill(status=200, headers={"X-Polyseme-Status": "503"}, json=busy)  # noqa: E731
    page.route("**/api/concordance*", failing)
    page.click("#more")
    page.wait_for_selector(".export:has(#more) .problem, .export:has(#more) [role=status]:not(:empty)")
    assert "服务器正忙" in page.inner_text(".export:has(#more)")
    page.click("#export-csv")
    page.wait_for_function(
        "() => document.querySelector('.export:has(#export-csv)').textContent.includes('服务器正忙')"
    )
    page.unroute("**/api/concordance*", failing)
    page.click("#more")
    page.wait_for_function("() => document.querySelectorAll('#lines .kwic').length === 100")
    assert "服务器正忙" not in page.inner_text(".export:has(#more)")


def test_the_same_question_can_be_asked_again_after_an_error(open_page: Open) -> None:
    page = open_page("neighbours", models="words")
    failing = lambda route: route.fulfill(  # noqa: E731
        status=200, headers={"X-Polyseme-Status": "503"}, json={"error": {"type": "busy", "message": "busy"}}
    )
    page.route("**/api/neighbours*", failing)
    page.fill("#word", "北京")
    page.keyboard.press("Enter")
    page.wait_for_selector(".problem")
    page.unroute("**/api/neighbours*", failing)
    page.keyboard.press("Enter")
    page.wait_for_selector(".scores")


def test_the_last_model_stays_chosen(open_page: Open) -> None:
    page = open_page("neighbours", word="北京", models="words")
    page.click("label:has(#chip-words)")
    page.wait_for_selector("[data-ready] .scores")
    assert page.is_checked("#chip-words")
    page = open_page("curves", models="words")
    page.click("label:has(#curve-words)")
    page.wait_for_selector("[data-ready] .chart")
    assert page.is_checked("#curve-words")


def test_what_is_typed_stays_when_something_else_is_chosen(open_page: Open, task_address: str) -> None:
    page = open_page("concordance", corpus="corpus")
    page.fill("#query", "打(篮|排)球")
    page.select_option("#mode", "regex")
    page.wait_for_function("() => location.hash.includes('mode=regex')")
    page.wait_for_selector("[data-ready]")
    assert page.input_value("#query") == "打(篮|排)球"
    page.focus("#query")
    page.keyboard.press("Enter")
    page.wait_for_selector("#lines .kwic")
    page.go_back()
    page.wait_for_function("() => document.getElementById('query').value === ''")  # the address says what is asked
    page = open_page("predict", base=task_address, model="classify")
    page.fill("#text", "很干净")
    page.click("#language")
    page.wait_for_selector("[data-ready]")
    page.select_option("#model", "tag")
    page.wait_for_function("() => location.hash.includes('model=tag')")
    page.wait_for_selector("[data-ready]")
    assert page.input_value("#text") == "很干净"


def test_an_answer_does_not_take_the_focus_from_a_field_that_was_entered_meanwhile(open_page: Open) -> None:
    page = open_page("senses", word="打", use=1)
    held: list[Any] = []
    page.route("**/api/uses*", lambda route: held.append(route))
    page.focus("#sort")
    with page.expect_request("**/api/uses*"):
        page.select_option("#sort", "order")
    page.focus("#word")
    page.keyboard.press("End")
    page.keyboard.type("电")
    held[0].continue_()
    page.wait_for_selector("[data-ready] #lines .kwic")
    assert page.evaluate("document.activeElement.id") == "word"
    assert page.input_value("#word") == "打电"


def test_a_late_completion_does_not_replace_a_newer_one(open_page: Open) -> None:
    page = open_page("neighbours", models="words")
    held: list[Any] = []

    def slow(route: Any) -> None:
        prefix = parse_qs(urlparse(route.request.url).query)["prefix"][0]
        held.append(route) if prefix == "苹" else route.continue_()

    page.route("**/api/words*", slow)
    page.locator("#word").press_sequentially("苹果1")
    page.wait_for_selector("#word-options option[value='苹果10']", state="attached")
    options = page.locator("#word-options option").evaluate_all("all => all.map((one) => one.value)")
    with page.expect_response(lambda response: "prefix=%E8%8B%B9&" in response.url):
        held[0].continue_()
    painted(page)
    assert page.locator("#word-options option").evaluate_all("all => all.map((one) => one.value)") == options


def test_a_view_left_before_the_library_came_is_not_drawn(open_page: Open) -> None:
    page = open_page("neighbours")
    held: list[Any] = []
    page.route("**/api/library", lambda route: held.append(route))
    page.reload(wait_until="commit")
    while not held:  # the first question is on its way
        page.wait_for_timeout(10)
    page.evaluate("() => { location.hash = '#/analogy'; }")
    while len(held) < 2:
        page.wait_for_timeout(10)
    held[1].continue_()
    page.wait_for_selector(".view.analogy[data-ready]")
    held[0].continue_()
    painted(page)
    assert page.locator(".view.analogy").count() == 1


def test_the_skip_link_leads_to_the_content_of_the_view(open_page: Open) -> None:
    page = open_page("neighbours", word="北京")
    address = page.url
    page.focus("#skip")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'main'")
    assert page.url == address
    assert page.locator(".scores").count() == 2


def test_keys_of_the_browser_stay_its_own(open_page: Open) -> None:
    script = """([key, name]) => {
      const event = new KeyboardEvent("keydown", { key, [name]: true, bubbles: true, cancelable: true });
      return document.activeElement.dispatchEvent(event);
    }"""
    page = open_page("map", model="words", size=300)
    page.focus("canvas")
    for key in ("p", "n", "0", "+", "-", "ArrowLeft"):
        for name in ("ctrlKey", "metaKey", "altKey"):
            assert page.evaluate(script, [key, name]), (key, name)
    page = open_page("sentence", sentence="词1 去 打 排球 。")
    page.focus("#token-2")
    assert page.evaluate(script, ["ArrowLeft", "altKey"])
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.id") == "token-1"


def test_a_point_is_chosen_with_capital_letters_too(open_page: Open) -> None:
    page = open_page("senses", word="打")
    page.focus("canvas")
    page.keyboard.press("Shift+N")
    page.wait_for_selector(".under mark")


def test_a_link_with_the_token_opens_a_page_that_asks_for_it(open_page: Open, library: Library, serving: Any) -> None:
    with serving(create_app(library, token="a-long-token")) as base:
        page = open_page(base=base, until="#token")
        page.fill("#token", "密码")  # no header can carry it
        page.keyboard.press("Enter")
        assert page.locator("#token").evaluate("(field) => field.validity.patternMismatch")
        page.evaluate("() => { location.hash = '#token=a-long-token'; }")
        page.wait_for_selector("[data-ready]")
        assert "a-long-token" not in page.url
        page.close()


def painted(page: Any) -> None:
    """What came is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


@pytest.fixture
def two_indexes(library: Library, encoder: Any, tmp_path: Path) -> Library:
    """The index of all layers, and one of another text that keeps only the first layer; the first text is tagged."""
    (tmp_path / "text.txt").write_text("他/r  打/v  球/n  。/w\n我/r  打/v  人/n  。/w\n" * 3, encoding="utf-8")
    tagged = Corpus.build(tmp_path / "text.txt", tmp_path / "tagged")
    build_index(encoder, tagged, tmp_path / "other", layers="0")
    other = Index.open(tmp_path / "other", model=encoder, corpus=tagged)
    items = [library.items["index"], library.items["corpus"], index_item("other", "other", other)]
    return Library([*items, corpus_item("tagged", "tagged", tagged)])


def test_another_index_takes_the_sentence_along_but_not_its_number_and_layer(
    open_page: Open, serving: Any, two_indexes: Library, sentences: list[str]
) -> None:
    with serving(create_app(two_indexes)) as base:
        page = open_page("sentence", base=base, index="index", number=3, at=4, layer=1)
        page.set_default_timeout(10_000)
        text = page.input_value("#sentence")
        assert text == sentences[3].replace(" ", "")
        page.select_option("#index", "other")
        page.wait_for_function("() => location.hash.includes('index=other')")
        page.wait_for_selector("[data-ready]")
        assert page.input_value("#sentence") == text
        assert page.locator(".problem").count() == 0
        page.close()


def test_a_sentence_that_is_not_there_leaves_the_form(open_page: Open) -> None:
    page = open_page("sentence", number=100_000, lang="zh")
    assert texts(page, ".problem") == ["出错了 “index”有 240 句，没有编号为 100,000 的句子。"]
    page.fill("#sentence", "词1 去 打 排球 。")
    page.keyboard.press("Enter")
    page.wait_for_selector("#token-2")


def test_another_text_without_tags_is_not_filtered_by_them(open_page: Open, serving: Any, two_indexes: Library) -> None:
    with serving(create_app(two_indexes)) as base:
        page = open_page("concordance", base=base, corpus="tagged", query="打", tag="v")
        assert page.locator("#lines .kwic").count() == 6
        page.select_option("#corpus", "corpus")
        page.wait_for_selector(".figures, .problem")
        page.wait_for_function("() => document.querySelector('.figures')?.textContent.includes('240')")
        page.close()


def test_more_tags_than_colours_share_the_last_one(open_page: Open, serving: Any, tmp_path: Path) -> None:
    tags = ["n", "v", "a", "d", "r", "m", "q", "p", "c", "u"]
    words = [f"{tag}{i}" for i, tag in enumerate(tags) for i in range(12 - i)]
    lines = "".join(f"{word}/{word[0]}  。/w\n" for word in words)
    (tmp_path / "text.txt").write_text(lines, encoding="utf-8")
    tagged = corpus_item("tagged", "tagged", Corpus.build(tmp_path / "text.txt", tmp_path / "c"))
    table = WordVectors(Vocabulary(words, range(len(words), 0, -1)), word_table(len(words)).vectors)
    with serving(create_app(Library([model_item("words", "words", table), tagged]))) as base:
        page = open_page("map", base=base, colour="tag")
        assert texts(page, ".legend span:has(.dot)") == [
            "n noun", "v verb", "a adjective", "d adverb", "r pronoun", "m numeral", "q measure word", "others",
        ]  # fmt: skip
        colours = page.locator(".legend .dot").evaluate_all(
            "all => all.map((dot) => getComputedStyle(dot).backgroundColor)"
        )
        assert len(set(colours)) == 8
        page.close()


def test_tags_of_an_unknown_set_can_be_chosen_too(open_page: Open, serving: Any, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("he/PRP plays/VBZ\nplays/NNS end/VBP\n" * 4, encoding="utf-8")
    tagged = corpus_item("tagged", "tagged", Corpus.build(tmp_path / "text.txt", tmp_path / "c"))
    with serving(create_app(Library([model_item("words", "words", word_table()), tagged]))) as base:
        page = open_page("concordance", base=base, query="plays")
        page.fill("#tag", "NN*")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.querySelectorAll('#lines .kwic').length === 4")
        assert page.locator("#lines .tag").first.inner_text() == "NNS"
        assert open_page("map", base=base).locator("#colour option[value=tag]").count() == 1
        page.close()


def test_every_call_of_the_description_can_be_pasted_into_a_shell(
    open_page: Open, serving: Any, library: Library
) -> None:
    words = ["first", "second", "third", "fourth"]
    table = WordVectors(Vocabulary(words, range(4, 0, -1)), word_table(4).vectors)
    odd = model_item("it's (mine) & yours", "/a/it's here", table)
    with serving(create_app(Library([odd, library.items["index"]]))) as base:
        calls = texts(open_page("api", base=base), ".endpoint pre")
        calls += [text for text in texts(open_page("models", base=base), ".sheet pre") if text.startswith("curl")]
        asked = [call for call in calls if "neighbours" in call or "/api/library/" in call or "tokens" in call]
        assert len(asked) >= 5
        for call in asked:
            echoed = subprocess.run(
                ["/bin/sh", "-c", f"curl() {{ printf '%s\\0' \"$@\"; }}; {call}"], capture_output=True, check=True
            )
            parts = echoed.stdout.decode().split("\0")[:-1]
            assert answered(base, parts) == 200, call


def answered(base: str, parts: list[str]) -> int:
    """The status of what curl would ask with these arguments."""
    address = next(part for part in parts if part.startswith("http"))
    if "-G" in parts:
        pairs = [parts[i + 1].split("=", 1) for i, part in enumerate(parts) if part in ("--data-urlencode", "-d")]
        return httpx.get(address, params=dict(pairs), trust_env=False).status_code
    body = json.loads(parts[parts.index("-d") + 1])
    return httpx.post(address, json=body, trust_env=False).status_code


def test_what_a_text_says_is_never_taken_for_a_place_to_fill(open_page: Open) -> None:
    page = open_page("neighbours", word="$& {1}", models="words", **{"as": "graph"})
    assert "$& {1}" in texts(page, ".problem")[0]
    page = open_page("map", model="words", find="$& $$ {1}")
    assert page.locator("main p[aria-live]").first.inner_text() == "$& $$ {1} is not among these words"


def test_sentences_of_any_language_with_spaces_stand_apart(open_page: Open, serving: Any) -> None:
    lines = ["Он пришёл домой.", "Дом был пуст.", "Я ушёл."]
    corpus = Corpus.from_sentences(lines, segment="space")
    with serving(create_app(Library([corpus_item("text", "text", corpus)]))) as base:
        page = open_page("concordance", base=base, query="был")
        assert texts(page, "#lines .before") == ["Он пришёл домой. Дом"]
        assert texts(page, "#lines .after") == ["пуст. Я ушёл."]
        page.close()


def test_small_numbers_of_a_card_are_not_shown_as_nothing(open_page: Open, serving: Any) -> None:
    table = word_table()
    table.about.corpus["rate"] = 2.5e-8
    with serving(create_app(Library([model_item("words", "words", table)]))) as base:
        assert "2.5e-8" in open_page("models", base=base).inner_text(".sheet")


def test_a_chinese_address_by_any_of_its_codes(open_page: Open) -> None:
    assert open_page(lang="zh-CN").evaluate("document.documentElement.lang") == "zh-Hans"
