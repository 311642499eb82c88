"""Fault injection: kills, hostile files, full disks, two writers, readers during writes, abuse of the server.

    python benchmarks/faults.py [--short | --scale 1.0] [--only kills,files,disks,readers,server] [--seed 1]
                                [--results faults.jsonl] [--document docs/files.md]

Prints what was tried and what broke. With --results, figures of separate runs are collected in a file, from which
--document writes the table of a document. Bars: 1,000 kills, 10,000 mutations, 1,000 reads during writes, 100 full
disks: nothing lost, no mixed versions, no traceback, no hang, the same bits after every resume. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import faults_disks
import faults_files
import faults_kills
import faults_readers
import faults_server
from faults_common import Tally
from faults_jobs import World

MARKS = ("<!-- faults -->", "<!-- /faults -->")
# Rows of the table: title of a fault, with {} for the number of kinds -> prefix of the names of its tallies.
FAULTS = {
    "killed before a call that changes the disk": "killed before a call",
    "killed at a random moment": "killed at a random moment",
    "files altered, {} formats": "altered",
    "disk full on the way": "full disks",
    "read beside a writer, {} kinds": "reads beside a writer",
    "two writers of one output": "two writers",
    "abuse of the server, {} kinds of attack": "server: ",
}
PARTS = ("kills", "files", "disks", "readers", "server")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a few of each kind, as the tests run it")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the full campaign")
    parser.add_argument("--only", help="some of the parts; all of them, but not the server's where it is to be short")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="a file to which the figures are added")
    parser.add_argument("--document", type=Path, help="a document whose table to write, of all figures in --results")
    given = parser.parse_args()
    chosen = given.only.split(",") if given.only else PARTS[: -1 if given.short else None]
    home = Path(tempfile.mkdtemp(prefix="polyseme-faults-", dir=_quick_place()))
    try:
        tallies = run(home, chosen, short=given.short, scale=given.scale, seed=given.seed)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"\n{'':34} {'tried':>8} {'broken':>7}")
    print("\n".join(tally.line() for tally in tallies))
    if given.results:
        with given.results.open("a", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"name": tally.name, "tried": tally.tried, "broken": tally.broken}, ensure_ascii=False)
                + "\n"
                for tally in tallies
            )
        if given.document:
            write_table(given.document, given.results)
    sys.exit(any(tally.broken for tally in tallies))


def write_table(document: Path, results: Path) -> None:
    """Write the totals of all figures between the marks of a document."""
    records = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    lines = ["| fault | tried | broken |", "|---|--:|--:|"]
    for title, start in FAULTS.items():
        found = [record for record in records if record["name"].startswith(start)]
        if found:
            kinds = len({record["name"] for record in found})
            tried, broken = sum(one["tried"] for one in found), sum(len(one["broken"]) for one in found)
            lines.append(f"| {title.format(kinds)} | {tried:,} | {broken:,} |")
    before, rest = document.read_text(encoding="utf-8").split(MARKS[0])
    table = "\n".join([MARKS[0], *lines, MARKS[1]])
    document.write_text(before + table + rest.split(MARKS[1])[1], encoding="utf-8")


def _quick_place() -> str | None:
    """A file system in memory, if there is one, since a thousand kills would take long on a real disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run(home: Path, chosen: Sequence[str], *, short: bool, scale: float, seed: int) -> list[Tally]:
    """Run the chosen parts."""

    def so_many(full: int, few: int) -> int:
        return few if short else max(1, round(full * scale))

    world = World(home, short)
    began = time.monotonic()
    world.make()
    print(f"made what the commands read ({time.monotonic() - began:.0f} s)", flush=True)
    parts: dict[str, Callable[[], list[Tally]]] = {
        "kills": lambda: faults_kills.campaign(
            world, most_points=so_many(100, 3), random_kills=so_many(450, 5), seed=seed
        ),
        "files": lambda: faults_files.campaign(world, mutations=so_many(10_000, 150), seed=seed),
        "disks": lambda: faults_disks.campaign(world, steps=so_many(10, 1)),
        "readers": lambda: faults_readers.campaign(world, reads=so_many(1200, 40), rounds=so_many(12, 1)),
        "server": lambda: _server(home / "server", 0.02 if short else scale),
    }
    tallies = []
    for name in chosen:
        began, used = time.monotonic(), _cpu_seconds()
        found = parts[name]()
        tallies += found
        seconds, cpu = time.monotonic() - began, _cpu_seconds() - used
        print(f"{name}: {sum(t.tried for t in found):,} tried ({seconds:.0f} s, {cpu:.0f} of the CPU)", flush=True)
    return tallies


def _cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _server(folder: Path, scale: float) -> list[Tally]:
    """Abuse of the server (faults_server.py)."""
    folder.mkdir()
    return [
        Tally(f"server: {found.attack}", found.tried, found.faults, dict(found.statuses))
        for found in faults_server.campaign(folder, scale)
    ]


if __name__ == "__main__":
    main()
