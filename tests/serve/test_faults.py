"""A short form of the campaign in benchmarks/faults_server.py, against ``polyseme serve`` in a process of its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("faults_server")


@pytest.mark.usefixtures("every_core")
def test_the_server_stands_what_clients_do_to_it(faults: ModuleType, tmp_path: Path) -> None:
    attacks = (faults.forged_headers, faults.bad_questions, faults.mutated_requests, faults.idle_connections)
    found = {one.attack: one for one in faults.campaign(tmp_path, 0.05, {(): (*attacks, faults.slow_requests)})}
    slow = "an honest client waited too long"  # which says more of the machine than of the server
    assert {name: [fault for fault in one.faults if fault != slow] for name, one in found.items()} == {
        name: [] for name in found
    }
    assert sum(one.tried for one in found.values()) > 300
