"""``polyseme corpus`` and ``polyseme info``: raw text to a corpus on disk, and what is at a path."""

from __future__ import annotations

import time
from typing import Any

import click

from polyseme.cli.flags import ColumnsFlag, force_option, given_flags, json_option, out_folder, with_flags
from polyseme.cli.tables import print_json, print_table
from polyseme.cli.terminal import say_end, shown_progress
from polyseme.text.options import READING, Reading


@with_flags(Reading)
@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="TEXT...")
@click.option("-o", "--out", required=True, callback=out_folder, help="Folder of the corpus.")
@click.option("--min-count", type=click.IntRange(1), default=1, show_default=True, help="Drop rarer words.")
@click.option("--max-size", type=click.IntRange(1), help="Keep at most this many words.")
@click.option("--workers", type=click.IntRange(1), help="CPU cores to use; default: all.")
@force_option
@json_option
@click.pass_context
def corpus(
    ctx: click.Context,
    /,
    sources: tuple[str, ...],
    out: str,
    min_count: int,
    max_size: int | None,
    workers: int | None,
    force: bool,
    as_json: bool,
    **_: Any,
) -> None:
    """Build a corpus from text: files, folders, .gz .bz2 .xz, .jsonl, or - for stdin."""
    from polyseme.text.corpus import Corpus

    reading = given_flags(ctx, READING)
    begun = time.monotonic()
    limits: dict[str, Any] = {"min_count": min_count, "max_size": max_size, "workers": workers}
    with shown_progress() as progress:
        built = Corpus.build(sources, out, force=force, progress=progress, **limits, **reading)
    facts = {**built.facts, "vocabulary": built.n_vocabulary}
    if as_json:
        print_json({"corpus": out, **facts, "fingerprint": built.fingerprint})
        return
    parts = [(facts[name], name) for name in ("tokens", "sentences", "documents")]
    shown = ", ".join(f"{number:,} {name[:-1] if number == 1 else name}" for number, name in parts)
    made = f"corpus in {out}: {shown}, vocabulary {facts['vocabulary']:,}"
    say_end(made, begun, then=f"polyseme train word2vec {out} -o MODEL")


LONGEST = 60  # characters of a cell that are shown


@with_flags(Reading)
@click.command()
@click.argument("path")
@click.option("--columns", type=ColumnsFlag(), help="Tables: which columns are which; default: guessed.")
@click.option("--min-count", type=click.IntRange(1), default=5, show_default=True, help="For the vocabulary size.")
@click.option("--verify", is_flag=True, help="Corpora, models and indexes: check every byte of their files.")
@json_option
@click.pass_context
def info(
    ctx: click.Context, /, path: str, columns: dict[str, Any] | None, min_count: int, verify: bool, as_json: bool,
    **_: Any,
) -> None:  # fmt: skip
    """What is this text, table, corpus, model or index? PATH is a file or folder, or - for text on stdin."""
    from polyseme.facts import describe

    reading = given_flags(ctx, READING)
    description = describe(path, min_count=min_count, columns=columns, verify=verify, **reading)
    if as_json:
        print_json(description.to_json())
        return
    facts = dict(description.facts)
    if description.kind in ("model", "index"):
        facts["options"] = description.changed_options() or "the defaults (--json lists them)"
    shown = [(name.removeprefix("n_").replace("_", " "), _shown(value)) for name, value in facts.items()]
    print_table(("what", "is"), shown)


def _shown(value: Any) -> Any:
    """Nested facts on one line; the words of a sample separated."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(v)}" for name, v in value.items() if v not in ([], {}, None, "")) or None
    if isinstance(value, list) and value and isinstance(value[0], dict) and "method" not in value[0]:
        return "\n".join(" | ".join(map(_short, row.values())) for row in value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "\n".join(map(_shown, value))
    if isinstance(value, list) and value and isinstance(value[0], list) and isinstance((value[0] or [""])[-1], float):
        return ", ".join(f"{word} {_shown(score)}" for word, score in value)
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "\n".join(" | ".join(words) for words in value)
    if isinstance(value, list):
        return " ".join(map(str, value)) or None
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _short(value: Any) -> str:
    """A cell on one line: the start of a text, words separated by spaces, answers by their text."""
    words = value if isinstance(value, list) else [value]
    text = " ".join(str(word["text"] if isinstance(word, dict) else word) for word in words).replace("\n", " ")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
