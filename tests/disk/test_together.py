"""Files that belong together are the old ones or the new ones, whenever their writer dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.processes import run_program

from polyseme.disk.atomic import new_files, of_one_version

KILLED_BEFORE_EACH_CALL = """
import errno, json, os, signal, sys
from pathlib import Path
from polyseme.disk.atomic import new_files, writing

folder, links, before, after = Path(sys.argv[1]), *json.loads(sys.argv[2])
paths = [folder / "x", folder / "x.more"]

def pair():
    return [path.read_text() if path.exists() else "" for path in paths]

def counted(call, left):
    def counting(*arguments, **more):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **more)
    return counting

def no_links(*_):
    raise OSError(errno.EPERM, "no links here")

def write(left):
    for name in ("rename", "replace", "link", "symlink", "unlink", "mkdir"):
        setattr(os, name, counted(getattr(os, name), left))
    if not links:
        os.link = os.symlink = no_links
    with new_files(*paths, force=True) as parts:
        for part, content in zip(parts, after):
            if content:
                part.write_text(content)

status, moment = signal.SIGKILL, 0
while status:
    for path, content in zip(paths, before):
        path.write_text(content) if content else path.unlink(missing_ok=True)
    if not (child := os.fork()):
        write([moment])
        os._exit(0)
    status, moment = os.waitpid(child, 0)[1], moment + 1
    found = pair()
    with writing(paths[0]):
        print(json.dumps([status, found, pair(), any(path.is_symlink() for path in folder.iterdir())]))
"""


def pair(folder: Path, *others: str) -> tuple[str, str]:
    """The contents of the two files, after checking that there are no others."""
    assert all(name in ("x", "x.more", *others) for name in os.listdir(folder) if not name.startswith("."))
    x, more = (path.read_text() if path.exists() else "" for path in (folder / "x", folder / "x.more"))
    return x, more


def states(folder: Path, before: Sequence[str], after: Sequence[str], *, links: bool) -> list[tuple[Any, Any]]:
    """The two files after their writer was killed before each of its calls, and after the next writer has started."""
    given = json.dumps([links, before, after])
    done = run_program(KILLED_BEFORE_EACH_CALL, folder, given, imports=["polyseme.disk.atomic"])
    assert done.returncode == 0, done.stderr.decode()
    *killed, last = map(json.loads, done.stdout.splitlines())
    assert len(killed) > 5
    assert all(status == signal.SIGKILL for status, *_ in killed)
    assert last == [0, list(after), list(after), False]
    assert not any(is_link for *_, is_link in killed)
    assert set(os.listdir(folder)) <= {"x", "x.more"}
    return [(tuple(found), tuple(then)) for _, found, then, _ in killed]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("old", "old"), ("new", "new")),
        (("old", ""), ("new", "new")),
        (("", ""), ("new", "")),
        (("old", "old"), ("new", "")),
    ],
)
def test_files_that_belong_together_are_the_old_ones_or_the_new_ones_whenever_a_writer_dies(tmp_path, before, after):
    found = states(tmp_path, before, after, links=True)
    assert set(found) == {(before, before), (after, after)}


@pytest.mark.parametrize("after", [("new", "new"), ("new", "")], ids=["by two", "by one"])
def test_where_there_are_no_links_a_pair_is_not_mixed_and_the_next_writer_puts_it_back(tmp_path, after):
    before = ("old", "old")
    for found, then in states(tmp_path, before, after, links=False):
        assert found in (before, after) or not found[0]
        assert then == (after if found == after else before)


def test_in_the_place_of_a_link_a_pair_of_files_comes_and_what_it_led_to_stays(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").write_text("mine")
    (tmp_path / "x").symlink_to("elsewhere/mine")
    with new_files(tmp_path / "x", tmp_path / "x.more", force=True) as parts:
        for part in parts:
            part.write_text("new")
    assert pair(tmp_path, "elsewhere") == ("new", "new")
    assert (tmp_path / "elsewhere" / "mine").read_text() == "mine"


def test_two_files_are_read_in_one_version_while_they_are_replaced(tmp_path):
    paths = tmp_path / "x", tmp_path / "x.more"
    versions = iter("abcdef")

    def replace() -> None:
        version = next(versions)
        with new_files(*paths, force=True) as parts:
            for part in parts:
                part.write_text(version)

    def read() -> tuple[str, str]:
        first = paths[0].read_text()
        if first in "ab":
            replace()
        return first, paths[1].read_text()

    replace()
    assert of_one_version(paths, read) == ("c", "c")


def test_files_that_belong_together_appear_with_their_folder(tmp_path):
    with pytest.raises(RuntimeError), new_files(tmp_path / "f" / "a", tmp_path / "f" / "b") as parts:
        parts[0].write_text("a")
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with new_files(tmp_path / "f" / "a", tmp_path / "f" / "b") as parts:
        for part in parts:
            part.write_text(part.name)
        assert os.listdir(tmp_path) == [".f.part"]
    assert sorted(os.listdir(tmp_path / "f")) == ["a", "b"]
