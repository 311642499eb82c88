"""``polyseme encode`` and ``similarity``: vectors of every line, streamed, and how alike two words or texts are."""

from __future__ import annotations

import time

import click

from polyseme.cli.flags import (
    OneOf,
    PoolingFlags,
    force_option,
    json_option,
    opened_at,
    pooling_flags,
    precision_option,
    with_flags,
)
from polyseme.cli.tables import print_json
from polyseme.cli.terminal import say, say_end, shown_progress
from polyseme.encode_files import FORMATS, STDOUT, encode_file, format_of
from polyseme.interfaces import UNKNOWN, ContextEncoder, SentenceEncoder, unknown_told
from polyseme.text.options import Reading


@pooling_flags
@with_flags(Reading, "encoding", "errors")
@click.command()
@click.argument("model")
@click.argument("file", default="-")
@click.option("-o", "--out", required=True, help="File to write; - is stdout.")
@click.option(
    "--layers", default="all", show_default=True,
    help="all, top, mean, mix or a number; several, such as -1,-2 (from the top), are concatenated.",
)  # fmt: skip
@click.option("--format", "form", type=OneOf(FORMATS), help="Default: by the suffix of OUT.")
@click.option(
    "--pieces", is_flag=True, help="Transformers: vectors of subword tokens, including special ones, instead of words."
)
@click.option(
    "--unknown", type=OneOf(UNKNOWN), default=UNKNOWN[0], show_default=True,
    help="What a line without any known word gives where lines have one vector each.",
)  # fmt: skip
@precision_option
@force_option
@click.option("--segment", help="How to segment lines into words: space for segmented text; default: as in the model.")
def encode(
    model: str,
    file: str,
    out: str,
    layers: str,
    form: str | None,
    pieces: bool,
    unknown: str,
    precision: str,
    force: bool,
    segment: str | None,
    encoding: str | None,
    errors: str | None,
    pooling: PoolingFlags,
) -> None:
    """Encode every line of FILE (stdin if it is - or omitted).

    \b
    hdf5      one dataset per line, named "0", "1" …, and sentence_to_index;
              (layers, words, dim) or (words, dim)
    npy       all words in sequence, (words, layers, dim) or
              (words, dim); NAME.offsets.npy: where lines start
    parquet   one row per word: line, position, token, a vector for each layer
    jsonl     one object per line: tokens, and layers or vectors
    features  one object per line, as BERT's extract_features writes: each
              token with the index and values of its layers

    With --pool, one vector per line, of one layer (default: mean of the layers).
    """
    form = format_of(out, form)
    encoder = _open(model, precision, pooling, layers)
    begun = time.monotonic()
    with shown_progress(out) as progress:
        written = encode_file(
            encoder, file, out, format=form, layers=layers, pieces=pieces, unknown=unknown, segment=segment,
            encoding=encoding, errors=errors or "strict", force=force, progress=progress,
        )  # fmt: skip
    if written.unknown and unknown == UNKNOWN[0]:
        say(unknown_told(written.unknown, written.lines, "--unknown nan"), err=True)
    if out != STDOUT:
        say_end(f"vectors of {written.lines:,} lines in {' and '.join(map(str, written.files))}", begun)


def _open(path: str, precision: str, pooling: PoolingFlags, layers: str) -> ContextEncoder | SentenceEncoder:
    from polyseme.sentences.lift import lift

    model = opened_at(path, precision)
    if isinstance(model, SentenceEncoder) or pooling.asked:
        chosen = {} if layers == "all" else {"layers": layers}
        return PoolingFlags({**pooling.options, **chosen}, pooling.fit_on).encoder(model)
    return lift(model, "contexts")


@pooling_flags
@click.command()
@click.argument("model")
@click.argument("a")
@click.argument("b")
@click.option("--texts", is_flag=True, help="Treat A and B as texts also for word vectors, as with --pool.")
@json_option
def similarity(model: str, a: str, b: str, texts: bool, as_json: bool, pooling: PoolingFlags) -> None:
    """The similarity of A and B, from -1 to 1: two words for word vectors, two texts for any other model.

    Context encoders, and word vectors with --texts or --pool, compare the mean of the word vectors, or what --pool
    computes from them.
    """
    from polyseme.api import load
    from polyseme.words.vectors import WordVectors

    opened = load(model)
    if isinstance(opened, WordVectors) and not texts and not pooling.asked:
        cosine = opened.similarity(a, b)
    else:
        cosine = float(pooling.encoder(opened).similarity([a], [b])[0, 0])
    if as_json:
        print_json({"a": a, "b": b, "similarity": round(cosine, 6)})
    else:
        say(f"{cosine:.4f}")
