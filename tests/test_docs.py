"""The documents say what the catalog says."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from polyseme.catalog import METHODS
from polyseme.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.zh-CN.md")


def test_the_tables_of_methods_and_of_their_options_are_those_of_the_code():
    done = subprocess.run([sys.executable, ROOT / "scripts/readme.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", READMES)
def test_every_command_a_readme_shows_exists(name):
    shown = re.findall(r"^(?:\$ )?polyseme ([a-z]+)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert shown
    assert set(shown) <= set(COMMANDS)


def test_both_readmes_have_the_same_code_and_the_same_sections():
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in READMES)
    assert len(re.findall(r"^## ", english, re.MULTILINE)) == len(re.findall(r"^## ", chinese, re.MULTILINE))

    def blocks(text: str) -> list[str]:
        return [re.sub(r"#.*", "", block) for block in re.findall(r"```(?:python|sh)\n(.*?)```", text, re.DOTALL)]

    assert [b.split() for b in blocks(english)] == [b.split() for b in blocks(chinese)]


@pytest.mark.parametrize("name", READMES)
def test_every_file_a_readme_links_to_is_there(name):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / name).read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("row", METHODS, ids=[row.name for row in METHODS])
def test_every_method_has_a_page(row):
    assert (ROOT / "docs" / "methods" / f"{row.name}.md").read_text(encoding="utf-8").startswith("# ")


def test_the_site_has_the_same_pages_in_both_languages(tmp_path):
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        docs = importlib.import_module("docs")
    finally:
        sys.path.pop(0)
    for language in ("en", "zh"):
        docs.pages(language, tmp_path / language)
    english, chinese = (
        {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*.md")} for name in ("en", "zh")
    )
    assert english == chinese
    assert {f"commands/{name}.md" for name in COMMANDS if name != "index"} <= english
    assert {f"methods/{row.name}.md" for row in METHODS} <= english
    for page in tmp_path.rglob("*.md"):
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists() or target.startswith("../"), f"{page}: {target}"
