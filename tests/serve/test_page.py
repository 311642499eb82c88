"""The page, driven in a real browser: what is drawn, what the keys do, and that it asks nobody else.

Every test fails on a console error, an exception in the page, or a request that leaves the server.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from polyseme.api import load
from polyseme.search import TextIndex
from polyseme.serve.app import create_app
from polyseme.serve.library import Item, Library, model_item

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
VIEWS = [
    "home", "concordance", "senses", "sentence", "neighbours", "search", "attention", "analogy", "map", "predict",
    "curves", "models",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium on this machine (Debian's package chromium; scripts/browser.py installs it)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Open]:
    """``open_page("view", word="…")``: a page on that view, watched for errors and outside requests."""
    contexts, wrong = [], []

    def watch(page: Any, own: str) -> None:
        page.on("console", lambda m: wrong.append(f"console: {m.text}") if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
        page.on("request", lambda r: None if r.url.startswith((own, "data:")) else wrong.append(f"outside: {r.url}"))

    def opened(
        view: str = "",
        *,
        lang: str = "en",
        scheme: str = "light",
        width: int = 1200,
        base: str = address,
        until: str = "[data-ready]",
        **state: Any,
    ) -> Any:
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, color_scheme=scheme, locale="en-GB", reduced_motion="reduce")
        contexts.append(context)
        page = context.new_page()
        watch(page, base)
        page.goto(f"{base}/?lang={lang}#/{view}{'?' + urlencode(state) if state else ''}")
        page.wait_for_selector(until)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not wrong, wrong


def texts(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


def distinct_colours(page: Any, selector: str) -> int:
    """How many clearly different colours were drawn on a canvas."""
    script = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Map();
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3] < 180) continue;
        const key = [data[i] >> 5, data[i + 1] >> 5, data[i + 2] >> 5].join();
        seen.set(key, (seen.get(key) ?? 0) + 1);
      }
      return [...seen.values()].filter((times) => times > 20).length;
    }"""
    page.wait_for_timeout(100)  # a frame is drawn
    return int(page.locator(selector).evaluate(script))


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
    assert texts(page, ".marked") == texts(page, ".figure strong")
    page = open_page("predict", base=task_address, model="pair", first="很干净", second="很脏")
    page.wait_for_selector(".labels li")
    assert set(texts(page, ".labels .word")) == {"same", "other"}


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


def test_a_words_sense_in_a_sentence_beside_the_static_answer(open_page: Open) -> None:
    page = open_page("sentence", sentence="词1 去 打 排球 。")
    assert texts(page, ".tokens button") == ["词1", "去", "打", "排球", "。"]
    page.click("#token-2")
    page.wait_for_selector(".kwic")
    assert page.locator("#token-2").get_attribute("aria-pressed") == "true"
    found = page.locator(".kwic a").evaluate_all("links => links.map((a) => a.title)")
    assert len(found) == 15
    assert all("球" in sentence for sentence in found)
    assert set(texts(page, ".kwic mark")) == {"打"}
    page.wait_for_selector(".column:nth-of-type(2) .problem")  # 打 is not among the static model's words


def test_the_layer_slider_changes_the_answer_and_the_address(open_page: Open) -> None:
    page = open_page("sentence", sentence="词1 去 打 排球 。", at=1)
    before = texts(page, ".kwic .score")
    assert page.locator("#layer").input_value() == "1"
    page.focus("#layer")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => location.hash.includes('layer=0')")
    page.wait_for_selector("[data-ready] .kwic")
    assert texts(page, ".kwic .score") != before
    assert all(float(score) > 0.99 for score in texts(page, ".kwic .score"))  # layer 0 is the word itself


def test_other_words_that_mean_the_same(open_page: Open) -> None:
    page = open_page("sentence", sentence="词1 去 打 排球 。", at=3)
    page.check("#any")
    page.wait_for_function("() => document.querySelector('.hits')?.textContent.includes('篮球')")
    assert "排球" not in texts(page, ".kwic mark")


def test_senses_are_coloured_clusters_with_their_sentences(open_page: Open) -> None:
    page = open_page("senses", word="打")
    cards = page.locator(".card").count()
    assert cards >= 2
    assert page.locator(".shares span").count() == cards
    assert distinct_colours(page, "canvas") >= 2
    assert "240 occurrences" in page.inner_text("h2")
    page.click(".card:first-of-type .kwic:first-of-type a")
    page.wait_for_selector(".tokens button[aria-pressed=true]")
    assert texts(page, ".tokens button[aria-pressed=true]") == ["打"]


