from __future__ import annotations

import json
import threading
from dataclasses import replace

import numpy as np
import pytest

import polyseme
from polyseme.disk.folders import checksum
from polyseme.errors import FormatError, TrainingError
from polyseme.store.folder import MODEL, Contents, Parts, read_curve, read_parts, write_folder
from polyseme.store.model import Model
from polyseme.store.safetensors_file import write as write_tensors
from polyseme.training.checkpoint import Checkpoint, Snapshot

WORDS = ["词", "a b", "back\\slash", "new\nline", "\\n", "\u2028", ""]


def write(path):
    parts = Parts({"vectors": np.ones((7, 4), np.float32)}, {"vocab": WORDS})
    manifest = {"method": "word2vec", "kind": "words", "options": {"dim": 4}, "segmentation": None, "corpus": {}}
    write_folder(path, Contents(manifest, parts, {}, [{"epoch": 1, "loss": 0.5}], "# card\n"))
    return path


def test_a_model_folder_reads_back_as_it_was_written(tmp_path):
    path = write(tmp_path / "m")
    with MODEL.open(path) as folder:
        parts = read_parts(folder)
        assert read_curve(folder) == [{"epoch": 1, "loss": 0.5}]
        assert (folder.found["format"], folder.found["method"]) == (1, "word2vec")
    assert parts.tables["vocab"] == WORDS
    np.testing.assert_array_equal(parts.tensors["vectors"], np.ones((7, 4)))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (lambda parts: parts.tensor("counts"), "its array 'counts' is missing"),
        (lambda parts: parts.tensor("vectors", (7,)), r"its array 'vectors' .* \(7, 4\) instead of \(7,\)"),
        (lambda parts: parts.tensor("vectors", (None, 5)), r"its array 'vectors' .* instead of \(None, 5\)"),
        (lambda parts: parts.tensor("vectors", (7, 4), np.integer), "its array 'vectors' holds float32"),
        (lambda parts: parts.table("labels"), r"its table labels\.txt is missing"),
        (lambda parts: parts.file("steps.json"), r"it has no steps\.json"),
        (lambda parts: parts.model("encoder", Model), "it has no Model in encoder/"),
        (lambda parts: parts.model("words", Model), "it has no Model in words/"),
    ],
)
def test_what_a_model_lacks_is_told_in_one_line(asked, reason):
    parts = Parts({"vectors": np.ones((7, 4), np.float32)}, {"vocab": WORDS}, {"a.json": b"{}"}, {"words": "no model"})
    assert parts.tensor("vectors", (None, 4), np.floating).shape == (7, 4)
    assert (parts.table("vocab"), parts.file("a.json"), parts.model("words", str)) == (WORDS, b"{}", "no model")
    with pytest.raises(FormatError, match=f"^the model folder was altered: {reason}") as error:
        asked(parts)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["weights.safetensors", "vocab.txt", "training.jsonl"])
@pytest.mark.parametrize("how", ["cut", "altered", "missing"])
def test_a_damaged_folder_is_refused_by_the_name_of_the_file(tmp_path, name, how):
    path = write(tmp_path / "m")
    data = bytearray((path / name).read_bytes())
    if how == "missing":
        (path / name).unlink()
    else:
        data[-1] ^= 1
        (path / name).write_bytes(data[:-1] if how == "cut" else data)
    with pytest.raises(FormatError, match=f"incomplete: {name} is missing" if how == "missing" else name) as error:
        polyseme.load(path)
    assert "\n" not in str(error.value)


def test_a_large_file_is_checked_at_its_ends_when_opened_and_whole_when_verified(tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.store.folder.MODEL", replace(MODEL, whole=64))
    monkeypatch.setattr("polyseme.disk.description.ENDS", 16)
    path = write(tmp_path / "m")
    weights = path / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    with MODEL.open(path) as folder:
        folder.verify()
        with pytest.raises(FormatError, match="checksum"):
            folder.verify(everything=True)
    data[-1] ^= 1
    weights.write_bytes(data)
    with MODEL.open(path) as folder, pytest.raises(FormatError, match="checksum"):
        folder.verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "upgrade polyseme"),
        ({"format": 0}, "make it again with polyseme train"),
        ({"format": "1"}, "not the manifest of a polyseme folder"),
        ({"options": None}, "options"),
        ({"files": []}, "files"),
        ({"tables": ["../../etc/passwd"]}, "not among its files"),
        ({"tables": ["词" * 5000]}, "not among its files"),
        ({"tables": [["vocab"]]}, "not lists of names"),
        ({"parts": "vocab.txt"}, "not lists of names"),
        ({"models": ["../m"]}, "not plain names"),
        ({"models": {"m/m": ""}}, "not plain names"),
        ({"models": ["m"]}, "m/m does not exist"),
        ({"files": {"../m/model.json": {"size": 1}}}, "not the name of a file"),
        ({"files": {"词" * 5000: {"size": 1}}}, "not the name of a file"),
        ({"files": {"\0": {"size": 1}}}, "not the name of a file"),
        ({"files": {"\ud800": {"size": 1}}}, "not the name of a file"),
        ({"files": {"vocab.txt": {}}}, "there is no size"),
    ],
)
def test_a_newer_or_altered_description_is_refused(tmp_path, change, message):
    path = write(tmp_path / "m")
    manifest = json.loads((path / "model.json").read_text())
    manifest |= change
    (path / "model.json").write_text(json.dumps({**manifest, "checksum": checksum(manifest)}))
    with pytest.raises(FormatError, match=message) as error:
        polyseme.load(path)
    assert "\n" not in str(error.value)


