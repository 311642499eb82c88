"""Nothing is replaced but what we made, whole and unchanged, and other work of ours only where it is asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import polyseme
from polyseme.cli.main import polyseme as commands
from polyseme.disk.description import checksum
from polyseme.disk.ownership import standing
from polyseme.errors import FormatError
from polyseme.search import build_index
from polyseme.text.corpus import Corpus
from polyseme.words.files.models import save_vectors_as

from .conftest import SENTENCES, Counting, make_corpus, make_index, make_model, vectors


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def refused(make: Callable[..., None], path: Path, why: str, *, force: bool = False) -> None:
    before = contents(path.parent)
    with pytest.raises(FormatError, match=why) as error:
        make(path, 2, force=force)
    assert "\n" not in str(error.value)
    assert {name: data for name, data in contents(path.parent).items() if not name.startswith("of the index")} == {
        name: data for name, data in before.items() if not name.startswith("of the index")
    }


@pytest.mark.parametrize("marker", ["model.json", "corpus.json", "index.json"])
@pytest.mark.parametrize("text", ["{}", "", "[]", '{"format": 1, "polyseme": "0.1", "files": {}, "x": 1}'])
def test_a_folder_is_not_ours_for_a_file_of_a_known_name(tmp_path: Path, make, marker: str, text: str) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / marker).write_text(text)
    (tmp_path / "t" / "thesis.txt").write_text("years of work")
    for force in (False, True):
        refused(make, tmp_path / "t", "choose another output path", force=force)


def test_notes_that_a_person_put_into_a_folder_of_ours_stop_its_replacement(tmp_path: Path, make) -> None:
    make(tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("the best so far")
    for force in (False, True):
        refused(make, tmp_path / "m", r"contains your own changes \(notes.txt", force=force)
    (tmp_path / "m" / "notes.txt").unlink()
    (tmp_path / "m" / "more").mkdir()
    refused(make, tmp_path / "m", r"contains your own changes \(more", force=True)
    os.rmdir(tmp_path / "m" / "more")
    make(tmp_path / "m", 2, force=True)


def test_a_card_that_a_person_edited_stays(tmp_path: Path) -> None:
    make_model(tmp_path / "m")
    with open(tmp_path / "m" / "README.md", "a") as card:
        card.write("\nUse it for the third chapter.\n")
    refused(make_model, tmp_path / "m", r"README.md was edited", force=True)
    (tmp_path / "m" / "README.md").unlink()
    make_model(tmp_path / "m", 2, force=True)


def test_what_is_not_whole_any_more_is_not_replaced(tmp_path: Path, make) -> None:
    make(tmp_path / "m")
    marker = next(name for name in os.listdir(tmp_path / "m") if name in ("model.json", "corpus.json", "index.json"))
    file = next(name for name in sorted(os.listdir(tmp_path / "m")) if name not in (marker, "README.md"))
    data = (tmp_path / "m" / file).read_bytes()
    (tmp_path / "m" / file).write_bytes(data + b"x")
    refused(make, tmp_path / "m", f"was altered .{re.escape(file)}", force=True)
    (tmp_path / "m" / file).unlink()
    refused(make, tmp_path / "m", f"incomplete .{re.escape(file)} is missing", force=True)
    (tmp_path / "m" / file).write_bytes(data)
    description = json.loads((tmp_path / "m" / marker).read_text())
    (tmp_path / "m" / marker).write_text(json.dumps({**description, "note": "mine"}))
    refused(make, tmp_path / "m", "was altered", force=True)


def test_the_same_again_is_replaced_unasked_and_other_work_of_ours_with_force(tmp_path: Path) -> None:
    for make, said in ((make_model, "a model of vectors"), (make_corpus, "a corpus of the sentences")):
        path = tmp_path / make.__name__
        make(path, 1)
        before = contents(path)
        make(path, 1)
        assert contents(path) == before
        refused(make, path, f"{path} holds {said}: replace it with force=True")
        make(path, 2, force=True)
        assert contents(path) != before
    make_index(tmp_path / "index")
    refused(make_index, tmp_path / "index", r"holds an index of \d+ occurrences, made of of the index: .*force=True")
    refused(make_index, tmp_path / "make_model", "holds a model of vectors")
    refused(make_model, tmp_path / "index", "holds an index of")
    refused(make_corpus, tmp_path / "index", "holds an index of")
    make_model(tmp_path / "index", force=True)
    assert standing(tmp_path / "index").kind == "model"


def test_what_was_written_before_descriptions_had_checksums_and_recipes_is_ours(tmp_path: Path) -> None:
    make_model(tmp_path / "m")
    description = json.loads((tmp_path / "m" / "model.json").read_text())
    for name in ("checksum", "card"):
        del description[name]
    (tmp_path / "m" / "model.json").write_text(json.dumps(description))
    refused(make_model, tmp_path / "m", "holds a model of vectors")
    make_model(tmp_path / "m", 2, force=True)
    assert polyseme.load(tmp_path / "m").index_to_key == vectors(2.0).index_to_key


def test_a_training_of_the_same_is_repeated_unasked_and_another_one_with_force(tmp_path: Path) -> None:
    corpus = Corpus.from_sentences(SENTENCES, segment="space")
    small = {"dim": 2, "min_count": 1, "out": tmp_path / "m"}
    polyseme.train("svd", corpus, **small)
    before = contents(tmp_path / "m")
    polyseme.train("svd", corpus, **small, threads=1)  # which changes the speed only
    other = Corpus.from_sentences([*SENTENCES, ["又", "一", "句"]], segment="space")
    for method, text, more in (("svd", corpus, {"seed": 7}), ("svd", other, {}), ("glove", corpus, {})):
        with pytest.raises(FormatError, match=r"m holds a model of svd trained on \d+ tokens: .*force=True"):
            polyseme.train(method, text, **small, **more)
    assert contents(tmp_path / "m").keys() == before.keys()
    polyseme.train("svd", other, **small, force=True)
    assert "又" in polyseme.load(tmp_path / "m")


@pytest.mark.parametrize("there", ["file", "folder", "model"])
def test_a_stranger_in_the_place_of_a_checkpoint_stays(tmp_path: Path, there: str) -> None:
    place = tmp_path / "m.checkpoint"
    if there == "file":
        place.write_text("a list of checkpoints to pass")
    elif there == "folder":
        place.mkdir()
        (place / ".hidden").write_text("mine")
    else:
        make_model(place)
        (place / "notes").write_text("mine")
    before = contents(tmp_path)
    corpus = Corpus.from_sentences(SENTENCES, tmp_path / "c", segment="space")
    for resume in (False, True):
        with pytest.raises(FormatError, match=r"m\.checkpoint"):
            polyseme.train("svd", corpus, out=tmp_path / "m", dim=2, min_count=1, resume=resume)
        with pytest.raises(FormatError, match=r"m\.checkpoint is in the way"):
            build_index(Counting(), corpus, tmp_path / "m", dim=2, resume=resume)
    assert {name: data for name, data in contents(tmp_path).items() if not name.startswith("c/")} == before
    assert place.exists()


def run(*arguments: object) -> str:
    """Run a command that must be refused, and return its message."""
    done = CliRunner().invoke(commands, [*map(str, arguments)])
    assert isinstance(done.exception, FormatError), done.output
    return str(done.exception)


def test_every_writing_command_refuses_and_takes_force(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in SENTENCES), encoding="utf-8")
    make_model(tmp_path / "m")
    make_corpus(tmp_path / "c")
    before = contents(tmp_path)
    assert "holds a model of vectors" in run("corpus", text, "-o", tmp_path / "m")
    assert "holds a corpus of the sentences" in run("corpus", text, "-o", tmp_path / "c")
    assert "holds a model of vectors" in run("train", "svd", text, "-o", tmp_path / "m")
    assert "holds a model of vectors" in run("index", tmp_path / "m", tmp_path / "c", "-o", tmp_path / "m")
    assert "holds a corpus of" in run("convert", tmp_path / "m", tmp_path / "c", "--to", "polyseme")
    for form in ("word2vec-text", "word2vec-binary", "glove", "fasttext"):
        assert "is a file of" in run("convert", tmp_path / "m", text, "--to", form)
    for form in ("npy", "jsonl", "hdf5", "parquet"):
        assert "is a file of" in run("encode", tmp_path / "m", text, "-o", text, "--format", form)
    assert contents(tmp_path) == before
    for command in (
        ["corpus", text, "-o", tmp_path / "m"],
        ["train", "svd", text, "-o", tmp_path / "m", "--dim", 2, "--min-count", 1],
        ["convert", tmp_path / "m", tmp_path / "c"],
        ["convert", tmp_path / "m", tmp_path / "x.vec"],
        ["encode", tmp_path / "m", text, "-o", tmp_path / "x.npy"],
    ):
        for _ in range(2):
            done = CliRunner().invoke(commands, [*map(str, command), "--force"], catch_exceptions=False)
            assert done.exit_code == 0, done.output


def test_files_that_belong_together_are_not_written_over_unasked(tmp_path: Path) -> None:
    save_vectors_as(vectors(), tmp_path / "t", "projector")
    with pytest.raises(FormatError, match=r"vectors\.tsv is a file"):
        save_vectors_as(vectors(2.0), tmp_path / "t", "projector")
    save_vectors_as(vectors(2.0), tmp_path / "t", "projector", force=True)
    assert (tmp_path / "t" / "metadata.tsv").read_text(encoding="utf-8").startswith("词2.0")


def test_a_second_writer_is_refused_and_the_first_ends_well(tmp_path: Path) -> None:
    """Two ``polyseme index`` of one output once destroyed each other."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from conftest import SENTENCES, Counting\nfrom polyseme.search import build_index\n"
        "def progress(what, done, total, /, **facts):\n"
        "    if what.startswith('encode') and not told: told.append(print('at work', flush=True)); sys.stdin.read()\n"
        "told = []\nbuild_index(Counting(), sys.argv[2], sys.argv[3], dim=2, progress=progress)\n"
    )
    corpus = Corpus.from_sentences(SENTENCES, tmp_path / "c", segment="space")
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(corpus.path), str(tmp_path / "i")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout
        assert first.stdout.readline() == b"at work\n"
        for resume in (False, True):
            with pytest.raises(FormatError, match="being written by another command"):
                build_index(Counting(), corpus, tmp_path / "i", dim=2, resume=resume)
        with pytest.raises(FormatError, match="being written by another command"):
            make_model(tmp_path / "i", force=True)
        first.communicate(b"")
    assert first.returncode == 0
    alone = build_index(Counting(), corpus, tmp_path / "j", dim=2)
    described = {"index.json"}
    assert {n: d for n, d in contents(tmp_path / "i").items() if n not in described} == {
        n: d for n, d in contents(alone.path).items() if n not in described
    }


def test_verify_misses_files_that_the_description_does_not_speak_of(tmp_path: Path, make) -> None:
    make(tmp_path / "m")
    folder = tmp_path / "m"
    marker = next(file for file in folder.iterdir() if file.name in ("model.json", "corpus.json", "index.json"))
    whole = json.loads(marker.read_text())
    for name in whole["files"]:
        description = {**whole, "files": {n: seal for n, seal in whole["files"].items() if n != name}}
        marker.write_text(json.dumps({**description, "checksum": checksum(description)}))
        message = run("info", folder, "--verify")
        assert f"{name!r} is not among its files" in message
    marker.write_text(json.dumps(whole))
    for name in whole["files"]:
        data = (folder / name).read_bytes()
        (folder / name).unlink()
        assert f"{name} is missing" in run("info", folder, "--verify")
        (folder / name).write_bytes(data)
    assert CliRunner().invoke(commands, ["info", str(folder), "--verify"]).exit_code == 0
