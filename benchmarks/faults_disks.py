"""Disks that run full at every tenth of each writing command, with a new output and over an old result.

The command must say in one line that there is no space, keep the old result and leave nothing next to it; with enough
space, it then succeeds as usual. The disk is a small tmpfs; if none can be mounted, the file size is limited instead.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from faults_common import Tally, command, in_child
from faults_jobs import Job, World

ROOM = 64 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")


def campaign(world: World, *, steps: int) -> list[Tally]:
    """Fill the disk at ``steps`` points of each command."""
    tally = Tally("full disks")
    disk = world.home / "disk"
    disk.mkdir(exist_ok=True)
    with _mounted(disk) as mounted:
        if not mounted:
            print("no tmpfs can be mounted here: the size of files is limited instead")
        for job in world.jobs(disk / "out"):
            for scenario in ("fresh", "over"):
                _job(job, scenario, disk if mounted else None, steps, tally)
    return [tally]


def _job(job: Job, scenario: str, disk: Path | None, steps: int, tally: Tally) -> None:
    more = ("--force",) if scenario == "over" else ()
    _prepare(job, scenario, disk)
    before = _used(job, disk)
    ended = in_child(command(*job.command(*more)))
    wanted = job.content()
    if ended.code:
        raise RuntimeError(f"{job.name} does not work: {ended.said}")
    need = _used(job, disk)
    for step in range(1, steps + 1):
        old = _prepare(job, scenario, disk)
        share = (step - 0.5) / steps
        # An old result is kept until the new one is complete, so there must be room for both.
        size = before + int(share * max(need, PAGE))
        where = f"{job.name}, {scenario}, {share:.0%} of the room"
        if disk is None:
            most = max(1, int(share * need))
            ended = in_child(command(*job.command(*more)), limit=partial(_no_larger, most))
        else:
            _resize(disk, size)
            ended = in_child(command(*job.command(*more)))
            _resize(disk, ROOM)
        tally.tried += 1
        if ended.code == 0:
            tally.count("fitted all the same")
            tally.check(job.content() == wanted, f"{where}: it ended well, with other bits")
            continue
        tally.count("full")
        good = ended.code == 1 and "no space left on" in ended.said and "nothing was replaced" in ended.said
        tally.check(good and not ended.failure, f"{where}: {ended.failure or ended.said!r} (code {ended.code})")
        tally.check(job.content() == old, f"{where}: the old result is gone")
        left = [name for name in job.others() if not name.endswith(".checkpoint")]
        tally.check(not left, f"{where}: left {left}")
        again = in_child(command(*job.command(*(["--resume"] if job.resumes else []), *more)))
        tally.check(again.code == 0 and job.content() == wanted, f"{where}, with room: {again.said}")


def _prepare(job: Job, scenario: str, disk: Path | None) -> str:
    if disk:
        _resize(disk, ROOM)
    job.clear()
    if scenario == "over":
        job.older(job.out)
    return job.content()


def _used(job: Job, disk: Path | None) -> int:
    """Bytes used on the disk; without a separate disk, the size of the largest file."""
    if disk is None:
        return max((file.stat().st_size for file in job.place.rglob("*") if file.is_file()), default=0)
    found = os.statvfs(disk)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _no_larger(most: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@contextmanager
def _mounted(disk: Path) -> Iterator[bool]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "polyseme-faults", str(disk)]
    try:
        done = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        done = False
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(disk)], check=True)


def _resize(disk: Path, size: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={max(size // PAGE, 1) * PAGE}", str(disk)], check=True)
