"""Every format becomes the same kind of corpus, with its paragraphs and documents in order."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from polyseme.errors import TextError
from polyseme.text import source
from polyseme.text.blocks import sniff, unwrapped
from polyseme.text.corpus import Corpus
from polyseme.text.source import find_sources
from polyseme.text.tagged import read_tagged

PEOPLE = """19980101-01-001-001/m  迈向/v  充满/v  希望/n  的/u  新/a  世纪/n
19980101-01-001-002/m  “/w  我/r  听/v  [中央/n  人民/n  广播/vn  电台/n]nt  。/w  ”/w  他/r  说/v  。/w
19980101-01-002-001/m  １９９７年/t  ，/w  在/p  [香港/ns  政府/n]/nt  //w  乐{yue4}/n
"""
PEOPLE_TAGS = "v v n u a n w r v n n vn n w w r v w t w p ns n w n".split()  # noqa: SIM905
WRAPPED = (
    "It is a truth universally acknowledged, that a single man in\n"
    "possession of a good fortune, must be in want of a wife.\n\n"
    "However little known the feelings or views of such a man may\n"
    "be on his first entering a neighbourhood, this truth is so well\n"
    "fixed in the minds of the surrounding families.\n\n"
) * 5


def written(folder: Path, text: str, name: str = "a.txt") -> Path:
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return folder / name


def tags(corpus: Corpus) -> list[str]:
    return [corpus.tag_names[tag] for tag in np.asarray(corpus.tags)]


def documents(corpus: Corpus) -> list[list[str]]:
    pairs = zip(corpus.document_offsets[:-1], corpus.document_offsets[1:], strict=True)
    return [[corpus.text(i) for i in range(start, end)] for start, end in pairs]


def paragraphs(corpus: Corpus) -> list[str]:
    pairs = zip(corpus.paragraph_offsets[:-1], corpus.paragraph_offsets[1:], strict=True)
    return ["|".join(corpus.text(i) for i in range(start, end)) for start, end in pairs]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_blank_lines_separate_documents_and_lines_paragraphs(tmp_path: Path, line_end: str) -> None:
    lines = ["", "第一段。还有。", "第二段", "", "  ", "另一篇。", "", ""]
    corpus = Corpus.build(written(tmp_path, line_end.join(lines)))
    assert documents(corpus) == [["第一段。", "还有。", "第二段"], ["另一篇。"]]
    assert paragraphs(corpus) == ["第一段。|还有。", "第二段", "另一篇。"]
    assert corpus.facts["paragraphs"] == 3


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("file", [["一。", "二。", "三。"]]),
        ("blank-line", [["一。", "二。"], ["三。"]]),
        ("line", [["一。"], ["二。"], ["三。"]]),
    ],
)
def test_documents_are_what_one_says(tmp_path: Path, named: str, expected: list[list[str]]) -> None:
    assert documents(Corpus.build(written(tmp_path, "一。\n二。\n\n三。\n"), documents=named)) == expected


def test_a_folder_is_read_sorted_without_hidden_and_binary_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    written(tmp_path, "乙。\n\n丙。", "b/1.txt")
    written(tmp_path, "甲。", "a.txt")
    written(tmp_path, "不要。", ".hidden")
    written(tmp_path, "不要。", ".git/x.txt")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    corpus = Corpus.build(tmp_path)
    assert documents(corpus) == [["甲。"], ["乙。", "丙。"]]
    assert "skipped" in caplog.text
    assert "picture.png" in caplog.text


def test_json_records_are_documents(tmp_path: Path) -> None:
    records = [{"text": "一篇。\n两段。"}, {"text": ""}, {"text": "下一篇。", "label": 1}]
    path = written(tmp_path, "\n".join(json.dumps(r) for r in records) + "\n\n", "a.jsonl")
    assert documents(Corpus.build(path)) == [["一篇。", "两段。"], ["下一篇。"]]
    with pytest.raises(TextError, match=r"a\.jsonl, line 1 has no text in the field 'body': it has 'text'"):
        Corpus.build(path, field="body")
    with pytest.raises(TextError, match=r"c\.jsonl, line 1 has no text in the field 'text': there is 5 in it"):
        Corpus.build(written(tmp_path, '{"text": 5}\n', "c.jsonl"))
    with pytest.raises(TextError, match=r"b\.jsonl, line 2 is not JSON: Expecting value in column 10$"):
        Corpus.build(written(tmp_path, '{"text": "好"}\n{"text": \n', "b.jsonl"))
    with pytest.raises(TextError, match=r'line 1 has no text in the field .text.: there is \["深"\] in it'):
        Corpus.build(written(tmp_path, json.dumps({"text": ["深"]}), "d.jsonl"))


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ('{"text": "一。", "n": 1}\n\n{"text": "二。"}\n', "jsonl"),
        ('{"text": "只有一行。"}', "jsonl"),
        ('{"text": "' + "很长的一行。" * 50_000 + '"}\n{"text": "二。"}', "jsonl"),
        ('{"text": "一。"}\n然后是文字。\n', "text"),
        ('{\n  "text": "一个对象，好几行。"\n}\n', "text"),
        ("{注} 这是文字。\n", "text"),
        ('"你好。"\n"我也好。"\n', "text"),
        ("{" * 100_000, "text"),
        ('{"a":' * 100_000, "text"),
    ],
)
def test_json_lines_are_known_by_what_they_are(text: str, format: str) -> None:
    assert sniff("standard input", text) == format


def test_wrapped_lines_are_put_together(tmp_path: Path) -> None:
    corpus = Corpus.build(written(tmp_path, WRAPPED))
    assert corpus.n_documents == 1
    assert corpus.text(0) == WRAPPED.split("\n\n")[0].replace("\n", " ")
    assert len(corpus) == 10
    assert len(Corpus.build(written(tmp_path, WRAPPED), format="text")) == 25


def chinese_paragraphs() -> list[str]:
    story = "他走进院子，看见一棵很老的槐树；树下坐着三个人，正说着昨天的事。“你来了！”有人笑着说，又低下头去。"
    clauses = re.findall(".+?[，；。”]", story)
    return ["".join(clauses[(i * k) % 7] for i in range(1, 20 + k % 5)) + "完。" for k in range(1, 13)]


@pytest.mark.parametrize("width", [24, 30, 38, 40])
@pytest.mark.parametrize("indent", ["", "　　"])
def test_wrapped_chinese_is_put_together_without_spaces(tmp_path: Path, width: int, indent: str) -> None:
    whole = chinese_paragraphs()
    broken = ["\n".join(re.findall(f".{{1,{width}}}", indent + text)) for text in whole]
    assert paragraphs(Corpus.build(written(tmp_path, "\n\n".join(broken)))) == paragraphs(
        Corpus.build(written(tmp_path, "\n".join(whole)), format="text")
    )


@pytest.mark.parametrize(
    "stanza",
    [
        ["白日依山尽", "黄河入海流", "欲穷千里目", "更上一层楼"],
        ["红军不怕远征难，万水千山只等闲。", "五岭逶迤腾细浪，乌蒙磅礴走泥丸。", "金沙水拍云崖暖，大渡桥横铁索寒。"],
        ["国破山河在，城春草木深，感时花溅泪，恨别鸟惊心。", "烽火连三月，家书抵万金，白头搔更短，浑欲不胜簪。"],
        ["北京市 1949 人口两千一百万 面积一万六千", "上海市 1949 人口两千四百万 面积六千三百"] * 3,
        ["他说了一句话。", "她没有回答，只是看着窗外的雨。", "两个人就这样坐了很久很久，谁也不动。"],
        ["苹果", "一种很甜的水果", "长在北方的果园里的那一种"],
    ],
)
def test_verses_tables_and_lists_are_not_wrapped(stanza: list[str]) -> None:
    assert sniff("a.txt", "\n\n".join(["\n".join(stanza)] * 20)) == "text"
    assert sniff("a.txt", "\n\n".join(chinese_paragraphs())) == "text"


def test_a_dash_that_was_broken_in_two_is_one_again() -> None:
    assert unwrapped(["他说：“", "等等—", "—别走…", "…”", "She said", "no"]) == "他说：“等等——别走……” She said no"


def test_tagged_text_gives_words_tags_and_articles(tmp_path: Path) -> None:
    corpus = Corpus.build(written(tmp_path, PEOPLE))
    assert list(corpus) == [
        "迈向 充满 希望 的 新 世纪".split(),  # noqa: SIM905
        "“ 我 听 中央 人民 广播 电台 。 ”".split(),  # noqa: SIM905
        "他 说 。".split(),  # noqa: SIM905
        "1997年 ， 在 香港 政府 / 乐".split(),  # noqa: SIM905
    ]
    assert tags(corpus) == PEOPLE_TAGS
    assert corpus.text(3) == "１９９７年，在香港政府/乐"
    start, end = corpus.token_spans(3)[0]
    assert corpus.text(3)[start:end] == "１９９７年"
    assert np.diff(corpus.document_offsets).tolist() == [3, 1]


def test_a_tagged_word_of_which_nothing_is_left_goes_with_its_tag(tmp_path: Path) -> None:
    text = "他/r \u200b/w 说/v 话/n \ufeff/w 。/w\n\u200b/w\n\u00ad/w 好/a\n"
    corpus = Corpus.build(written(tmp_path, text), format="tagged", documents="line")
    assert [corpus.sentence(i) for i in range(len(corpus))] == [["他", "说", "话", "。"], ["好"]]
    assert corpus.tags is not None
    assert [corpus.tag_names[tag] for tag in corpus.tags] == ["r", "v", "n", "w", "a"]
    assert "" not in corpus.vocabulary


def test_tagged_and_plain_files_together_have_empty_tags(tmp_path: Path) -> None:
    plain, tagged = written(tmp_path, "他说话。"), written(tmp_path, PEOPLE, "b.txt")
    corpus = Corpus.build([plain, tagged, plain])
    words = [corpus.all_words[i] for i in corpus.ids]
    assert words[:3] == words[-3:] == ["他", "说话", "。"]
    assert tags(corpus) == ["", "", "", *PEOPLE_TAGS, "", "", ""]


@pytest.mark.parametrize(
    ("part", "pair"),
    [("[/w", ("[", "w")), ("]/w", ("]", "w")), ("//w", ("/", "w")), ("电台/n]nt", ("电台", "n")), ("无", ("无", ""))],
)
def test_brackets_and_slashes(part: str, pair: tuple[str, str]) -> None:
    assert read_tagged(part) == ("", [pair])


def test_segmented_text_keeps_its_words_and_later_text_is_segmented(tmp_path: Path) -> None:
    corpus = Corpus.build(written(tmp_path, "今天 天气 很好 。\n我 打电话给他 。\n"), format="segmented")
    assert corpus.sentence(1) == ["我", "打电话给他", "。"]
    assert corpus.segmentation.tokens("他打了孩子") == ["他", "打", "了", "孩子"]


def test_a_line_longer_than_a_block_is_one_paragraph(tmp_path: Path) -> None:
    text = "他说了一句很长的话，" * 60_000 + "完。"
    assert len(text) > 2 * source.BLOCK
    corpus = Corpus.build(written(tmp_path, text), segment="char", workers=1)
    assert corpus.facts["paragraphs"] == corpus.n_documents == 1
    assert "".join(corpus.text(i) for i in range(len(corpus))) == text
    assert corpus.n_tokens == len(text)


def test_documents_that_lie_across_blocks_are_whole(tmp_path: Path) -> None:
    lines = [("字" * (i % 50 + 1) + "。") if i % 7 else "" for i in range(60_000)]
    corpus = Corpus.build(written(tmp_path, "\n".join(lines)), segment="char", workers=1)
    expected = [part.split("\n") for part in "\n".join(lines).strip("\n").split("\n\n")]
    assert np.diff(corpus.document_offsets).tolist() == [len(part) for part in expected]
    assert corpus.facts["paragraphs"] == sum(map(len, expected))


def test_missing_empty_and_unreadable_sources_are_one_line_errors(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="does not exist"):
        find_sources([tmp_path / "nothing"])
    with pytest.raises(TextError, match="no files in"):
        find_sources([tmp_path])
    with pytest.raises(TextError, match="there is no text in"):
        Corpus.build(written(tmp_path, ""))
    with pytest.raises(TextError, match="no words in"):
        Corpus.build(written(tmp_path, " \n\u200b\n"))
    if os.geteuid():
        locked = tmp_path / "locked"
        locked.mkdir(mode=0)
        with pytest.raises(TextError, match="cannot be read"):
            find_sources([locked])


def test_many_open_braces_are_read_in_a_moment() -> None:
    word = "解" + "{" * 200_000
    begun = time.process_time()
    assert read_tagged(f"{word}/v") == ("", [(word, "v")])
    assert time.process_time() - begun < 60


def test_a_line_of_characters_nobody_sees_is_blank(tmp_path: Path) -> None:
    path = written(tmp_path, "一行。\n\u200b \u200e\n二行。\u00ad\n\u200b三行。")
    corpus = Corpus.build(path)
    assert [corpus.text(i) for i in range(len(corpus))] == ["一行。", "二行。", "\u200b三行。"]
    assert [corpus.sentence(i)[-1] for i in range(len(corpus))] == ["。"] * 3
    assert corpus.document_offsets.tolist() == [0, 1, 3]


def test_what_polyseme_made_is_not_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("他打了个电话。", encoding="utf-8")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.json").write_text("一个别人的文件。", encoding="utf-8")
    tokens = [Corpus.build(tmp_path, tmp_path / "corpus", segment="char").n_tokens for _ in range(3)]
    assert tokens == [15, 15, 15]
    with pytest.raises(TextError, match="model or index, not text"):
        find_sources([tmp_path / "corpus"])


@pytest.mark.parametrize("format", ["tagged", "segmented"])
def test_words_that_are_given_are_not_cut_into_characters(format: str, tmp_path: Path) -> None:
    path = written(tmp_path, "迈向/v 新/a 世纪/n\n")
    with pytest.raises(TextError, match="which is already segmented"):
        Corpus.build(path, format=format, segment="char")
    assert Corpus.build(path, format=format, segment="jieba").n_tokens == 3


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "他\\ud83d说好了。\\ud83d\\ude00"}\n', encoding="utf-8")
    corpus = Corpus.build(path)
    assert [corpus.text(i) for i in range(len(corpus))] == ["他\ufffd说好了。", "😀"]


def test_the_fingerprint_knows_the_size_of_the_vocabulary(tmp_path: Path) -> None:
    path = written(tmp_path, "他打了个电话。他走了。")
    prints = [Corpus.build(path, max_size=size).fingerprint for size in (None, 100, 3, 3)]
    assert prints[0] == prints[1] != prints[2] == prints[3]
