"""The tiny texts and labelled data that the golden folders are trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polyseme

PEOPLE = ["小明", "老王", "姐姐", "弟弟", "Anna"]
DOINGS = [
    "打了电话给朋友，说明天去公园。",
    "打开窗户，看见外面下雨了。",
    "在家里打扫 the old room，然后看书。",
    "去商店打酱油，又打了一斤醋。",
    "喜欢看书，也喜欢 reading。",
    "不打人，也打了球！",
]
LINES = [person + doing for doing in DOINGS for person in PEOPLE]
TAGGED = [
    "小明/nr 打/v 电话/n 。/w", "姐姐/n 在/p 学校/n 打/v 篮球/n 。/w", "打/v 开/v 窗户/n ，/w 看/v 见/v 老王/nr 。/w",
    "Anna/nr 喜欢/v 看/v 书/n 。/w",
]  # fmt: skip
DOCUMENTS = "\n\n".join("\n".join(LINES[start : start + 6]) for start in range(0, 30, 6)) + "\n"
ONE = {"seed": 1, "threads": 1}


def corpus(lines: list[str] = LINES, **how: Any) -> polyseme.Corpus:
    return polyseme.Corpus.from_sentences(lines, **how)


def label(line: str) -> str:
    return "family" if "姐姐" in line or "弟弟" in line else "other"


def texts() -> polyseme.Examples:
    return polyseme.Examples.of([(line, label(line)) for line in LINES])


def detailed() -> polyseme.Examples:
    return polyseme.Examples.of([(line, f"{label(line)}:{'book' if '书' in line else 'none'}") for line in LINES])


def couples() -> list[tuple[str, str]]:
    return list(zip(LINES, LINES[7:] + LINES[:7], strict=True))


def pairs() -> polyseme.Examples:
    return polyseme.Examples.of([(a, b, "same" if label(a) == label(b) else "other") for a, b in couples()])


def scored() -> polyseme.Examples:
    return polyseme.Examples.of([(a, b, len({*a} & {*b}) % 6 * 1.0 + 0.5) for a, b in couples()], scored=True)


def tags(kind: str = "scheme") -> polyseme.Examples:
    cut = [corpus([line]).sentence(0) for line in LINES]
    if kind == "scheme":
        marked = [["B-PER" if n == 0 else "B-ACT" if t == "打" else "O" for n, t in enumerate(c)] for c in cut]
    else:
        marked = [["name" if n == 0 else "sign" if t in "，。！" else "word" for n, t in enumerate(c)] for c in cut]
    return polyseme.Examples.of(list(zip(cut, marked, strict=True)), kind="tags")


def spans(*, unanswered: bool = False) -> polyseme.Examples:
    rows = [(line, "谁？", [(line[: 4 if line.startswith("Anna") else 2], 0)]) for line in LINES]
    return polyseme.Examples.of([(*row[:2], []) if unanswered and n % 4 == 0 else row for n, row in enumerate(rows)])


def choices() -> polyseme.Examples:
    rows = [(a, [b, LINES[n - 3], ""][: 2 + n % 2], n % 2) for n, (a, b) in enumerate(couples())]
    return polyseme.Examples.of(rows)


def parallel() -> polyseme.Parallel:
    Path("parallel.tsv").write_text(
        "".join(f"line {len(line)} {line[0]}\t{line}\n" for line in LINES), encoding="utf-8"
    )
    return polyseme.Parallel.read("parallel.tsv")


def dialogues() -> polyseme.Corpus:
    Path("dialogues.txt").write_text(DOCUMENTS, encoding="utf-8")
    return polyseme.Corpus.build("dialogues.txt", workers=1)
