"""The scripts in examples/ run as they are and print what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# What a reader of each script sees.
PRINTED = {
    "train_and_query_words": ["'tokens': 3000", "('狗', 0.9", "米饭\n"],
    "index_and_uses": ["WordSenses('打', 120 occurrences: 2 uses", "[打]了一个电话", "[打]篮球"],
    "own_word_method": ["[('狗', 1.0)", "['我', '吃', '面条']", "0.5\n"],
    "own_sentence_encoder": ["[[0.58 0.  ]]", "['好', '差']", "'早餐很难吃。'"],
    "own_context_encoder": ["60 occurrences: 2 uses, 50%, 50%", "[打] 电话", "(1, 64)"],
    "classify_with_any_encoder": [
        "none {'accuracy': 1.0",
        "svd {'accuracy': 1.0",
        "tfidf {'accuracy': 1.0",
        "好 ",
        "差 ",
    ],
    "search_notes": ["words [TextHit(1.581", "下个月的会议", "13 [TextHit", "明天去超市买水果。"],
    "read_old_elmo": ["'projection_dim': 8", "(3, 3, 16)", "the same vectors: True", "torch.Size([1, 2, 50])"],
}


def test_every_example_is_run():
    assert {file.stem for file in EXAMPLES.glob("*.py")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_and_prints_what_it_promises(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert [text for text in PRINTED[name] if text not in printed] == [], printed


@pytest.mark.parametrize("name", PRINTED)
def test_it_can_be_read_at_a_glance(name):
    lines = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert 20 <= len(lines) <= 40
    assert f"`python examples/{name}.py`" in lines[0]
