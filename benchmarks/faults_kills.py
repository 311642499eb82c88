"""SIGKILL every writing command before each call that changes the disk, and at random moments.

After each kill the output must be the complete old result or the complete new one; run again, the same command must
give the same bits and leave nothing next to its output. Commands that can resume are also killed while they resume.
"""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

from faults_common import Tally, command, in_child, small_steps, spread
from faults_jobs import Job, World


def campaign(world: World, *, most_points: int, random_kills: int, seed: int) -> list[Tally]:
    """Kill each command at ``most_points`` of its calls (index and word2vec: at all), and at random moments."""
    rng = random.Random(seed)
    points, moments = Tally("killed before a call"), Tally("killed at a random moment")
    jobs = world.jobs(world.home / "out")
    with small_steps():
        for job in jobs:
            full = job.name in ("index", "train word2vec") and most_points >= 100
            _points(job, points, most_points if not full else 10**6)
            _random(job, moments, -(-random_kills // len(jobs)), rng)
    return [points, moments]


def _points(job: Job, tally: Tally, most: int) -> None:
    wanted, calls, _ = _unbroken(job)
    middle = job.place.with_name("half done")
    shutil.rmtree(middle, ignore_errors=True)
    for scenario in ("fresh", "over"):
        old = _prepared(job, scenario)
        for point in spread(calls if scenario == "fresh" else _calls(job), most):
            _prepared(job, scenario)
            keep = middle if scenario == "fresh" and point < 0.6 * calls else None
            _kill(job, tally, scenario, old, wanted, f"before call {point}", kill_before=point, keep=keep)
    if middle.exists():
        half = in_child(command(*_restored(job, middle)))
        tally.check(half.code == 0, f"{job.name} resumed: {half.said}")
        for point in spread(half.calls, most):
            _restored(job, middle)
            _kill(job, tally, "resumed", "", wanted, f"before call {point}", kill_before=point)


def _random(job: Job, tally: Tally, n: int, rng: random.Random) -> None:
    wanted, _, seconds = _unbroken(job)
    for _ in range(n):
        scenario = rng.choice(("fresh", "over"))
        old = _prepared(job, scenario)
        delay = rng.random() * seconds
        _kill(job, tally, scenario, old, wanted, f"after {delay:.3f} s", kill_after=delay)


def _unbroken(job: Job) -> tuple[str, int, float]:
    """The hash of the command's output, its number of calls and its seconds, without a kill."""
    job.clear()
    ended = in_child(command(*job.command()))
    if ended.code or not job.content():
        raise RuntimeError(f"{job.name} does not work: {ended.said}")
    return job.content(), ended.calls, ended.seconds


def _prepared(job: Job, scenario: str) -> str:
    """Prepare the output folder; return the hash of the old output."""
    job.clear()
    if scenario == "over":
        job.older(job.out)
    return job.content()


def _calls(job: Job) -> int:
    _prepared(job, "over")
    return in_child(command(*job.command("--force"))).calls


def _restored(job: Job, middle: Path) -> tuple[object, ...]:
    shutil.rmtree(job.place, ignore_errors=True)
    shutil.copytree(middle, job.place)
    return job.command("--resume")


def _kill(
    job: Job,
    tally: Tally,
    scenario: str,
    old: str,
    wanted: str,
    when: str,
    *,
    kill_before: int | None = None,
    kill_after: float | None = None,
    keep: Path | None = None,
) -> None:
    more = {"fresh": (), "over": ("--force",), "resumed": ("--resume",)}[scenario]
    where = f"{job.name}, {scenario}, killed {when}"
    ended = in_child(command(*job.command(*more)), kill_before=kill_before, kill_after=kill_after)
    tally.tried += 1
    tally.check(ended.code in (0, -signal.SIGKILL) and not ended.failure, f"{where}: {ended.failure or ended.said}")
    found = job.content()
    tally.check(found in (old, wanted), f"{where}: the output is neither the old result nor the new one")
    checkpoint = job.out.with_name(f"{job.out.name}.checkpoint")
    if keep and job.resumes and checkpoint.exists():  # the last one is where resumed runs start from
        shutil.rmtree(keep, ignore_errors=True)
        shutil.copytree(job.place, keep)
    again = [*(["--resume"] if job.resumes else []), *(["--force"] if old or not job.resumes else [])]
    ended = in_child(command(*job.command(*again)))
    tally.count("ended in the same bits" if job.content() == wanted else "ended otherwise")
    tally.check(ended.code == 0 and job.content() == wanted, f"{where}, started again: {ended.said or 'other bits'}")
    tally.check(not job.others(), f"{where}, started again: left {job.others()}")
