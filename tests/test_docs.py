"""The documents say what the catalog says."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from polyseme.api import options_of
from polyseme.catalog import COMPOSED, METHODS, PUBLISHED, TASKS
from polyseme.catalog.options_zh import in_chinese
from polyseme.cli.main import COMMANDS, polyseme
from polyseme.search import IndexOptions

ROOT = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.zh-CN.md")


def test_the_tables_of_methods_and_of_their_options_are_those_of_the_code():
    done = subprocess.run([sys.executable, ROOT / "scripts/readme.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_make_bench_runs_every_measurement():
    spec = importlib.util.spec_from_file_location("bench", ROOT / "scripts/bench.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    programs = {
        file.name for file in (ROOT / "benchmarks").glob("*.py") if "__main__" in file.read_text(encoding="utf-8")
    }
    parts_of_others = {"kneser_ney.py", "faults_server.py"}
    assert {arguments[0] for arguments in bench.MEASUREMENTS.values()} == programs - parts_of_others


@pytest.mark.parametrize("name", READMES)
def test_every_command_a_readme_shows_exists(name):
    shown = re.findall(r"^(?:\$ )?polyseme ([a-z]+)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert shown
    assert set(shown) <= set(COMMANDS)


@pytest.mark.parametrize("name", [*READMES, *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("docs/**/*.md")))])
def test_every_flag_that_a_page_gives_to_a_command_exists(name):
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line, words in re.findall(r"^((?:\$ )?polyseme ([^#\n|]+))", text, flags=re.MULTILINE):
        command, context = polyseme, click.Context(polyseme)
        for word in words.split():
            if not isinstance(command, click.Group) or word.startswith("-"):
                break
            command = command.get_command(context, word)
            assert command, line
        flags = {flag for param in command.params for flag in param.opts} | {"--help", "--version"}
        given = re.findall(r"(?<!\S)--[a-z-]+", re.sub(r"\".*?\"|'.*?'", "", words))
        assert set(given) <= flags, line


def test_both_readmes_have_the_same_code_and_the_same_sections():
    english, chinese = ((ROOT / name).read_text(encoding="utf-8") for name in READMES)
    assert len(re.findall(r"^## ", english, re.MULTILINE)) == len(re.findall(r"^## ", chinese, re.MULTILINE))

    def blocks(text: str) -> list[str]:
        return [re.sub(r"#.*", "", block) for block in re.findall(r"```(?:python|sh)\n(.*?)```", text, re.DOTALL)]

    assert [b.split() for b in blocks(english)] == [b.split() for b in blocks(chinese)]


def test_the_method_that_contributing_walks_through_is_the_one_in_the_code():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL)
    code = "".join(
        (ROOT / "src/polyseme/sentences" / name).read_text("utf-8") for name in ("encoders.py", "options.py")
    )
    classes = [block for block in blocks if "class " in block]
    assert len(classes) == 3
    assert [line for block in classes for line in block.splitlines() if line not in code] == []


@pytest.mark.parametrize("name", [*READMES, "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_every_file_a_readme_links_to_is_there(name):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / name).read_text(encoding="utf-8")):
        assert (ROOT / target).exists(), target


PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/notebooks/*.ipynb")]


def named(path: str) -> object:
    """What a dotted path of Python names."""
    module, *names = path.split(".")
    thing = importlib.import_module(module)
    for name in names:
        module = f"{module}.{name}"
        thing = getattr(thing, name) if hasattr(thing, name) else importlib.import_module(module)
    return thing


def test_every_python_name_that_a_page_gives_exists():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    paths = set(re.findall(r"\bpolyseme(?:\.[A-Za-z_]\w*)+", text)) - {"polyseme.fish", "polyseme.json"}
    for module, names in re.findall(r"from (polyseme[\w.]*) import ([\w, ]+)", text):
        paths |= {f"{module}.{name}" for name in names.replace(" ", "").split(",")}
    assert len(paths) > 30
    assert all(named(path) is not None for path in sorted(paths))


def test_the_python_reference_lists_what_there_is():
    for page in ("docs/api.md", "docs/zh/api.md"):
        blocks = re.findall(
            r"^::: (\S+)(?:\n    options:\n      members: \[(.*)\])?", (ROOT / page).read_text("utf-8"), re.M
        )
        assert len(blocks) > 8
        for path, members in blocks:
            thing = named(path)
            assert all(hasattr(thing, name) for name in members.split(", ") if name), (page, path, members)


@pytest.mark.parametrize("row", METHODS, ids=[row.name for row in METHODS])
def test_every_method_has_a_page(row):
    assert (ROOT / "docs" / "methods" / f"{row.name}.md").read_text(encoding="utf-8").startswith("# ")


@pytest.fixture(scope="module")
def docs():
    """The module that builds the site."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield importlib.import_module("docs")
    finally:
        sys.path.pop(0)


def test_the_site_has_the_same_pages_in_both_languages(docs, tmp_path):
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


def test_every_page_of_the_site_is_there_in_chinese(docs, tmp_path):
    docs.pages("zh", tmp_path)
    for page in tmp_path.rglob("*.md"):
        prose = re.sub(r"```.*?```|<math.*?</math>|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.search(r"[\u4e00-\u9fff]{2}", prose.split("\n", 1)[1]), page


def test_every_option_is_explained_in_chinese(docs):
    rows = [*METHODS, *TASKS, *COMPOSED, *PUBLISHED]
    fields = {(row.name, f.name) for row in rows for f in dataclasses.fields(options_of(row.name))}
    fields |= {("index", f.name) for f in dataclasses.fields(IndexOptions)}
    assert [field for field in sorted(fields) if not in_chinese(*field)] == []
    assert set(docs.summaries()) >= {row.name for row in METHODS}


def test_formulas_are_drawn_by_the_browser_and_code_is_left_alone(docs):
    text = docs.with_formulas("$$a_b$$ costs `$x$` and $k$:\n\n```sh\necho $HOME $PATH\n```\n")
    assert text.count("<math") == 2
    assert "<msub><mi>a</mi><mi>b</mi></msub>" in text
    assert "`$x$`" in text
    assert "echo $HOME $PATH" in text
    for page in (ROOT / "docs").rglob("*.md"):
        drawn = docs.with_formulas(page.read_text(encoding="utf-8"))
        assert "$$" not in drawn, page
        formulas = "".join(re.findall(r"<math.*?</math>", drawn, re.DOTALL))
        assert not re.search(r"\\[a-z]{2,}|<mi>&(amp;)?</mi>", formulas), (
            page
        )  # nothing that the converter does not know


def test_the_menu_of_languages_leads_to_the_same_page(docs, tmp_path):
    menu = '<a href="index.html" hreflang="en">English</a><a href="index.html" hreflang="zh">中文</a>'
    pages = ("index.html", "methods/elmo.html", "zh/index.html", "zh/methods/elmo.html")
    for name in pages:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(menu, encoding="utf-8")
    docs.link_languages(tmp_path)
    for name in pages:
        for href, language in re.findall(r'href="(.*?)" hreflang="(..)"', (tmp_path / name).read_text("utf-8")):
            same = name.removeprefix("zh/") if language == "en" else f"zh/{name.removeprefix('zh/')}"
            assert ((tmp_path / name).parent / href).resolve() == (tmp_path / same).resolve()
