"""``polyseme demo``: everything on a real corpus, in minutes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from polyseme.cli.tables import console, print_kwic
from polyseme.cli.terminal import shown_progress
from polyseme.demo import MINUTES, Demo, Step
from polyseme.evaluate.tag_agreement import Agreement
from polyseme.search.occurrences.hits import WordSenses

TITLES = {
    "corpus": "corpus    语料",
    "word2vec": "word2vec  词向量，一词一向量",
    "elmo": "ELMo      语境向量，一处一向量",
    "index": "index     按用法检索的索引",
}


@click.command()
@click.argument("files", nargs=-1, metavar="[FILES...]")
@click.option(
    "-o", "--out", default="polyseme-demo", show_default=True, help="Folder of the demo; run again to continue."
)
@click.option(
    "--minutes", type=click.FloatRange(min=0.01), default=MINUTES, show_default=True, help="Time to train ELMo."
)
@click.option("--size", help="Size of the ELMo to train (see train elmo --help).")
def demo(files: tuple[str, ...], out: str, minutes: float, size: str | None) -> None:
    """Build a corpus, train word2vec and ELMo on it, index every occurrence, and show how words are used in it.

    The text is a month of the People's Daily (pip install 'polyseme[demo]'), or FILES of your own.
    """
    started = time.monotonic()
    to = console()
    elmo: dict[str, Any] = {"size": size} if size else {}
    work = Demo(Path(out), files, minutes=minutes, elmo_options=elmo)
    steps = work.run()
    while step := _next(work, steps):
        took = f"{step.seconds:.0f} s" if step.seconds else "done before"
        _told(to, Text.assemble(("✓ ", "green"), (TITLES[step.name], "bold"), f"  {step.result}  ({took})"))
    shown = _show_words(to, work)
    with shown_progress() as progress:
        work.progress = progress
        agreement = work.agreement()
    _show_agreement(to, agreement, work)
    _show_next(to, Path(out), shown, time.monotonic() - started)


def _next(work: Demo, steps: Iterator[Step]) -> Step | None:
    with shown_progress() as progress:  # each step has bars of its own
        work.progress = progress
        return next(steps, None)


def _show_words(to: Console, work: Demo) -> list[WordSenses]:
    shown = []
    _heading(to, "One vector for a word, or one for each occurrence? 一词一向量，还是一处一向量？")
    for static, word_uses in work.shown_words():
        shown.append(word_uses)
        n = len(word_uses.senses)
        to.print(Text.assemble("\n", (word_uses.word, "bold red"), f"  {word_uses.count:,} occurrences"))
        _told(to, Text.assemble("  word2vec  one list for all of them: ", ("  ".join(static) or "–", "yellow")))
        sure = "" if word_uses.sure is None else f", sure {word_uses.sure:.2f} (1: far apart, 0: overlapping)"
        to.print(f"  ELMo      {n} use{'s' if n > 1 else ''}{sure}")
        for number, sense in enumerate(word_uses.senses, 1):
            label = "  ".join(sense.substitutes) or "–"
            to.print(Text.assemble(f"    {number}  ", (f"{sense.share:>4.0%}", "bold"), "  ≈ ", (label, "green")))
            print_kwic(to, sense.typical[:2], indent=7, scores=False)
    return shown


def _show_agreement(to: Console, agreement: Agreement | None, work: Demo) -> None:
    _heading(to, "How often is the nearest occurrence the same word class? 最近的用例，词性是否相同？")
    if agreement is None:
        to.print("\nThe text has no tags (word/TAG), so this cannot be measured.")
        return
    if not agreement.words:
        to.print("\nNo word of the text has 200 occurrences with a second tag on 60 of them.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("10 nearest with the same tag", justify="right")
    table.add_column("their majority is right", justify="right")
    table.add_row("chance, commonest tag", f"{agreement.chance:.3f}", f"{agreement.commonest:.3f}")
    layer = work.index.facts["layer"]
    table.add_row(Text(f"ELMo, layer {layer}", "bold"), f"{agreement.share:.3f}", f"{agreement.vote:.3f}")
    to.print()
    to.print(table)
    _told(
        to,
        f"\nMean over the {len(agreement.words)} words with at least 200 occurrences and a second tag on at least 60. "
        "The neighbours of an occurrence are chosen among all others of the word in the corpus. ELMo never saw a tag.",
    )


def _show_next(to: Console, out: Path, shown: list[WordSenses], seconds: float) -> None:
    _heading(to, "Look at it 看一看")
    paths = " ".join(str(out / name) for name in ("word2vec", "elmo", "index"))
    _command(to, f"polyseme serve {paths}", "the page: concordance, uses, neighbours, maps")
    for word_uses in shown[:1]:
        sentence = min((hit.text for sense in word_uses.senses for hit in sense.typical), key=len)
        asked = " ".join(map(shlex.quote, (str(out / "index"), word_uses.word, "--in", sentence)))
        _command(to, f"polyseme uses {asked}", "occurrences used the same way")
    _heading(to, "Your own text 用你自己的文本")
    for line, why in (
        ("polyseme corpus 我的文本.txt -o my.corpus", "any files; also .gz and GB18030"),
        ("polyseme train elmo my.corpus -o my.elmo", "--minutes limits the training time"),
        ("polyseme index my.elmo my.corpus -o my.index", "every occurrence of every word"),
        ("polyseme uses my.index 词", "its uses; --in SENTENCE: occurrences used the same way"),
    ):
        _command(to, line, why)
    kept = f"{out} keeps everything: run the demo again to continue from there."
    _told(to, f"\n{seconds / 60:.1f} minutes in all. {kept}")


def _heading(to: Console, text: str) -> None:
    to.print()
    _told(to, Text(text, "bold"))


def _told(to: Console, text: Text | str) -> None:
    to.print(text, soft_wrap=False)  # broken between words


def _command(to: Console, line: str, why: str) -> None:
    to.print(Text(f"  # {why}", "dim"))
    to.print(Text(f"  {line}", "cyan"))  # one line, to copy
