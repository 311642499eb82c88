from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from polyseme.disk import atomic
from polyseme.disk.atomic import Scratch, new_file, new_folder, rewrite, writing
from polyseme.disk.ownership import check_replaceable
from polyseme.errors import DiskFull, FormatError


def anything(path: Path, new: Path | None) -> None:
    """Allow any existing output to be replaced."""


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
        with new_folder(tmp_path / "m", anything) as part:
            (part / "model.json").write_text(content)
    assert (tmp_path / "m" / "model.json").read_text() == "two"
    assert os.listdir(tmp_path) == ["m"]


WRITERS = {
    "file": "with new_file(sys.argv[1]) as p:\n    p.write_text('half'); p.with_name('.tmp').write_text('')",
    "folder": "with new_folder(sys.argv[1], lambda *_: None) as p:\n    (p / 'model.json').write_text('half')",
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
        with new_folder(path, anything) as part:
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
def test_while_one_writes_another_is_refused_in_one_line(tmp_path, kind):
    with writer(kind, tmp_path / "m", "print('written', flush=True); sys.stdin.read()") as process:
        assert process.stdout
        assert process.stdout.readline() == b"written\n"
        with pytest.raises(FormatError, match=r"m is being written by another command: [^\n]*"):
            write(kind, tmp_path / "m")
        process.communicate(b"")  # lets it finish
    assert process.returncode == 0
    assert os.listdir(tmp_path) == ["m"]
    finished = tmp_path / "m" if kind == "file" else tmp_path / "m" / "model.json"
    assert finished.read_text() == "half"


def test_what_belongs_to_others_is_not_cleared_away(tmp_path):
    others = [".m.old.part", ".m.checkpoint.part", ".mm.part"]
    for name in others:
        (tmp_path / name).mkdir()
    write("folder", tmp_path / "m")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "m"])
    for there in ("folder", "file"):
        if there == "folder":
            (tmp_path / ".n.part").mkdir()
            (tmp_path / ".n.part" / "diary.txt").write_text("dear diary")
        else:
            (tmp_path / ".n.part" / "diary.txt").unlink()
            (tmp_path / ".n.part").rmdir()
            (tmp_path / ".n.part").write_text("dear diary")
        with pytest.raises(FormatError, match="in the way"):
            write("folder", tmp_path / "n")
    assert (tmp_path / ".n.part").read_text() == "dear diary"


def test_a_folder_takes_the_place_of_another_in_one_step(tmp_path):
    """Between any two calls of the system the name leads to a whole folder: the old one or the new one."""
    write("folder", tmp_path / "m")
    seen = "print(open(os.path.join(sys.argv[1], 'model.json')).read(), flush=True)"
    act = f"sys.addaudithook(lambda event, _: event.startswith(('os.', 'shutil.')) and {seen})"
    with writer("folder", tmp_path / "m", act) as process:
        out = process.communicate()[0].split()
        assert process.returncode == 0
    assert out
    assert out == sorted(out, reverse=True)
    assert set(out) == {b"whole", b"half"}


def test_a_kill_between_two_renames_where_there_is_no_exchange_costs_no_model(tmp_path):
    write("folder", tmp_path / "m")
    act = (
        "rename = os.rename; os.rename = lambda a, b: (rename(a, b), os.kill(os.getpid(), signal.SIGKILL)); "
        "import polyseme.disk.atomic as a; a.exchange = lambda *_: False"
    )
    with writer("folder", tmp_path / "m", act) as process:
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "m").exists()
    with pytest.raises(RuntimeError), new_folder(tmp_path / "m", anything):
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
    for target, why in ((tmp_path, "is a folder"), (tmp_path / "pipe", "not a regular file")):
        with pytest.raises(FormatError, match=why), new_file(target):
            pass
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_place_that_cannot_hold_the_result_is_told_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="is a file"):
        check_replaceable(tmp_path / "file" / "a" / "b", "model")
    with pytest.raises(FormatError, match="too long for a file name"):
        check_replaceable(tmp_path / ("名" * 5000), "model")


