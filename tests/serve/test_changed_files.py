"""Models that are changed on disk while they are served: the server lives, answers nothing false, and says so."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
from tests.serve.conftest import word_table

from polyseme.serve.app import create_app
from polyseme.serve.library import Library


def test_a_model_whose_file_is_cut_short_is_taken_out_and_the_others_go_on(tmp_path: Path, serving) -> None:
    for name in ("one", "other"):
        word_table(seed=len(name)).save(tmp_path / name)
    library = Library.open([tmp_path / "one", tmp_path / "other"])
    vectors = library.items["one"].thing.vectors.copy()
    with serving(create_app(library)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        ask = {"word": "北京", "topn": 3}
        assert client.get("/api/neighbours", params={"model": "one", **ask}).status_code == 200
        os.truncate(tmp_path / "one" / "weights.safetensors", 200)
        told = client.get("/api/neighbours", params={"model": "one", **ask})
        assert (told.status_code, told.json()["error"]["type"]) == (410, "taken_out")
        assert told.json()["error"]["message"] == (
            "'one' was changed on disk and is not served any more: start the server again"
        )
        assert client.get("/api/neighbours", params={"model": "other", **ask}).status_code == 200
        items = {item["name"]: item for item in client.get("/api/library").json()["items"]}
        assert (items["one"].get("changed"), items["other"].get("changed")) == (True, None)
    assert (library.items["one"].thing.vectors == vectors).all()


def test_a_model_that_is_replaced_as_a_whole_is_served_on(tmp_path: Path, serving) -> None:
    word_table().save(tmp_path / "words")
    library = Library.open([tmp_path / "words"])
    with serving(create_app(library)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        ask = {"model": "words", "word": "北京", "topn": 3}
        before = client.get("/api/neighbours", params=ask).json()
        assert len(before["neighbours"]) == 3
        word_table(seed=1).save(tmp_path / "words", force=True)
        assert client.get("/api/neighbours", params=ask).json() == before
