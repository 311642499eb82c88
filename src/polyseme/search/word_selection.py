"""Which words an index holds."""

from __future__ import annotations

import unicodedata

import numpy as np
from numpy.typing import NDArray

from polyseme.text.vocabulary import Vocabulary

SKIPS = ("punctuation", "function", "nothing")

# Words of grammar in Chinese and English: frequent, and seldom what one looks for by meaning.
_FUNCTION_WORDS = (
    "的 了 着 过 地 得 之 所 是 在 有 和 与 及 或 而 且 但 但是 并 并且 以及 也 都 就 又 还 才 只 很 更 最 不 没 没有 "
    "这 那 这个 那个 这些 那些 此 该 其 各 每 某 我 你 您 他 她 它 我们 你们 他们 她们 它们 自己 谁 什么 哪 怎么 "
    "一 个 一个 些 把 被 将 对 对于 关于 从 自 向 往 到 于 以 为 为了 因 因为 由 由于 所以 因此 如 如果 若 虽然 则 "
    "让 使 给 跟 同 比 按 据 除 等 等等 吗 呢 吧 啊 呀 嘛 么 便 却 再 已 曾 正 亦 皆 者 乃 遂 们 几 两 "
    "这里 那里 哪里 这儿 那儿 这样 那样 怎样 这么 那么 怎么样 多少 咱们 大家 人家 什么样 如此 如何 为什么 "
    "就是 不是 还是 只是 但凡 不过 而且 或者 并不 已经 正在 曾经 现在 如今 可以 不能 一些 有些 这种 那种 这些个 "
    "the a an and or but nor so if then than that this these those of in on at by for with about against between into "
    "through during before after to from up down out over under again i me my we our you your he him his she her it "
    "its they them their what which who whom is am are was were be been being have has had do does did will would "
    "shall should can could may might must not no as there here all any some such more most other each every very only "
    "when where how why while because though although until upon without within among every yet also still even ever "
    "himself herself itself themselves myself yourself whose"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


def indexed_words(vocabulary: Vocabulary, *, min_count: int, skip: str) -> NDArray[np.bool_]:
    """For each word of the vocabulary whether its occurrences are indexed."""
    kept = vocabulary.counts >= min_count
    if skip != "nothing":
        kept &= np.fromiter((has_letter(word) for word in vocabulary.words), dtype=bool, count=len(vocabulary))
    if skip == "function":
        places = [place for word in FUNCTION_WORDS if (place := vocabulary.index.get(word)) is not None]
        kept[places] = False
    return kept


def has_letter(word: str) -> bool:
    """Whether it is a word or a number, and not punctuation."""
    return any(unicodedata.category(character)[0] in "LNM" for character in word)


def tells_something(word: str) -> bool:
    """Whether it is a word of letters and no function word: one to look at for its uses."""
    return word.isalpha() and word.lower() not in FUNCTION_WORDS