def test_a_point_shows_its_sentence(open_page: Open) -> None:
    page = open_page("senses", word="打")
    place = page.locator("canvas").evaluate(
        """canvas => {
          const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const first = data.findIndex((value, i) => i % 4 === 3 && value > 200) >> 2;
          return [first % width, Math.floor(first / width)];
        }"""
    )
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + place[0], box["y"] + place[1])
    page.wait_for_selector(".under mark")
    assert texts(page, ".under mark") == ["打"]


def saved(page: Any, selector: str) -> str:
    """The text of the file that a click downloads."""
    with page.expect_download() as waiting:
        page.click(selector)
    return Path(waiting.value.path()).read_text(encoding="utf-8-sig")


def test_all_occurrences_of_a_use_are_listed_sorted_and_exported(open_page: Open) -> None:
    page = open_page("senses", word="打")
    assert "sure" in page.inner_text("h2")
    assert page.locator(".card").first.locator("h3").inner_text().count("%") == 1
    page.click(".card:first-of-type .small-link")
    page.wait_for_selector("#lines .kwic")
    assert page.locator("#lines .kwic").count() == 50
    page.click("#more")
    page.wait_for_function("() => document.querySelectorAll('#lines .kwic').length === 100")
    rows = list(csv.DictReader(io.StringIO(saved(page, "#export-csv"))))
    assert {row["match"] for row in rows} == {"打"}
    assert rows[0]["behind"]
    assert len(rows) == len({row["sentence"] for row in rows}) > 100
    assert len({("球" in row["right"]) for row in rows}) == 1  # one use, one kind of context
    lines = saved(page, "#export-jsonl").splitlines()
    assert [json.loads(line)["left"] for line in lines] == [row["left"] for row in rows]


def test_a_concordance_is_sorted_counted_exported_and_leads_to_what_is_used_alike(open_page: Open) -> None:
    page = open_page("concordance", query="打", corpus="corpus", sort="right")
    assert "240 hits" in page.inner_text(".figures")
    after = [text[:2] for text in texts(page, "#lines .after")]
    assert after == sorted(after, key=lambda word: word.encode("gb18030"))
    assert page.locator(".spread span").count() == 20
    rows = list(csv.DictReader(io.StringIO(saved(page, "#export-tsv")), delimiter="\t"))
    assert len(rows) == 240
    page.click("label:has(#part-collocates)")
    page.wait_for_selector("table.collocates")
    assert {"电话", "手机", "号码"} <= set(texts(page, ".collocates tbody th"))
    page.go_back()
    page.wait_for_selector("#lines .kwic")
    other = open_page("concordance", query="打(篮|排)球", corpus="index", mode="regex")
    assert set(texts(other, "#lines mark")) == {"打篮球", "打排球"}
    other.click("#lines .kwic:first-of-type a")
    other.wait_for_selector(".tokens button[aria-pressed=true]")
    assert texts(other, ".tokens button[aria-pressed=true]") == ["打"]


def test_home_shows_what_is_loaded_and_invites(open_page: Open) -> None:
    page = open_page()
    assert texts(page, ".loaded strong") == ["words", "others", "context", "index", "corpus"]
    assert "240 sentences" in page.locator(".loaded").nth(3).inner_text()
    assert page.locator(".invitation").count() == 3
    page.locator(".invitation").first.click()
    page.wait_for_selector(".card")  # a word of the index itself, and its uses


def test_a_point_is_chosen_by_keys_and_by_a_second_tap(open_page: Open) -> None:
    page = open_page("senses", word="打")
    page.focus("canvas")
    page.keyboard.press("n")
    page.wait_for_selector(".under mark")
    first = page.inner_text(".under .whole")
    page.keyboard.press("n")
    page.wait_for_function("old => document.querySelector('.under .whole').innerText !== old", arg=first)
    page.keyboard.press("Enter")
    page.wait_for_selector(".tokens button[aria-pressed=true]")