def test_the_current_folder_is_never_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match="the current folder"):
        check_replaceable(".", "model")
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
    monkeypatch.setattr(atomic, "exchange", lambda *_: False)
    with pytest.raises(OSError, match="no"), new_folder(tmp_path / "m", anything) as part:
        (part / "model.json").write_text("new")
    assert (tmp_path / "m" / "model.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        OSError("24569 requested and 12784 written"),
        OSError("Can't write data (file write failed: errno = 28, error message = 'No space left on device')"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
    ids=["system", "quota", "NumPy", "HDF5", "Rust"],
)
def test_a_full_disk_is_told_in_one_line_whoever_finds_it(tmp_path, error):
    write("folder", tmp_path / "m")
    expected = re.escape(f"no space left on {tmp_path}, nothing was replaced")
    with pytest.raises(DiskFull, match=expected), new_folder(tmp_path / "m", anything):
        raise error
    with pytest.raises(OSError, match=expected), new_file(tmp_path / "m2"):
        raise error
    assert (tmp_path / "m" / "model.json").read_text() == "whole"
    assert os.listdir(tmp_path) == ["m"]


def test_a_full_disk_of_temporary_files_is_told_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Scratch() as folder:
        expected = re.escape(f"no space left on {tmp_path}, nothing")
        with pytest.raises(DiskFull, match=expected), new_folder(folder / "corpus", anything):
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no disk that is always full")
@pytest.mark.parametrize("form", ["jsonl", "npy"])
def test_a_full_standard_output_is_one_line(tmp_path, form):
    (tmp_path / "w.vec").write_text("2 2\na 1 2\nb 3 4\n")
    command = [sys.executable, "-m", "polyseme", "encode", "w.vec", "-", "-o", "-", "--format", form]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=tmp_path, input=b"a b\n" * 3000, stdout=full, stderr=-1, check=False)
    assert (done.returncode, done.stderr) == (1, b"polyseme: no space left on standard output\n")


def test_of_several_writers_of_one_folder_each_goes_alone(tmp_path):
    path = tmp_path / "model"

    def write(number: int) -> int:
        done = 0
        for _ in range(40):
            try:
                with new_folder(path, anything) as folder:
                    (folder / "one").write_text(str(number))
                    (folder / "two").write_text(str(number))
                    assert len(os.listdir(tmp_path / ".model.part" / "new")) == 2
                done += 1
            except FormatError as error:  # noqa: PERF203
                assert "is being written by another command" in str(error)
        return done

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(write, range(4)))
    assert (path / "one").read_text() == (path / "two").read_text()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_a_writer_may_ask_again_for_what_it_holds(tmp_path):
    with writing(tmp_path / "m"):
        write("folder", tmp_path / "m")
        with writing(tmp_path / "m"), pytest.raises(RuntimeError), new_folder(tmp_path / "m", anything):
            raise RuntimeError
        with ThreadPoolExecutor(1) as other, pytest.raises(FormatError, match="being written"):
            other.submit(write, "folder", tmp_path / "m").result()
    assert os.listdir(tmp_path) == ["m"]


def test_a_lock_does_not_outlive_its_holder_in_forked_children(tmp_path):
    act = "import time\n    if not os.fork(): time.sleep(5)\n    os.kill(os.getpid(), signal.SIGKILL)"
    with writer("folder", tmp_path / "m", act) as process:
        assert process.wait() == -signal.SIGKILL
        write("folder", tmp_path / "m")
    assert os.listdir(tmp_path) == ["m"]


def test_a_small_file_is_rewritten_beside_what_a_kill_left_but_through_no_link(tmp_path):
    (tmp_path / "state").write_text("old")
    (tmp_path / ".state").write_text("left by a kill")
    rewrite(tmp_path / "state", b"new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"state": "new"}
    (tmp_path / ".state").symlink_to("elsewhere")
    with pytest.raises(FormatError, match=r"\.state is not a regular file"):
        rewrite(tmp_path / "state", b"newer")
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "state").read_text() == "new"


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
    with pytest.raises(FormatError, match="is a link to itself"):
        check_replaceable(tmp_path / "a", "model")
    with pytest.raises(FormatError, match="is a link to itself"), new_file(tmp_path / "a"):
        pass


def test_a_file_behind_a_link_is_written_under_the_name_that_was_asked_for(tmp_path):
    (tmp_path / "vectors.npy").symlink_to("blob")
    with new_file(tmp_path / "vectors.npy") as part:
        assert part.name == "vectors.npy"  # by which its writer chooses the format
