"""Folders that are truncated, altered, moved or inconsistent are rejected in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyseme.disk.folders import checksum
from polyseme.errors import FormatError
from polyseme.search import Index, build_index
from polyseme.search.occurrences.index_folder import CELLS, INDEX, INDEX_MANIFEST, TABLES, TOKENS, codes_name
from polyseme.store import safetensors_file
from polyseme.text.corpus import Corpus

from .conftest import Neighbours, two_sense_sentences


@pytest.fixture
def made(tmp_path: Path) -> Path:
    corpus = Corpus.from_sentences(two_sense_sentences(60), tmp_path / "corpus", segment="space")
    build_index(Neighbours(), corpus, tmp_path / "index", dim=8, cells_from=100)
    return tmp_path / "index"


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    file = folder / INDEX_MANIFEST
    manifest = json.loads(file.read_text())
    change(manifest)
    manifest["checksum"] = checksum(manifest)
    file.write_text(json.dumps(manifest))


def reseal(folder: Path) -> None:
    """Make the checksums valid for the altered files, as an attacker would."""
    edit(folder, lambda m: m["files"].update({name: INDEX.seal(folder / name) for name in m["files"]}))


def refused(folder: Path, **where: Any) -> str:
    with pytest.raises(FormatError) as caught:
        index = Index.open(folder, model=Neighbours(), **where)
        index.same_sense("去 打 篮球", word="打")
        index.same_sense("去 打 篮球", word="打", any_word=True)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", [TABLES, TOKENS, codes_name(1), CELLS])
def test_files_that_are_cut_missing_or_altered(made: Path, name: str) -> None:
    file = made / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    assert "cut" in refused(made)
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "altered" in refused(made)
    file.unlink()
    assert "missing" in refused(made)


@pytest.mark.parametrize("name", [TOKENS, codes_name(1), CELLS])
def test_cut_files_with_checksums_that_fit(made: Path, name: str) -> None:
    file = made / name
    file.write_bytes(file.read_bytes()[:-7])
    reseal(made)
    assert "truncated" in refused(made)
    file.write_bytes(
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (99999999999,), 'fortran_order': False}".ljust(128)
    )
    reseal(made)
    refused(made)
    file.write_bytes(b"")
    reseal(made)
    refused(made)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i8', 'fortran_order': False, 'shape': (420,), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (",
        '"' * 3,
        "\\",
        "(" * 60,
        "__import__('os').abort()",
        "{'descr': 'O', 'fortran_order': False, 'shape': (420,), }",
        "{'descr': '<i8', 'fortran_order': True, 'shape': (420,), }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (" + "9" * 60 + ",), }",
    ],
)
def test_headers_of_arrays_are_never_taken_for_python(made: Path, header: str) -> None:
    whole = np.load(made / TOKENS)
    assert whole.shape == (420,)
    for version in (1, 2, 3):
        start = b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2 if version == 1 else 4, "little")
        (made / TOKENS).write_bytes(start + header.encode() + whole.tobytes())
        reseal(made)
        assert TOKENS in refused(made)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.update(format=99), "upgrade polyseme"),
        (lambda m: m.pop("facts"), "'facts' is missing"),
        (lambda m: m.update(files=[]), "'files' is missing"),
        (lambda m: m["facts"].update(n_occurrences=10**15), "altered"),
        (lambda m: m["facts"].update(n_occurrences="many"), "facts are incomplete"),
        (lambda m: m["facts"].update(layers=[7]), "altered"),
        (lambda m: m["facts"].update(layers=[]), "facts are incomplete"),
        (lambda m: m["facts"].update(probes=0), "cells do not fit"),
        (lambda m: m["facts"].update(precision="float16"), "altered"),
        (lambda m: m["corpus"].update(fingerprint="0"), "is not the corpus"),
        (lambda m: m["corpus"].update(path=3), "--corpus"),
    ],
)
def test_descriptions_that_lie(made: Path, change: Callable[[dict[str, Any]], Any], says: str) -> None:
    edit(made, change)
    assert says in refused(made)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"format": 1}', "[" * 5000, "\udcff"])
def test_descriptions_that_are_none(made: Path, text: str) -> None:
    (made / INDEX_MANIFEST).write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(made)


def test_tables_that_lead_outside(made: Path) -> None:
    arrays = dict(safetensors_file.read(made / TABLES))
    for name, bad in (
        ("words", np.arange(3)),
        ("words", np.sort(arrays["words"])[::-1].copy()),
        ("cells.offsets", arrays["cells.offsets"] * 2),
        ("layer1.directions", arrays["layer1.directions"][:, :3].copy()),
    ):
        safetensors_file.write(made / TABLES, {**{k: np.array(v) for k, v in arrays.items()}, name: bad})
        reseal(made)
        assert "altered" in refused(made)


@pytest.mark.parametrize(("name", "value"), [(TOKENS, 10**12), (TOKENS, -1), (TOKENS, 0), (CELLS, 10**9), (CELLS, -5)])
def test_places_that_lead_outside(made: Path, name: str, value: int) -> None:
    array = np.load(made / name)
    array[:] = value
    np.save(made / name, array)
    reseal(made)
    refused(made)


def test_a_moved_corpus_is_found_beside_the_index_or_named(made: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name in ("corpus", "index"):
        shutil.move(tmp_path / name, tmp_path / "elsewhere" / name)
    moved = tmp_path / "elsewhere" / "index"
    assert Index.open(moved).count("打") == 60
    shutil.move(tmp_path / "elsewhere" / "corpus", tmp_path / "corpus2")
    assert "--corpus" in refused(moved)
    assert Index.open(moved, corpus=tmp_path / "corpus2").count("打") == 60
    other = Corpus.from_sentences([["别", "的"]], tmp_path / "other", segment="space")
    assert "is not the corpus" in refused(moved, corpus=other)


def test_an_index_keeps_no_path_of_the_machine_where_its_sources_lie_beside_it(made: Path, tmp_path: Path) -> None:
    manifest = json.loads((made / INDEX_MANIFEST).read_text())
    assert {**manifest["corpus"], "fingerprint": ""} == {"relative": "../corpus", "fingerprint": ""}
    assert str(tmp_path) not in (made / INDEX_MANIFEST).read_text()
    build_index(Neighbours(), tmp_path / "corpus", tmp_path / "deep" / "index", dim=8)
    assert json.loads((tmp_path / "deep" / "index" / INDEX_MANIFEST).read_text())["corpus"]["path"] == str(
        tmp_path / "corpus"
    )


def test_an_index_without_a_known_model_says_how_to_name_it(made: Path) -> None:
    with pytest.raises(FormatError, match="--model"):
        Index.open(made).same_sense("去 打 篮球", word="打")


def test_another_encoder_is_refused(made: Path) -> None:
    class Narrow(Neighbours):
        def encode_tokens(self, sentences: Any, *, layers: str | int = "all") -> Any:
            for sentence in super().encode_tokens(sentences):
                yield type(sentence)(sentence.tokens, sentence.layers[:, :, 1:])

    class Flat(Neighbours):
        def encode_tokens(self, sentences: Any, *, layers: str | int = "all") -> Any:
            for sentence in super().encode_tokens(sentences):
                yield type(sentence)(sentence.tokens, sentence.layers[:1])

    for encoder in (Narrow(), Flat()):
        with pytest.raises(FormatError, match="a different model"):
            Index.open(made, model=encoder).same_sense("去 打 篮球", word="打")


def test_other_folders_are_no_index_and_are_not_written_over(made: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not an index"):
        Index.open(tmp_path / "corpus")
    with pytest.raises(FormatError, match="choose another output path"):
        build_index(Neighbours(), tmp_path / "corpus", tmp_path / "corpus", dim=8)
    again = build_index(Neighbours(), tmp_path / "corpus", made, dim=6, force=True)  # an index is replaced by an index
    assert again.facts["dim"] == 6


def test_an_index_behind_a_link_is_made_where_the_link_leads_and_moves_with_its_corpus(tmp_path: Path) -> None:
    disk, link = tmp_path / "disk", tmp_path / "link"
    corpus = Corpus.from_sentences(two_sense_sentences(60), disk / "corpus", segment="space")
    link.symlink_to(disk / "deep" / "index")
    build_index(Neighbours(), corpus, link, dim=8)
    assert [entry.name for entry in (disk / "deep").iterdir()] == ["index"]
    disk.rename(tmp_path / "moved")
    link.unlink()
    link.symlink_to(tmp_path / "moved" / "deep" / "index")
    assert Index.open(link, model=Neighbours()).count("打") == 60
