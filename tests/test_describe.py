"""What polyseme.describe says is at a path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import polyseme
from polyseme.cli.main import polyseme as commands
from polyseme.errors import FormatError, OptionError
from polyseme.search import TextIndex

TEXT = "他 打 电话\n他 打 球\n我们 去 北京\n"


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """One small thing of each kind."""
    text, table, pairs = tmp_path / "text.txt", tmp_path / "films.tsv", tmp_path / "aligned.tsv"
    text.write_text(TEXT, encoding="utf-8")
    table.write_text("text\tlabel\n" + "很 好\tgood\n很 坏\tbad\n" * 20, encoding="utf-8")
    pairs.write_text("source\ttarget\n" + "I see\t我 看见\nyou go\t你 去\n" * 20, encoding="utf-8")
    corpus = polyseme.Corpus.build(text, tmp_path / "corpus", segment="space")
    vectors = polyseme.train("counts", corpus, min_count=1, out=tmp_path / "counts")
    TextIndex.build(vectors, text, tmp_path / "texts")
    return {
        "text": text, "texts": table, "parallel": pairs, "corpus": tmp_path / "corpus", "model": tmp_path / "counts",
        "text index": tmp_path / "texts",
    }  # fmt: skip


def test_it_knows_every_kind_and_says_what_the_command_says(places: dict[str, Path]) -> None:
    for kind, path in places.items():
        description = polyseme.describe(path)
        assert description.kind == kind
        printed = CliRunner().invoke(commands, ["info", str(path), "--json"]).stdout
        assert json.loads(printed) == json.loads(json.dumps(description.to_json()))


def test_figures_are_those_of_the_text(places: dict[str, Path]) -> None:
    words = TEXT.split()
    for kind in ("text", "corpus"):
        facts = polyseme.describe(places[kind], segment="space", min_count=2).facts
        assert (facts["tokens"], facts["sentences"], facts["words"]) == (len(words), 3, len(set(words)))
    assert facts["vocabulary_after_min_count"] == sum(words.count(word) > 1 for word in set(words))


def test_only_options_that_were_chosen_are_listed_as_changed(places: dict[str, Path]) -> None:
    assert polyseme.describe(places["model"]).changed_options() == {"min_count": 1}


def test_every_byte_is_checked_on_demand(places: dict[str, Path]) -> None:
    file = places["corpus"] / "ids.i32"
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(FormatError, match=r"ids\.i32"):
        polyseme.describe(places["corpus"], verify=True)


def test_a_mistyped_option_is_an_error(places: dict[str, Path]) -> None:
    with pytest.raises(OptionError, match="did you mean 'segment'"):
        polyseme.describe(places["corpus"], segmant="space")


def test_describing_a_model_needs_no_torch(places: dict[str, Path]) -> None:
    code = f"import polyseme, sys; polyseme.describe({str(places['model'])!r}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
