from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from polyseme.atomic import check_replaceable, new_file, new_folder
from polyseme.errors import FormatError


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "x"
    target.write_text("old")
    with pytest.raises(RuntimeError), new_file(target) as part:
        part.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    with new_file(target) as part:
        part.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["x"]


def test_a_folder_is_replaced_whole(tmp_path):
    for content in ("one", "two"):
        with new_folder(tmp_path / "m", marker="model.json") as part:
            (part / "model.json").write_text(content)
    assert (tmp_path / "m" / "model.json").read_text() == "two"
    assert os.listdir(tmp_path) == ["m"]


def test_a_folder_of_somebody_else_is_never_replaced(tmp_path):
    (tmp_path / "diary.txt").write_text("dear diary")
    with pytest.raises(FormatError, match="other things"), new_folder(tmp_path, marker="model.json"):
        pass
    assert (tmp_path / "diary.txt").read_text() == "dear diary"


def test_a_killed_writer_leaves_nothing_that_looks_finished(tmp_path):
    code = (
        "import sys, os, signal\n"
        "from polyseme.atomic import new_folder\n"
        "with new_folder(sys.argv[1], marker='model.json') as part:\n"
        "    (part / 'model.json').write_text('{}')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")])
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "m").exists()


def test_a_result_can_be_read_by_whom_the_umask_allows(tmp_path):
    with new_file(tmp_path / "x") as part:
        part.write_text("")
    (tmp_path / "y").write_text("")
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode


def test_a_folder_or_a_device_is_never_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for target, why in ((tmp_path, "is a folder"), (tmp_path / "pipe", "no plain file")):
        with pytest.raises(FormatError, match=why), new_file(target):
            pass
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_place_that_cannot_hold_the_result_is_told_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="is a file"):
        check_replaceable(tmp_path / "file" / "a" / "b", marker="model.json")


def test_the_current_folder_is_never_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match="the folder you are in"), new_folder(".", marker="model.json"):
        pass
    assert os.listdir(tmp_path) == []


def test_the_old_folder_stays_where_the_new_one_cannot_come(tmp_path, monkeypatch):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.json").write_text("old")
    rename = os.rename

    def refuses_the_new(source, target):
        if str(source).endswith(".part"):
            raise OSError("no")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuses_the_new)
    with pytest.raises(OSError, match="no"), new_folder(tmp_path / "m", marker="model.json") as part:
        (part / "model.json").write_text("new")
    assert (tmp_path / "m" / "model.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["m"]
