"""Parallel text is read pair by pair, from a table, from two files or from a folder."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest

from polyseme.data.parallel import Parallel
from polyseme.errors import OptionError, TextError

PAIRS = [("Hi.", "嗨。"), ("Stop!", "住手！"), ("I see.", "我明白了。")]


def written(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def tsv(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


def test_the_same_pairs_come_from_every_form(tmp_path: Path) -> None:
    english = "".join(f"{source}\n" for source, _ in PAIRS)
    chinese = "".join(f"{target}\n" for _, target in PAIRS)
    one, other = written(tmp_path, "a.en", english), written(tmp_path, "a.zh", chinese.encode("gb18030"))
    records = "".join(f'{{"en": "{source}", "zh": "{target}"}}\n' for source, target in PAIRS)
    table = written(tmp_path, "a.tsv", tsv(PAIRS))
    written(tmp_path, "folder/b.en.gz", gzip.compress(english.encode()))
    written(tmp_path, "folder/b.zh.gz", gzip.compress(chinese.encode()))
    found = [
        Parallel.read(table),
        Parallel.read(one, other),
        Parallel.read([one, other]),
        Parallel.read(tmp_path / "folder"),
        Parallel.read(written(tmp_path, "a.jsonl", records)),
        Parallel.read(written(tmp_path, "b.tsv", "source\ttarget\n" + tsv(PAIRS))),
        Parallel.read(written(tmp_path, "c.tsv", "".join(f"7\t{a}\t{b}\n" for a, b in PAIRS)),
                      columns={"source": 2, "target": 3}),
    ]  # fmt: skip
    assert [list(pairs) for pairs in found] == [PAIRS] * len(found)
    assert len({pairs.fingerprint for pairs in found}) == 1
    assert found[0].facts["mean_characters"] == {"source": 4.7, "target": 3.3}
    assert list(Parallel.read([table, table])) == PAIRS * 2


def test_reversed_pairs_are_the_other_way_round(tmp_path: Path) -> None:
    pairs = Parallel.read(written(tmp_path, "a.tsv", tsv(PAIRS)), segment=("english", "jieba"))
    back = pairs.reversed()
    assert list(back) == [(target, source) for source, target in PAIRS]
    assert [one.method for one in back.segmentations] == ["jieba", "english"]
    assert back.facts["columns"] == {"source": 2, "target": 1}
    assert back.fingerprint != pairs.fingerprint == back.reversed().fingerprint


def test_a_split_holds_out_a_share_that_the_seed_decides(tmp_path: Path) -> None:
    made = [(f"line {n}", f"第{n}行") for n in range(100)]
    pairs = Parallel.read(written(tmp_path, "a.tsv", tsv(made)))
    train, test = pairs.split(0.1, seed=2)
    assert (len(train), len(test)) == (90, 10)
    assert sorted([*train, *test]) == sorted(made)
    assert test.fingerprint == pairs.split(0.1, seed=2)[1].fingerprint != pairs.split(0.1, seed=3)[1].fingerprint
    with pytest.raises(OptionError, match="between 0 and 1"):
        pairs.split(1.0)


def test_lines_with_an_empty_side_are_left_out_and_counted(tmp_path: Path) -> None:
    one, other = written(tmp_path, "a.en", "a\n\nb\n"), written(tmp_path, "a.zh", "甲\n乙\n\n")
    pairs = Parallel.read(one, other)
    assert list(pairs) == [("a", "甲")]
    assert pairs.facts["left_out_with_an_empty_side"] == 2


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({"a.en": "a\nb\n", "a.zh": "甲\n"}, {}, r"a\.zh ends before line 2 of .*a\.en: the two are not aligned"),
        ({"a.tsv": "a\t甲\n" * 9 + "b\n"}, {}, "1 of 10 rows cannot be read: line 10 has 1 column instead of 2"),
        ({"a.tsv": "a\tb\tc\n" * 9}, {}, "name them, as in columns="),
        ({"a.tsv": "a\tb\tc\n"}, {"columns": {"text": 1}}, "columns are parallel: source, target; not text"),
        ({"a.txt": ""}, {}, "is empty"),
        ({"a.tsv": " \t \n" * 9}, {}, "is empty"),
        ({"a.txt": "只有一列\n没有译文\n"}, {}, "is not a table"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, files: dict[str, str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises((TextError, OptionError), match=message) as error:
        Parallel.read([written(tmp_path, name, data) for name, data in files.items()], **options)
    assert "\n" not in str(error.value)


def test_tatoeba_is_read_as_it_lies(shared_data: Path) -> None:
    path = shared_data / "parallel" / "train.dedup.tsv.xz"
    pairs = Parallel.read(path)
    with lzma.open(path, "rt", encoding="utf-8") as file:
        assert list(pairs) == [tuple(line.rstrip("\n").split("\t")) for line in file]
    assert pairs.facts["rows"] == 37156
    assert Parallel.read(path.parent).fingerprint == pairs.fingerprint