def test_no_byte_of_a_description_changes_unseen(tmp_path):
    path = write(tmp_path / "m")
    data = (path / "model.json").read_bytes()
    for place in range(len(data) - 1):  # behind the last brace is a newline
        (path / "model.json").write_bytes(data[:place] + bytes([data[place] ^ 2]) + data[place + 1 :])
        with pytest.raises(FormatError, match=r"model\.json|of format 3") as error, MODEL.open(path):
            pass
        assert "\n" not in str(error.value)


def test_a_description_that_was_written_before_they_had_a_checksum_is_read(tmp_path):
    path = write(tmp_path / "m")
    manifest = json.loads((path / "model.json").read_text())
    del manifest["checksum"]
    (path / "model.json").write_text(json.dumps(manifest))
    with MODEL.open(path) as folder:
        assert folder.found == manifest


def test_a_description_may_hold_what_json_changes(tmp_path):
    files = {name: {"size": 0} for name in ("weights.safetensors", "training.jsonl")}
    for name in files:
        (tmp_path / name).touch()
    MODEL.write(tmp_path, {"method": "\ud83d\ude00", "options": {10: (1, 2.5), 9: float("inf")}, "tables": []}, files)
    with MODEL.open(tmp_path) as folder:
        assert folder.found["options"] == {"10": [1, 2.5], "9": float("inf")}


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, "\x00", "null"])
def test_a_description_that_is_not_one_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(FormatError, match=r"model\.json"), MODEL.open(tmp_path):
        pass


def test_a_checkpoint_keeps_arrays_and_state_and_belongs_to_one_training(tmp_path):
    checkpoint = Checkpoint(tmp_path / "m.checkpoint", {"options": {"dim": 4}, "corpus": "abc"})
    assert checkpoint.load() is None
    checkpoint.save(Snapshot({"v": np.arange(3)}, {"epoch": 2}))
    snapshot = checkpoint.load()
    assert snapshot.state == {"epoch": 2}
    np.testing.assert_array_equal(snapshot.tensors["v"], [0, 1, 2])
    with pytest.raises(TrainingError, match="dim was 4 and is 5"):
        Checkpoint(checkpoint.path, {"options": {"dim": 5}, "corpus": "abc"}).load()


def test_a_checkpoint_that_was_damaged_or_edited_is_refused_in_one_line(tmp_path):
    checkpoint = Checkpoint(tmp_path / "m.checkpoint", {"corpus": "abc"})
    checkpoint.save(Snapshot({"v": np.arange(300.0)}, {"epoch": 2}))
    whole = checkpoint.path.read_bytes()
    edited = whole.replace(b'epoch\\": 2', b'epoch\\": 9')
    assert edited != whole
    unsealed = tmp_path / "old"
    write_tensors(unsealed, {"v": np.arange(3)}, {"checkpoint": '{"identity": {}, "state": {}}'})
    for data in (whole[:40], whole[:-1], whole[:-9] + b"\1" + whole[-8:], edited, b"", unsealed.read_bytes()):
        checkpoint.path.write_bytes(data)
        for call in (checkpoint.load, lambda: checkpoint.check(resume=True), lambda: checkpoint.check(resume=False)):
            with pytest.raises(FormatError, match=r"m\.checkpoint.*move it away") as error:
                call()
            assert "\n" not in str(error.value)
    checkpoint.path.write_bytes(whole)
    assert checkpoint.check(resume=True)


@pytest.mark.usefixtures("every_core")
def test_arrays_of_a_checkpoint_may_change_while_it_is_written(tmp_path):
    """Processes that share the weights do not wait for the one that saves them."""
    values, stop = np.zeros(1 << 18), threading.Event()

    def change() -> None:
        while not stop.is_set():
            values[:] += 1

    worker = threading.Thread(target=change)
    worker.start()
    try:
        checkpoint = Checkpoint(tmp_path / "m.checkpoint", {})
        for _ in range(5):
            checkpoint.save(Snapshot({"v": values}, {}))
            checkpoint.load()
    finally:
        stop.set()
        worker.join()


def test_a_snapshot_fills_arrays_of_its_own_shapes_only():
    snapshot = Snapshot({"v": np.arange(3)}, {})
    target = np.zeros(3)
    snapshot.fill(v=target)
    np.testing.assert_array_equal(target, [0, 1, 2])
    for arrays in ({"v": np.zeros(4)}, {"w": np.zeros(3)}):
        with pytest.raises(FormatError, match="does not match this training"):
            snapshot.fill(**arrays)
