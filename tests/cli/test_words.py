"""neighbours, analogy, convert and evaluate, as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.processes import run_command

import polyseme

VEC = "5 2\n国王 1 1\n男人 1 0\n女人 0 1\n王后 0.1 2\n\xa0x 5 -6\n"


def run(*arguments: Any, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, stdin=stdin, cwd=cwd, text=True)


@pytest.fixture(scope="module")
def vec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("words") / "v.vec"
    path.write_bytes(VEC.encode().replace(b"\xc2\xa0", b"\xff"))
    return path


def test_neighbours_prints_a_table_or_json(vec: Path) -> None:
    done = run("neighbours", vec, "男人", "-n", 2)
    assert done.returncode == 0
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["word", "similarity"], ["国王", "0.7071"], ["\ufffdx", "0.6402"],
    ]  # fmt: skip
    found = json.loads(run("neighbours", vec, "男人", "-n", 1, "--json").stdout)
    assert found == [{"word": "男人", "neighbours": [{"word": "国王", "similarity": 0.707107}]}]


def test_similarity_is_the_cosine_of_two_words_or_of_two_texts(vec: Path) -> None:
    assert run("similarity", vec, "男人", "国王").stdout == "0.7071\n"
    found = json.loads(run("similarity", vec, "男人 女人", "国王", "--texts", "--json").stdout)
    assert found == {"a": "男人 女人", "b": "国王", "similarity": 1.0}  # (1, 0) + (0, 1) lies where (1, 1) does
    unknown = run("similarity", vec, "男人", "男子")
    assert unknown.returncode == 1
    assert "男子" in unknown.stderr


def test_a_bad_file_does_not_silence_evaluate_and_few_pairs_are_warned_of(vec: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("男人\t国王\t7\n男人\t女人\t1\n女人\t王后\t9\n", encoding="utf-8")
    done = run("evaluate", vec, tmp_path / "none.txt", pairs)
    assert done.returncode == 1
    assert "pairs.tsv (similarity)" in done.stdout
    assert "pairs.tsv: 3 pairs are too few" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("none.txt is not a file")
    reports = json.loads(run("evaluate", vec, tmp_path / "none.txt", pairs, "--json").stdout)
    assert "is not a file" in reports[0]["error"]
    assert reports[1]["rows"][0]["used"] == 3


def test_training_ends_with_how_good_how_long_and_what_next_and_info_keeps_to_what_is_special(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("小明 打 电话 。\n小明 看 书 。\n" * 30, encoding="utf-8")
    done = run("train", "glove", text, "-o", tmp_path / "m", "--dim", 4, "--epochs", 2, "--min-count", 1)
    made, then = done.stderr.splitlines()[-2:]
    assert made.startswith(f"glove model in {tmp_path / 'm'} (loss ")
    assert made.endswith(" s)")
    assert then == f"next: polyseme neighbours {tmp_path / 'm'} WORD"
    told = json.loads(run("info", tmp_path / "m", "--json").stdout)
    assert told["last_report"]["epoch"] == 2
    assert "window" in told["options"]
    shown = next(line for line in run("info", tmp_path / "m").stdout.splitlines() if line.startswith("options"))
    assert shown.split(maxsplit=1)[1] == "dim 4, epochs 2, min_count 1"


def test_words_come_from_a_pipe_and_unknown_ones_do_not_stop_it(vec: Path) -> None:
    done = run("neighbours", vec, "-n", 1, "--json", stdin="男人\n男子\n\n女人\n")
    assert done.returncode == 1
    records = json.loads(done.stdout)
    assert [record["word"] for record in records] == ["男人", "男子", "女人"]
    assert records[2]["neighbours"][0]["word"] == "王后"
    assert "男人" in records[1]["error"]


def test_the_prompt_answers_until_the_end(vec: Path) -> None:
    if os.name == "nt":
        pytest.skip("a terminal is opened the POSIX way here")
    master, slave = os.openpty()
    os.write(master, "男人\n男子\n国王 女人 - 男人\n\x04".encode())
    command = [sys.executable, "-m", "polyseme", "neighbours", vec, "-n", "1"]
    done = subprocess.run(command, stdin=slave, capture_output=True, text=True, encoding="utf-8", timeout=60)
    os.close(master)
    os.close(slave)
    assert done.returncode == 0
    assert "国王" in done.stdout
    assert "王后" in done.stdout
    assert "'男子' has no vector" in done.stderr


def test_analogy_by_both_methods(vec: Path) -> None:
    for method in ("add", "mul"):
        found = json.loads(run("analogy", vec, "男人", "国王", "女人", "--method", method, "-n", 1, "--json").stdout)
        assert found["answers"][0]["word"] == "王后"


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("neighbours", "VEC", "男子"), 1, "close words: 男人"),
        (("analogy", "VEC", "男人", "国王"), 2, "Missing argument"),
        (("analogy", "VEC", "男人", "国王", "女仁"), 1, "女人"),
        (("neighbours", "nowhere.vec", "男人"), 1, "does not exist"),
        (("convert", "VEC", "out.csv"), 1, "--to"),
        (("convert", "VEC", "out", "--to", "word2vce"), 2, "word2vec-text"),
        (("evaluate", "VEC", "nofile.txt"), 1, "nofile.txt is not a file"),
        (("evaluate", "VEC", "VEC"), 1, "not an evaluation file"),
    ],
)
def test_mistakes_are_one_helpful_line(
    arguments: tuple[str, ...], code: int, part: str, vec: Path, tmp_path: Path
) -> None:
    done = run(*(str(vec) if a == "VEC" else a for a in arguments), cwd=tmp_path)
    assert done.returncode == code
    assert part in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_convert_goes_round_by_the_names_of_the_files(vec: Path, tmp_path: Path) -> None:
    chain = [vec, "folder", "a.bin", "b.txt.gz", "c.vec.xz", "d.bin.bz2"]
    for source, target in pairwise(chain):
        done = run("convert", source, target, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    first, last = polyseme.load(vec), polyseme.load(tmp_path / chain[-1])
    assert first.index_to_key == last.index_to_key
    np.testing.assert_array_equal(first.vectors, last.vectors)
    assert (tmp_path / "a.bin").read_bytes().startswith(b"5 2\n")
    run("convert", "folder", "tables", "--to", "projector", cwd=tmp_path)
    assert len((tmp_path / "tables" / "vectors.tsv").read_text().splitlines()) == 5


def test_evaluate_prints_sections_and_json(vec: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(": royal\n男人 国王 女人 王后\n: none\na b c d\n", encoding="utf-8")
    (tmp_path / "s.txt").write_text("男人\t国王\t7\n男人\t女人\t1\n国王\t王后\t9\n", encoding="utf-8")
    done = run("evaluate", vec, "q.txt", "s.txt", cwd=tmp_path)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["royal", "1.0000", "1", "1", "1"] in lines
    assert ["none", "–", "0", "0", "1"] in lines
    assert ["total", "1.0000", "1", "1", "2"] in lines
    reports = json.loads(run("evaluate", vec, "q.txt", "s.txt", "--json", cwd=tmp_path).stdout)
    assert [report["kind"] for report in reports] == ["analogy", "similarity"]
    assert reports[1]["rows"][0]["used"] == 3


def test_evaluate_reads_stdin(vec: Path) -> None:
    pairs = "男人\t国王\t7\n男人\t女人\t1\n国王\t王后\t9\n"
    (report,) = json.loads(run("evaluate", vec, "-", "--json", stdin=pairs).stdout)
    assert (report["file"], report["kind"], report["rows"][0]["used"]) == ("stdin", "similarity", 3)
    failed = run("evaluate", vec, "-", stdin="")
    assert failed.returncode == 1
    assert failed.stderr.startswith("polyseme: stdin ")  # and not the place of its copy
    assert "give - once" in run("evaluate", vec, "-", "-", stdin=pairs).stderr


def test_word_questions_need_no_torch_and_no_compiler(vec: Path) -> None:
    code = (
        "import sys, polyseme; wv = polyseme.load(sys.argv[1]); wv.most_similar('男人');"
        "print([m for m in ('torch', 'numba', 'scipy', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, vec], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