def test_words_within_a_line_on_the_map_are_listed_and_the_map_is_saved(open_page: Open) -> None:
    page = open_page("map", model="words", size=300, colour="cluster")
    assert distinct_colours(page, "canvas") >= 3
    page.locator("canvas").scroll_into_view_if_needed()
    box = page.locator("canvas").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 9, box["y"] + 9)  # within its round corner
    page.mouse.down()
    for x, y in ((1, 0), (1, 1), (0, 1)):
        page.mouse.move(box["x"] + 9 + x * (box["width"] - 18), box["y"] + 9 + y * (box["height"] - 18))
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_selector(".picked a")
    assert "60 words picked" in page.inner_text(".picked")
    rows = list(csv.DictReader(io.StringIO(saved(page, "#export-words"))))
    assert len(rows) == 60
    with page.expect_download() as waiting:
        page.click("#export-picture")
    assert Path(waiting.value.path()).read_bytes().startswith(b"\x89PNG")
    page.fill("#only", "苹果")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('only')")
    page.wait_for_selector("[data-ready] canvas")
    assert len(list(csv.DictReader(io.StringIO(saved(page, "#export-words"))))) == 20


def test_what_is_expected_and_what_is_hardly_used_alike_is_told(open_page: Open) -> None:
    page = open_page("sentence", sentence="词1 去 打 排球 。", at=2)
    page.wait_for_selector(".kwic")
    assert "is used alike" in page.inner_text(".column h2")
    page.check("#any")
    page.wait_for_function("() => document.querySelector('.column h2')?.textContent.startsWith('Other words')")


def test_the_api_is_described_on_a_page_of_our_own(open_page: Open) -> None:
    page = open_page("api", lang="zh")
    assert {"GET /api/concordance", "POST /api/same-sense", "GET /api/uses"} <= set(texts(page, ".endpoint h2"))
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


def test_the_map_is_drawn_zoomed_and_clicked(open_page: Open) -> None:
    page = open_page("map", model="words", size=300)
    assert page.locator("canvas").get_attribute("data-method") == "pca"
    drawn = "canvas => canvas.toDataURL()"
    whole = page.locator("canvas").evaluate(drawn)
    assert distinct_colours(page, "canvas") >= 1
    page.focus("canvas")
    page.keyboard.press("+")
    page.wait_for_function("old => document.querySelector('canvas').toDataURL() !== old", arg=whole)
    page.keyboard.press("0")
    page.wait_for_function("old => document.querySelector('canvas').toDataURL() === old", arg=whole)
    page.fill("#find", "音乐")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('find')")
    page.wait_for_selector("[data-ready] canvas")
    page.wait_for_timeout(100)
    box = page.locator("canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # the word found stands in the middle
    page.wait_for_function("() => document.getElementById('word')?.value === '音乐'")


def test_tsne_replaces_pca_when_it_is_ready(open_page: Open) -> None:
    drawn = []
    for method in ("pca", "tsne"):
        page = open_page("map", model="others", size=300, method=method)
        page.wait_for_selector(f"canvas[data-method={method}]", timeout=60_000)
        assert distinct_colours(page, "canvas") >= 1  # something
        drawn.append(page.locator("canvas").evaluate("canvas => canvas.toDataURL()"))
    assert drawn[0] != drawn[1]


def test_tsne_that_fails_leaves_pca_and_says_why(
    open_page: Open, library: Library, serving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*arguments: Any, **options: Any) -> None:
        raise MemoryError("cannot take 9 GB")

    monkeypatch.setattr("sklearn.manifold.TSNE", no_memory)
    with serving(create_app(library, cache=tmp_path)) as base:
        page = open_page("map", base=base, model="words", method="tsne")
        page.wait_for_selector("canvas[data-method=pca]")
        assert "not enough memory" in page.inner_text("main")
        page.close()  # before the server: what it still asks for would be refused


def test_curves_are_drawn_from_the_records(open_page: Open) -> None:
    page = open_page("curves")
    assert texts(page, "figcaption strong") == ["loss"]
    assert "share of the training" in page.inner_text("figcaption")  # on which models counted otherwise compare too
    assert page.locator(".chart .line").count() == 2
    path = page.locator(".chart .line").first.get_attribute("d")
    heights = [float(part.split(" ")[1]) for part in path.replace("M", "L").split("L")[1:]]
    assert len(heights) == 5
    assert heights == sorted(heights)  # the loss falls, and y grows downwards
    assert "words: 0.6" in texts(page, ".legend span")


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
