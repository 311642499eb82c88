"""Text is cut as its segmenter says, and the same way again after it was stored."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import rjieba
from hypothesis import given
from hypothesis import strategies as st

from polyseme.errors import FormatError, OptionError, TextError
from polyseme.text import segmenter
from polyseme.text.segment import METHODS, Segmentation, read_words

MIXED = "他在U.S.读Ph.D.，用GPT-4写了3.14万字；I'm fine，café是咖啡馆，T恤100元。"


@pytest.mark.parametrize(
    ("method", "text", "words"),
    [
        ("auto", "他打了孩子。", "他 打 了 孩子 。"),
        ("auto", "Don't stop: it's 3.14 in the U.S., self-made!", "Don't stop : it's 3.14 in the U.S. , self-made !"),
        ("auto", "我说I'm fine，在café里。", "我 说 I'm fine ， 在 café 里 。"),
        ("auto", "café和crème brûlée。", "café 和 crème brûlée 。"),
        ("auto", "他在U.S.读书", "他 在 U.S. 读书"),
        ("auto", "见https://x.org/吧，圆周率是3.14", "见 https://x.org/ 吧 ， 圆周率 是 3.14"),
        ("auto", "买了T恤，100元", "买 了 T恤 ， 100 元"),
        ("auto", "Москва是俄罗斯的首都", "Москва 是 俄罗斯 的 首都"),
        ("auto", "写信到 a.b@c.org 或 https://x.org/a?b=1 吧", "写信 到 a.b@c.org 或 https://x.org/a?b=1 吧"),
        ("auto", "हिन्दी भाषा", "हिन्दी भाषा"),
        ("char", "中文 ab", "中 文 a b"),
        ("char", "ẍ\u0323 हिन्दी 👍🏽🇨🇳", "ẍ\u0323 हि न् दी 👍🏽 🇨🇳"),
        ("auto", "一共3,000.50元，合12,345,678和1,23", "一共 3,000.50 元 ， 合 12,345,678 和 1 , 23"),
        ("auto", "战线长达1,000公里，3 , 000", "战线 长达 1,000 公里 ， 3 , 000"),
        ("auto", "write to a.b-c@d.org or x+y.z@e.co.uk.", "write to a.b-c@d.org or x+y.z@e.co.uk ."),
        ("auto", "他👍🏽了，👩‍👩‍👧‍👦在🇨🇳🇯🇵，❤️吧1️⃣", "他 👍🏽 了 ， 👩‍👩‍👧‍👦 在 🇨🇳 🇯🇵 ， ❤️ 吧 1️⃣"),
        ("auto", "他打了个盹。", "他 打了个 盹 。"),
        ("auto", "他 打 了个盹。", "他 打 了 个 盹 。"),  # the page tells people to put spaces
        ("jieba", "他👩‍💻了❤️", "他 👩‍💻 了 ❤️"),
        ("english", "I 👍🏽👩‍💻 in 🇨🇳🇯🇵, ❤️ 1️⃣!", "I 👍🏽 👩‍💻 in 🇨🇳 🇯🇵 , ❤️ 1️⃣ !"),
        ("english", "می‌خواهم क्‍ष", "می‌خواهم क्‍ष"),
        ("space", "中国 人民\t站起来 了", "中国 人民 站起来 了"),
        ("english", "Hello, world... 1,000 e-mails -- 12:30", "Hello , world ... 1,000 e-mails -- 12:30"),
    ],
)
def test_words(method: str, text: str, words: str) -> None:
    assert Segmentation(method).tokens(text) == words.split()


def test_jieba_is_rjieba() -> None:
    text = "小明硕士毕业于中国科学院计算所，后在日本京都大学深造。Hello World 2024 年"
    assert Segmentation("jieba").tokens(text) == [word for word in rjieba.cut(text) if word.strip()]


def test_jieba_agrees_with_the_original(shared_data: Path) -> None:
    jieba = pytest.importorskip("jieba")
    import logging
    import lzma

    jieba.setLogLevel(logging.ERROR)
    with lzma.open(shared_data / "corpora" / "zhwiki.valid.txt.xz", "rt", encoding="utf-8") as handle:
        lines = [line.strip() for _, line in zip(range(200), handle, strict=False)]
    same = sum(
        Segmentation("jieba", normalise="none").tokens(line) == [w for w in jieba.cut(line) if w.strip()]
        for line in lines
    )
    assert same >= 0.9 * len(lines)


def test_a_user_dictionary_keeps_words_whole(tmp_path: Path) -> None:
    text = "我们的云计算中心平台很好"
    assert "云计算中心平台" not in Segmentation("jieba").tokens(text)
    (tmp_path / "words.txt").write_text("云计算中心平台 100 n\n\n很好用\n", encoding="utf-8")
    words = read_words(str(tmp_path / "words.txt"))
    assert words == ("云计算中心平台", "很好用")
    for method in ("jieba", "auto"):
        assert "云计算中心平台" in Segmentation(method, words=words).tokens(text)
    with pytest.raises(OptionError, match="auto or jieba"):
        Segmentation("char", words=words)


@pytest.mark.parametrize("method", METHODS)
def test_it_cuts_the_same_after_it_was_stored(method: str) -> None:
    words = ("咖啡馆吧",) if method in ("auto", "jieba") else ()
    kept = Segmentation(method, script="simplified", case="lower", words=words)
    again = Segmentation.from_json(json.loads(json.dumps(kept.to_json())), where="model.json")
    assert again == kept
    assert again.tokens(MIXED) == kept.tokens(MIXED)


def test_a_function_cuts_now_but_cannot_be_restored() -> None:
    kept = Segmentation.of(lambda text: text.split("-"))
    assert kept.tokens("a-b c--d") == ["a", "b c", "d"]
    with pytest.raises(TextError, match="segmented by a Python function"):
        Segmentation.from_json(kept.to_json(), where="model.json").tokens("a-b")


@pytest.mark.parametrize("record", [{}, {"method": 3}, [], {"method": "auto", "normalise": "nfkc"}, {"method": "x"}])
def test_a_strange_record_is_refused(record: object) -> None:
    with pytest.raises(FormatError, match=r"^model\.json"):
        Segmentation.from_json(record, where="model.json")  # type: ignore[arg-type]


@given(text=st.text(max_size=60), method=st.sampled_from(METHODS))
def test_words_are_the_text_without_its_spaces(text: str, method: str) -> None:
    segmentation = Segmentation(method)
    text = text.encode("utf-8", "replace").decode().replace("\0", "")
    tokens = segmentation.tokens(text)
    assert "".join(tokens) == "".join(segmentation.normalised(text).split())
    assert not any(token.isspace() or not token for token in tokens)


@pytest.mark.parametrize(
    "run",
    [
        "a" * 200_000,
        "1." * 100_000,
        "1,000" * 40_000,
        "ab." * 70_000,
        "👍🏽\u200d" * 70_000,
        "a@" * 100_000,
        "a'" * 100_000,
    ],
)
def test_a_long_foreign_run_in_chinese_takes_no_longer_than_its_length(run: str) -> None:
    segmentation = Segmentation("auto")
    segmentation.tokens("词典")  # is loaded before the clock starts
    begun = time.process_time()
    words = segmentation.tokens(f"中'{run}")
    assert time.process_time() - begun < 60
    assert "".join(words) == f"中'{run}"


def test_lines_of_different_kinds_keep_their_words_and_their_order() -> None:
    lines = ["我在café里。", "你好吗？", "Don't go, Zoë.", "", "他说naïve，她说café。", "天气好。"]
    words = segmenter.work(Segmentation("auto").jobs("\n".join(lines)), ()).decode(segmenter.CODING)
    assert [line.split() for line in words.split("\n")[:-1]] == [
        ["我", "在", "café", "里", "。"],
        ["你好", "吗", "？"],
        ["Don't", "go", ",", "Zoë", "."],
        [],
        ["他", "说", "naïve", "，", "她", "说", "café", "。"],
        ["天气", "好", "。"],
    ]


def test_a_stray_nul_is_no_foreign_word() -> None:
    assert Segmentation("auto", normalise="none").tokens("在café，\0里。") == ["在", "café", "，", "\ufffd", "里", "。"]


@pytest.mark.parametrize(
    ("word", "settings", "text", "expected"),
    [
        ("網絡安全法案", {"script": "simplified"}, "通過網絡安全法案", ["通过", "网络安全法案"]),
        ("ＡＢＣ公司", {}, "在ABC公司", ["在", "ABC公司"]),
        ("iPhone手机", {"case": "lower"}, "买iPhone手机", ["买", "iphone手机"]),
    ],
)
def test_the_user_dictionary_is_normalised_as_the_text_is(word, settings, text, expected) -> None:
    assert Segmentation("jieba", words=(word,), **settings).tokens(text) == expected


def test_one_string_is_no_user_dictionary() -> None:
    with pytest.raises(OptionError, match="words is a list of words"):
        Segmentation("jieba", words="云计算")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_half_a_surrogate_pair_is_a_character_that_is_not_there(method: str) -> None:
    cut_with = Segmentation(method)
    assert cut_with.tokens("他打\ud800电话 a\udfff") == cut_with.tokens("他打\ufffd电话 a\ufffd")
    assert Segmentation("jieba", words=("打\ud83d电话",)).words == ("打\ufffd电话",)


@pytest.mark.parametrize("method", METHODS)
@given(
    texts=st.lists(
        st.text(
            st.characters(exclude_categories=()) | st.sampled_from("他打电话 \n\r\0.,'a1é\u0301\u200d"), max_size=12
        )
    )
)
def test_texts_cut_together_are_cut_as_each_alone(method: str, texts: list[str]) -> None:
    cut_with = Segmentation(method)
    assert cut_with.token_lists(texts) == [cut_with.tokens(text) for text in texts]
