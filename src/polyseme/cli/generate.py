"""``polyseme translate`` and ``polyseme generate``: text produced by a model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from polyseme.cli.predict import sink_of
from polyseme.cli.tables import force_option, json_option, print_json, shown_progress
from polyseme.cli.terminal import json_printable, printable, say
from polyseme.encode_files import InputLines
from polyseme.errors import OptionError
from polyseme.interfaces import LanguageModel

LONGEST_NAME = 255  # bytes of a file's name


@click.command()
@click.argument("model")
@click.argument("given", default="-", metavar="[FILE|TEXT]")
@click.option("-o", "--out", default="-", show_default=True, help="File to write; - is stdout.")
@click.option("--beam", type=click.IntRange(min=1), default=5, show_default=True, help="Beam size.")
@click.option(
    "--longest", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum words of a translation."
)
@force_option
@json_option
def translate(model: str, given: str, out: str, beam: int, longest: int, force: bool, as_json: bool) -> None:
    """Translate FILE line by line, or TEXT, with a translation model such as cove.

    With --json, one object per line: source words, target words, the attention between them, and a score.

    \b
    polyseme translate cove-en-zh "It is raining."
    """
    from polyseme.api import load

    opened = load(model)
    if not getattr(opened, "translates", False):
        raise OptionError(f"{model} (method {opened.method}) cannot translate: train cove on parallel text")
    with shown_progress(out) as progress, sink_of(out, force) as sink:
        lines: InputLines | None = InputLines(given, progress) if _is_file(given) else None
        for found in opened.translate(lines or [given], beam=beam, longest=longest):
            source = lines.taken() if lines else given
            record = {
                "source": source, "translation": found.text, "score": round(found.score, 4), "words": found.words,
                "source_words": found.source, "attention": found.attention.round(4).tolist(),
            }  # fmt: skip
            line = json.dumps(record, ensure_ascii=False) if as_json else found.text
            shown = (json_printable if as_json else printable)(line) if out == "-" else line
            sink.write(shown + "\n")


def _is_file(given: str) -> bool:
    return given == "-" or (len(given.encode("utf-8", "replace")) <= LONGEST_NAME and Path(given).exists())


@click.command()
@click.argument("model")
@click.argument("prompt", default="")
@click.option(
    "--length", type=click.IntRange(min=1), default=50, show_default=True, help="Maximum number of tokens to add."
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="0: always the most likely token.",
)
@click.option(
    "--top-k",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Sample from this many most likely tokens; 0: all.",
)
@click.option(
    "--top-p", type=click.FloatRange(min=0, max=1, min_open=True), default=1.0, show_default=True,
    help="Sample from the most likely tokens with this total probability (nucleus sampling).",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Random seed.")
@click.option(
    "--number", type=click.IntRange(min=1), default=1, show_default=True, help="Number of texts, each with a new seed."
)
@json_option
def generate(
    model: str, prompt: str, length: int, temperature: float, top_k: int, top_p: float, seed: int, number: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Continue PROMPT with the language model MODEL (gpt, ulmfit, GPT-2 …).

    \b
    polyseme generate gpt-novel "宝玉笑道" --temperature 0.8
    """
    from polyseme.api import load

    opened = load(model)
    if not (isinstance(opened, LanguageModel) and opened.continues):
        raise OptionError(f"{model} (method {opened.method}) cannot continue a text: train gpt, or ulmfit forward")
    texts = _written(opened, prompt, number, seed, length=length, temperature=temperature, top_k=top_k, top_p=top_p)
    if as_json:
        print_json([{"prompt": prompt, "text": text, "seed": of} for of, text in texts])
        return
    for place, (_, text) in enumerate(texts):
        say(("\n" if place else "") + text)


def _written(opened: object, prompt: str, number: int, seed: int, **how: float) -> Iterator[tuple[int, str]]:
    for own in range(seed, seed + number):
        yield own, opened.generate(prompt, seed=own, **how)  # type: ignore[attr-defined]
