"""A short form of the campaign in benchmarks/faults.py: kills, hostile files, full disks, readers beside writers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "faults.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its faults are those of Linux")


@pytest.fixture(scope="module")
def campaign(every_core: None) -> dict[str, tuple[int, int, str]]:
    """How often each kind of fault was tried and how often something broke, and what the campaign printed."""
    done = subprocess.run([sys.executable, FAULTS, "--short"], capture_output=True, text=True, check=False)
    rows = re.findall(r"^(\S.*?) {2,}([\d,]+) +([\d,]+)  ", done.stdout, flags=re.MULTILINE)
    assert rows, done.stdout + done.stderr
    return {
        name: (int(tried.replace(",", "")), int(broken.replace(",", "")), done.stdout) for name, tried, broken in rows
    }


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("killed before a call", 30),
        ("killed at a random moment", 5),
        ("altered", 100),
        ("full disks", 10),
        ("reads beside a writer", 40),
        ("two writers of one output", 5),
    ],
)
def test_nothing_is_lost_or_mixed_and_no_fault_ends_in_a_traceback_or_a_hang(
    campaign: dict[str, tuple[int, int, str]], kind: str, least: int
) -> None:
    found = [row for name, row in campaign.items() if name.startswith(kind)]
    assert sum(tried for tried, _, _ in found) >= least
    assert not any(broken for _, broken, _ in found), found[0][2]
