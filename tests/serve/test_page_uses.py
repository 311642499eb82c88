"""Uses, concordance and maps on the page, driven in a real browser.

Every test fails on a console error, an exception in the page, or a request that leaves the server.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.serve.pages import Open, distinct_colours, saved, texts

from polyseme.serve.app import create_app
from polyseme.serve.library import Library

# Where on the screen a point is drawn: the first clear pixel, and a little further into its disc.
POINT = """canvas => {
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const place = data.findIndex((value, i) => i % 4 === 3 && value > 180) >> 2;
  const box = canvas.getBoundingClientRect(), scale = box.width / width;
  return [box.x + (place % width) * scale, box.y + Math.floor(place / width) * scale + 2];
}"""


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


def test_all_occurrences_of_a_use_are_listed_sorted_and_exported(open_page: Open) -> None:
    page = open_page("senses", word="打")
    assert "sure" in page.inner_text("h2")
    columns = csv.DictReader(io.StringIO(saved(page, "#export-csv"))).fieldnames  # of all uses
    assert page.locator(".card").first.locator("h3").inner_text().count("%") == 1
    page.click(".card:first-of-type .small-link")
    page.wait_for_selector("#lines .kwic")
    assert page.locator("#lines .kwic").count() == 50
    page.click("#more")
    page.wait_for_function("() => document.querySelectorAll('#lines .kwic').length === 100")
    rows = list(csv.DictReader(io.StringIO(saved(page, "#export-csv"))))
    assert list(rows[0]) == columns
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


def test_the_collocates_fit_on_a_phone(open_page: Open) -> None:
    page = open_page("concordance", query="打", corpus="corpus", part="collocates", width=390)
    page.wait_for_selector("table.collocates")
    around = page.locator(".scroll:has(.collocates)")
    assert around.evaluate("(e) => e.scrollWidth - e.clientWidth") <= 0
    assert page.locator(".collocates tbody tr").first.locator("td:visible").count() == 4


def test_fingers_are_told_what_they_can_do_and_a_second_tap_opens_a_point(open_page: Open) -> None:
    page = open_page("senses", word="打", width=390, touch=True)
    assert "Pinch" in page.inner_text(".under")
    assert "Wheel" not in page.inner_text(".under")
    page.locator("canvas").scroll_into_view_if_needed()
    page.wait_for_timeout(100)  # a frame is drawn
    x, y = page.locator("canvas").evaluate(POINT)
    page.touchscreen.tap(x, y)
    page.wait_for_selector(".under mark")  # what it is
    page.touchscreen.tap(x, y)
    page.wait_for_selector(".tokens button[aria-pressed=true]")


def test_a_point_is_chosen_by_keys(open_page: Open) -> None:
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
    assert "60 words selected" in page.inner_text(".picked")
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
    page.fill("#only", "没有的字")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('main').innerText.includes('None of these words contains')")


def test_the_list_of_words_is_that_of_the_line_drawn_on_the_map(open_page: Open) -> None:
    page = open_page("map", model="words", size=300)
    box = page.locator("canvas").bounding_box()
    middle, top = box["x"] + box["width"] / 2, box["y"] + 9
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 9, top)
    page.mouse.down()
    for x, y in ((middle, top), (middle, box["y"] + box["height"] - 9), (box["x"] + 9, box["y"] + box["height"] - 9)):
        page.mouse.move(x, y)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_selector(".picked a")
    rows = list(csv.DictReader(io.StringIO(saved(page, "#export-words"))))
    assert [row["word"] for row in rows] == texts(page, ".picked a")
    assert 0 < len(rows) < 60
    assert all(float(row["x"]) < 0 for row in rows)


def test_a_word_chosen_by_keys_is_read_out_and_opened(open_page: Open) -> None:
    page = open_page("map", model="words", size=300)
    page.focus("canvas")
    page.keyboard.press("n")
    page.wait_for_function("() => document.getElementById('live').textContent")
    word = page.inner_text("#live")
    page.keyboard.press("Enter")
    page.wait_for_function("word => document.getElementById('word')?.value === word", arg=word)


def test_a_saved_picture_has_the_ground_of_the_page(open_page: Open) -> None:
    page = open_page("map", model="words", size=300)
    with page.expect_download() as waiting:
        page.click("#export-picture")
    picture = base64.b64encode(Path(waiting.value.path()).read_bytes()).decode()
    corner = """async (picture) => {
      const image = new Image();
      image.src = `data:image/png;base64,${picture}`;
      await image.decode();
      const context = document.createElement("canvas").getContext("2d");
      context.drawImage(image, 0, 0);
      return [...context.getImageData(0, 0, 1, 1).data];
    }"""
    assert page.evaluate(corner, picture) == [255, 255, 255, 255]


def test_points_use_the_longer_side_of_a_canvas_whichever_it_is(open_page: Open) -> None:
    page = open_page()
    drawn = """async ([width, height]) => {
      const { scatter } = await import("/page/scatter.js");
      const canvas = document.createElement("canvas");
      canvas.style.cssText = `position: fixed; width: ${width}px; height: ${height}px`;
      document.body.append(canvas);
      scatter(canvas, [{ x: -1, y: -1 }, { x: 1, y: 1 }], { signal: new AbortController().signal });
      await new Promise((done) => setTimeout(done, 100));
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = [...Array(width * height).keys()].filter((i) => data[4 * i + 3] > 180);
      const extent = (places) => Math.max(...places) - Math.min(...places);
      return [extent(seen.map((i) => i % width)), extent(seen.map((i) => Math.floor(i / width)))];
    }"""
    assert page.evaluate(drawn, [300, 450]) == pytest.approx([252, 378], abs=12)
    assert page.evaluate(drawn, [450, 300]) == pytest.approx([378, 252], abs=12)


def test_what_is_expected_and_what_is_hardly_used_alike_is_told(open_page: Open) -> None:
    page = open_page("sentence", sentence="词1 去 打 排球 。", at=2)
    page.wait_for_selector(".kwic")
    assert "is used the same way" in page.inner_text(".column h2")
    page.check("#any")
    page.wait_for_function("() => document.querySelector('.column h2')?.textContent.startsWith('Other words')")


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
