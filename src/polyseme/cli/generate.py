"""``polyseme fill``, ``follows``, ``generate``, ``translate``: what language and translation models expect or write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from polyseme.cli.flags import force_option, json_option, topn_option
from polyseme.cli.tables import answers_to_json, print_answers, print_json, sink_of
from polyseme.cli.terminal import json_printable, printable, say, shown_progress
from polyseme.encode_files import InputLines
from polyseme.errors import OptionError
from polyseme.interfaces import MASK, LanguageModel

LONGEST_NAME = 255  # bytes of a file's name


@click.command()
@click.argument("model")
@click.argument("text")
@topn_option
@json_option
def fill(model: str, text: str, topn: int, as_json: bool) -> None:
    """The words that the language model MODEL predicts for each [MASK] of TEXT, with probabilities.

    \b
    polyseme fill bert-base-chinese "他打了个[MASK]。"
    """
    from polyseme.api import load

    opened = load(model)
    if not (isinstance(opened, LanguageModel) and opened.language):
        raise OptionError(f"{model} (method {opened.method}) predicts no words: fill needs a language model")
    predictions = opened.fill(text, topn)
    if as_json:
        print_json([answers_to_json(answers, "probability") for answers in predictions])
        return
    for number, answers in enumerate(predictions, start=1):
        if len(predictions) > 1:
            click.echo(f"{MASK} {number}:")
        print_answers(answers, "probability")


@click.command()
@click.argument("model")
@click.argument("first")
@click.argument("second")
@json_option
def follows(model: str, first: str, second: str, as_json: bool) -> None:
    """Whether the text SECOND follows the text FIRST, as MODEL learned it (next sentence prediction of BERT).

    \b
    polyseme follows bert-base-chinese "他打了个电话。" "电话没有人接。"
    """
    from polyseme.api import load
    from polyseme.contexts.fine_tuning import transformer_of

    opened = load(model)
    transformer = transformer_of(opened)
    if transformer is None:
        raise OptionError(f"{model} (method {opened.method}) tells no order of texts: follows needs a BERT")
    probability = float(transformer.follows([(first, second)])[0])
    if as_json:
        print_json({"follows": probability >= 0.5, "probability": probability})
    else:
        click.echo(f"{'yes' if probability >= 0.5 else 'no'}  {probability:.4f}")


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
        for translation in opened.translate(lines or [given], beam=beam, longest=longest):
            source = lines.taken() if lines else given
            record = {
                "source": source, "translation": translation.text, "score": round(translation.score, 4),
                "words": translation.words, "source_words": translation.source,
                "attention": translation.attention.round(4).tolist(),
            }  # fmt: skip
            line = json.dumps(record, ensure_ascii=False) if as_json else translation.text
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
    texts = _texts(opened, prompt, number, seed, length=length, temperature=temperature, top_k=top_k, top_p=top_p)
    if as_json:
        print_json([{"prompt": prompt, "text": text, "seed": number} for number, text in texts])
        return
    for place, (_, text) in enumerate(texts):
        say(("\n" if place else "") + text)


def _texts(opened: object, prompt: str, number: int, seed: int, **how: float) -> Iterator[tuple[int, str]]:
    for run in range(seed, seed + number):
        yield run, opened.generate(prompt, seed=run, **how)  # type: ignore[attr-defined]
