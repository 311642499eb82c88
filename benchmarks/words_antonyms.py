"""Are antonyms near each other? A part of benchmarks/words.py; the lists are those of docs/antonyms.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyseme.words.vectors import WordVectors
from words_records import table, write_section

ANTONYMS = {
    "zh": (
        "好 坏,大 小,多 少,高 低,长 短,新 旧,快 慢,早 晚,冷 热,轻 重,强 弱,男 女,左 右,上 下,前 后,内 外,东 西,南 北,"
        "开始 结束,增加 减少,上升 下降,提高 降低,成功 失败,胜利 失败,进攻 防守,支持 反对,积极 消极,简单 复杂,安全 危险,"
        "富裕 贫穷,战争 和平,真 假,生 死,买 卖,古代 现代,公开 秘密,传统 现代,先进 落后,喜欢 讨厌,建立 废除"
    ),
    "en": (
        "good bad,big small,high low,long short,new old,fast slow,early late,cold hot,heavy light,strong weak,"
        "rich poor,left right,up down,inside outside,east west,north south,begin end,increase decrease,rise fall,"
        "raise lower,success failure,victory defeat,attack defend,support oppose,positive negative,"
        "simple complex,safe dangerous,war peace,true false,life death,buy sell,ancient modern,public private,"
        "love hate,first last,wide narrow,open close,accept reject,male female,internal external"
    ),
}
SYNONYMS = {
    "zh": (
        "好 优秀,大 巨大,多 许多,高 高大,新 全新,快 迅速,早 早期,冷 寒冷,重 沉重,强 强大,男 男性,女 女性,开始 展开,"
        "结束 终止,增加 增长,减少 减低,提高 提升,成功 顺利,胜利 获胜,失败 战败,进攻 攻击,防守 防御,支持 赞成,反对 抗议,"
        "简单 简易,复杂 繁杂,危险 危急,贫穷 贫困,战争 战役,生 诞生,死 死亡,买 购买,卖 出售,古代 古时,秘密 机密,"
        "喜欢 喜爱,建立 成立,废除 取消,重要 主要,著名 知名"
    ),
    "en": (
        "good excellent,big large,small little,high tall,fast quick,early initial,cold chilly,strong powerful,"
        "rich wealthy,poor impoverished,begin start,end finish,increase growth,rise climb,success achievement,"
        "victory triumph,defeat loss,attack assault,defend protect,support backing,oppose resist,simple easy,"
        "complex complicated,safe secure,dangerous hazardous,war conflict,true correct,false wrong,death demise,"
        "buy purchase,sell trade,ancient old,private personal,love affection,last final,close shut,accept receive,"
        "reject refuse,famous renowned,important significant"
    ),
}
COLUMNS = ("synonyms", "antonyms", "others", "nearer than synonyms", "among 10 nearest")


def pairs(text: str) -> list[tuple[str, str]]:
    return [(a, b) for a, b in (pair.split() for pair in text.split(","))]


def antonym_figures(model: WordVectors, language: str) -> dict[str, float]:
    """Mean cosines, and how often (per cent) antonyms are nearer than synonyms, and among the ten nearest words."""
    opposite, alike = (
        [p for p in pairs(text[language]) if all(w in model for w in p)] for text in (ANTONYMS, SYNONYMS)
    )
    far, near = (np.array([model.similarity(a, b) for a, b in some]) for some in (opposite, alike))
    words = sorted({word for pair in (*opposite, *alike) for word in pair})
    random = np.random.default_rng(0)
    chosen = [(words[i], words[j]) for i, j in random.integers(0, len(words), (400, 2)).tolist() if i != j]
    others = np.mean([model.similarity(a, b) for a, b in chosen])
    listed = [
        b in {w for w, _ in model.most_similar(a, topn=10)} for a, b in (*opposite, *((b, a) for a, b in opposite))
    ]
    above = float((far[:, None] > near).mean() + (far[:, None] == near).mean() / 2)
    found = (near.mean(), far.mean(), others, 100 * above, 100 * np.mean(listed))
    return {"pairs": len(opposite), **{name: round(float(x), 3) for name, x in zip(COLUMNS, found, strict=True)}}


def write_antonyms(figures: dict[tuple[str, str], dict[str, Any]], size: int, seconds: float) -> None:
    """Write the table of docs/antonyms.md."""
    sections = []
    for language in ("zh", "en"):
        rows = []
        for (method, spoken), found in figures.items():
            if spoken == language:
                cosines = [f"{found[name]:.2f}" for name in COLUMNS[:3]]
                shares = [f"{found[name]:.0f} %" for name in COLUMNS[3:]]
                rows.append([f"`{method}`", str(found["pairs"]), *cosines, *shares])
        heading = f"{language}, {size / 1e6:g} M words, about {seconds:g} CPU seconds each"
        sections.append(f"{heading}\n\n{table(['', 'pairs', *COLUMNS], rows)}")
    write_section("antonyms", "\n".join(sections), "antonyms.md")
