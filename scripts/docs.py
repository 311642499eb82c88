"""The site of documents, in English and Chinese: `python scripts/docs.py` writes it to build/site (`make docs`).

The pages are those of docs/ and docs/zh; pages of commands and of methods come from the code, the Python reference
from docstrings. A page that Chinese does not have yet is taken from English, so that both have the same.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import click

from polyseme.catalog import METHODS
from polyseme.cli.main import COMMANDS, polyseme

ROOT = Path(__file__).resolve().parents[1]
DOCS, BUILD = ROOT / "docs", ROOT / "build"
KINDS = {
    "words": ("Words", "词向量"),
    "contexts": ("Words in context", "语境向量"),
    "sentences": ("Sentences", "句向量"),
}


def pages(language: str, target: Path) -> None:
    """Every page of one language."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("zh"))
    if language == "zh":
        shutil.copytree(DOCS / "zh", target, dirs_exist_ok=True)
    chinese = language == "zh"
    (target / "changelog.md").write_text((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), encoding="utf-8")
    (target / "methods" / "index.md").write_text(methods_page(chinese), encoding="utf-8")
    folder = target / "commands"
    folder.mkdir()
    for name, text in command_pages(chinese).items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def methods_page(chinese: bool) -> str:
    """The catalog, by kind."""
    head = ("方法", "名称", "论文") if chinese else ("method", "Chinese name", "paper")
    lines = ["# 方法" if chinese else "# Methods"]
    for kind, titles in KINDS.items():
        lines += ["", f"## {titles[chinese]}", "", f"| {' | '.join(head)} |", "|---|---|---|"]
        lines += [
            f"| [`{row.name}`]({row.name}.md) | {row.chinese} | {row.paper} ({row.year}) |"
            for row in METHODS
            if row.kind == kind
        ]
    return "\n".join(lines) + "\n"


def command_pages(chinese: bool) -> dict[str, str]:
    """One page for each command, as its --help has it, and the list of them."""
    context = click.Context(polyseme, info_name="polyseme")
    found = {"index": "# 命令\n\n" if chinese else "# Commands\n\n"}
    for name, (_, line) in COMMANDS.items():
        found["index"] += f"- [`polyseme {name}`]({name if name != 'index' else 'index-command'}.md): {line}\n"
        command = polyseme.get_command(context, name)
        assert command is not None
        text = f"# polyseme {name}\n\n{line}\n"
        for path, one in commands_below(name, command):
            with click.Context(one, info_name=path, parent=context, max_content_width=100) as own:
                text += f"\n## {path}\n\n```text\n{one.get_help(own)}\n```\n" if path != name else help_block(one, own)
        found["index-command" if name == "index" else name] = text
    return found


def help_block(command: click.Command, context: click.Context) -> str:
    """Its help as it is printed."""
    return f"\n```text\n{command.get_help(context)}\n```\n"


def commands_below(path: str, command: click.Command) -> list[tuple[str, click.Command]]:
    """The command, and those of which it is a group, but for the methods of ``train``, whose options have pages."""
    found = [(path, command)]
    if isinstance(command, click.Group) and path != "train":
        with click.Context(command) as context:
            names = command.list_commands(context)
            found += [(f"{path} {name}", one) for name in names if (one := command.get_command(context, name))]
    return found


def main() -> int:
    """Write the pages, then the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages-only", action="store_true", help="write build/docs and no site")
    given = parser.parse_args()
    for language, place in (("en", "."), ("zh", "zh")):
        pages(language, BUILD / "docs" / language)
        if given.pages_only:
            continue
        config = ROOT / "docs" / f"mkdocs.{language}.yml"
        out = BUILD / "site" / place
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(config), "-d", str(out)]
        if done := subprocess.run(command, cwd=ROOT).returncode:
            return done
    return 0


if __name__ == "__main__":
    sys.exit(main())
