"""The page's text: every key once, and the fields of the API in Chinese too."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import polyseme.serve

PAGE = Path(polyseme.serve.__file__).parent / "page"
SERVER = PAGE.parent


def test_no_key_is_given_twice():
    keys = re.findall(r"^  (\w+): \[", (PAGE / "strings.js").read_text(encoding="utf-8"), re.MULTILINE)
    assert [key for key, times in Counter(keys).items() if times > 1] == []


def test_every_string_that_a_view_asks_for_is_there():
    known = set(re.findall(r"^  (\w+): \[", (PAGE / "strings.js").read_text(encoding="utf-8"), re.MULTILINE))
    asked = {
        key for file in PAGE.rglob("*.js") for key in re.findall(r"\bt\(\"(\w+)\"", file.read_text(encoding="utf-8"))
    }
    assert asked - known == set()


def test_every_figure_of_held_out_text_has_its_name_in_both_languages():
    known = set(re.findall(r"^  figure_(\w+): \[", (PAGE / "strings.js").read_text(encoding="utf-8"), re.MULTILINE))
    files = [file for room in ("words", "contexts", "sentences") for file in (SERVER.parent / room).rglob("*.py")]
    told = {
        name
        for file in files
        for name in re.findall(r"\"(\w*(?:perplexity|accuracy|_loss|_found))\": ", file.read_text(encoding="utf-8"))
    }
    assert {"masked_perplexity", "pair_accuracy"} <= told
    assert told - known == set()


def test_every_field_of_the_api_is_described_in_chinese():
    chinese = (PAGE / "chinese.js").read_text(encoding="utf-8")
    code = "".join(file.read_text(encoding="utf-8") for file in SERVER.glob("*.py"))
    described = set(re.findall(r"(?:Query|Field)\([^\n]*description=\"([^\"]+)\"", code))
    assert described
    assert [text for text in described if f'"{text}":' not in chinese] == []
