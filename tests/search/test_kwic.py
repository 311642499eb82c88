"""Concordance lines: the word in one column, whatever the widths and whatever normalisation changed."""

from __future__ import annotations

from rich.cells import cell_len

from polyseme.cli.tables import kwic_lines, trimmed, trimmed_left
from polyseme.search import build_index
from polyseme.search.kwic.concordance import Line
from polyseme.search.occurrences.hits import Hit
from polyseme.text.corpus import Corpus

from .conftest import Neighbours


def hit(text: str, word: str, tag: str | None = None) -> Hit:
    start = text.index(word)
    return Hit(0, 0, 0, word, 0.5, text, start, start + len(word), tag)


def test_the_word_stands_in_one_column() -> None:
    hits = [
        hit("他打了个电话。", "打"),
        hit("ab 打 cd", "打", "v"),
        hit("很" * 80 + "打" + "球" * 80, "打", "vn"),
        hit("打", "打"),
    ]
    lines = [line.plain for line in kwic_lines(hits, width=60, brackets=True)]
    columns = {cell_len(line[: line.index("【")]) for line in lines}
    assert len(columns) == 1
    assert all(cell_len(line) <= 60 for line in lines)
    assert "…" in lines[2]
    assert lines[1].startswith("0.500  v ")


def test_a_line_goes_on_into_the_sentences_beside_it() -> None:
    around = {"document": 0, "source": "a", "sentence": 1, "token": 0, "tag": None}
    chinese = Line(**around, text="打球。", start=0, end=1, before="他来了。", behind="他走了。")
    english = Line(**around, text="Play on.", start=0, end=4, before="He came.", behind="He went.")
    lines = [line.plain.strip() for line in kwic_lines([chinese, english], width=60, scores=False, brackets=True)]
    assert lines == ["他来了。【打】球。他走了。", "He came.【Play】 on. He went."]


def test_trimming_counts_columns_and_keeps_the_side_of_the_word() -> None:
    assert trimmed("一二三四", 5) == "一二…"
    assert trimmed_left("一二三四", 5) == "…三四"
    assert trimmed("abc", 3) == trimmed_left("abc", 3) == "abc"


def test_control_characters_do_not_reach_the_terminal() -> None:
    (line,) = kwic_lines([hit("a\x1b[31m打\r\nb", "打")], width=40)
    assert all(character.isprintable() for character in line.plain)


def test_the_original_text_is_shown_where_words_were_normalised(tmp_path) -> None:  # type: ignore[no-untyped-def]
    corpus = Corpus.from_sentences(["１９９８年 ＡＢＣ 很好", "ａｂｃ １９９８年 ①"], segment="space")
    index = build_index(Neighbours(), corpus, tmp_path / "i", dim=4)
    (found,) = index.hits(index.occurrences("ABC"), [1.0])
    assert found.word == "ABC"
    assert found.text[found.start : found.end] == "ＡＢＣ"
    years = index.hits(index.occurrences("1998年"), [1.0, 1.0])
    assert [h.text[h.start : h.end] for h in years] == ["１９９８年", "１９９８年"]
