from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polyseme.disk.atomic import Scratch, check_replaceable, new_file, new_folder
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


WRITERS = {
    "file": "with new_file(sys.argv[1]) as p:\n    p.write_text('half'); p.with_name('.tmp').write_text('')",
    "folder": "with new_folder(sys.argv[1], marker='model.json') as p:\n    (p / 'model.json').write_text('half')",
}


def writer(kind, path, last_act):
    """A process that is writing ``path`` and then does ``last_act``."""
    imports = "import os, signal, sys\nfrom polyseme.disk.atomic import new_file, new_folder"
    code = f"{imports}\n{WRITERS[kind]}\n    {last_act}\n"
    return subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def write(kind, path):
    if kind == "file":
        with new_file(path) as part:
            part.write_text("whole")
    else:
        with new_folder(path, marker="model.json") as part:
            (part / "model.json").write_text("whole")


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_killed_writer_left_is_cleared_away_by_the_next(tmp_path, kind):
    for _ in range(2):
        with writer(kind, tmp_path / "m", "os.kill(os.getpid(), signal.SIGKILL)") as process:
            assert process.wait() == -signal.SIGKILL
        assert not (tmp_path / "m").exists()  # nothing that looks finished
        assert len(os.listdir(tmp_path)) == 1
    write(kind, tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_living_writer_is_at_is_never_touched(tmp_path, kind):
    with writer(kind, tmp_path / "m", "print('written', flush=True); sys.stdin.read()") as process:
        assert process.stdout
        assert process.stdout.readline() == b"written\n"
        write(kind, tmp_path / "m")
        assert len(os.listdir(tmp_path)) == 2
        process.communicate(b"")  # lets it finish
    assert process.returncode == 0
    assert os.listdir(tmp_path) == ["m"]
    finished = tmp_path / "m" if kind == "file" else tmp_path / "m" / "model.json"
    assert finished.read_text() == "half"


def test_what_belongs_to_others_is_not_cleared_away(tmp_path):
    others = [".m.abcd1234.part", ".m.checkpoint.abcd1234.part", ".mm.abcd1234.part", ".m.old.part"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / others[0] / "diary.txt").write_text("dear diary")
    (tmp_path / ".m.efgh5678.part").write_text("a file")
    write("folder", tmp_path / "m")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, ".m.efgh5678.part", "m"])


def test_a_kill_between_the_two_renames_costs_no_model(tmp_path):
    write("folder", tmp_path / "m")
    act = "rename = os.rename; os.rename = lambda a, b: (rename(a, b), os.kill(os.getpid(), signal.SIGKILL))"
    with writer("folder", tmp_path / "m", act) as process:
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "m").exists()
    with pytest.raises(RuntimeError), new_folder(tmp_path / "m", marker="model.json"):
        raise RuntimeError
    assert (tmp_path / "m" / "model.json").read_text() == "whole"
    assert os.listdir(tmp_path) == ["m"]


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
        if os.path.basename(source) == "new":
            raise OSError("no")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuses_the_new)
    with pytest.raises(OSError, match="no"), new_folder(tmp_path / "m", marker="model.json") as part:
        (part / "model.json").write_text("new")
    assert (tmp_path / "m" / "model.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["m"]


def test_a_full_disk_says_which_result_was_being_written(tmp_path):
    with pytest.raises(OSError, match="full") as raised, new_folder(tmp_path / "m", marker="model.json"):
        raise OSError(28, "the disk is full")
    assert raised.value.filename == str(tmp_path / "m")
    with pytest.raises(OSError, match="full") as raised, new_file(tmp_path / "f"):
        raise OSError(28, "the disk is full")
    assert raised.value.filename == str(tmp_path / "f")


def test_the_last_of_several_writers_of_one_folder_stays(tmp_path):
    path = tmp_path / "model"

    def write(number: int) -> None:
        for _ in range(40):
            with new_folder(path, marker="model.json") as folder:
                (folder / "model.json").write_text("{}")
                (folder / "number").write_text(str(number))

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(write, number) for number in range(4)]:
            future.result()
    assert (path / "number").read_text() in "0123"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_scratch_is_gone_with_its_object_and_after_a_crash_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = Scratch()
    (scratch.path / "file").write_text("some")
    crash = "import os, polyseme.disk.atomic as a; s = a.Scratch(); print(s.path, flush=True); os.kill(os.getpid(), 9)"
    out = subprocess.run([sys.executable, "-c", crash], env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=-1).stdout
    left = Path(os.fsdecode(out).strip())
    assert left.is_dir()
    assert left.is_relative_to(tmp_path)
    with Scratch() as other:
        assert not left.exists()
        assert other.is_dir()
        assert (scratch.path / "file").exists()
    del scratch
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", [True, False], ids=["to a result", "to nothing yet"])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_link_stays_one_and_the_result_is_where_it_leads(tmp_path, kind, there):
    (tmp_path / "disk").mkdir()
    real, link = tmp_path / "disk" / "m", tmp_path / "link"
    if there:
        write(kind, real)
    link.symlink_to(Path("disk", "m"))
    with writer(kind, link, "pass") as process:
        assert process.wait() == 0
    assert link.is_symlink()
    assert (real if kind == "file" else real / "model.json").read_text() == "half"
    assert sorted(os.listdir(tmp_path)) == ["disk", "link"]
    assert os.listdir(tmp_path / "disk") == ["m"]


def test_a_link_in_a_circle_is_told_before_the_work(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(FormatError, match="leads back to itself"):
        check_replaceable(tmp_path / "a", marker="model.json")
    with pytest.raises(FormatError, match="leads back to itself"), new_file(tmp_path / "a"):
        pass


def test_a_file_behind_a_link_is_written_under_the_name_that_was_asked_for(tmp_path):
    (tmp_path / "vectors.npy").symlink_to("blob")
    with new_file(tmp_path / "vectors.npy") as part:
        assert part.name == "vectors.npy"  # by which its writer chooses the format
