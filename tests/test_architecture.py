"""docs/architecture.md names files, functions and tests that exist, and the files that a command goes through."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "polyseme"
PAGES = ("docs/architecture.md", "docs/zh/architecture.md")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def names_defined_in(file: Path) -> set[str]:
    """The functions, classes and methods of a file."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page):
    files = set(re.findall(r"(?<![\w/.])(?:\w+/)*\w+\.py\b(?!::)", read(page)))
    assert len(files) > 40
    assert [name for name in sorted(files) if not (SOURCE / name).exists() and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_function_in_a_drawing_is_in_the_file_beside_it(page):
    steps = re.findall(r"^  │ +(\S+\.py) +(\w+)", read(page), re.MULTILINE)
    assert len(steps) > 30
    assert [step for step in steps if step[1] not in names_defined_in(SOURCE / step[0])] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", read(page))
    assert len(named) > 10
    assert [name for file, name in named if name not in names_defined_in(ROOT / file)] == []


def test_both_languages_draw_the_same():
    drawn = [re.findall(r"^  │ +(\S+\.py) +(\w+)|^\| \d+ \| (\S+)", read(page), re.MULTILINE) for page in PAGES]
    assert drawn[0] == drawn[1]


def test_the_list_of_uses_is_what_the_command_goes_through():
    command = [sys.executable, ROOT / "scripts" / "architecture.py", "--check", "uses"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
