"""``polyseme encode MODEL [FILE] -o OUT``: vectors of every line, streamed."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from polyseme.arrays import FloatArray
from polyseme.cli.flags import with_flags
from polyseme.cli.pooling import PoolingFlags, pooling_flags
from polyseme.cli.precision import opened_at, precision_option
from polyseme.cli.show import OneOf, force_option, say_end, shown_progress
from polyseme.cli.terminal import say
from polyseme.disk.atomic import Scratch
from polyseme.errors import OptionError
from polyseme.interfaces import (
    CHARACTERS_AT_ONCE,
    UNKNOWN,
    ContextEncoder,
    EncodedSentence,
    Layers,
    Progress,
    Sentence,
    SentenceEncoder,
    mark_unknown,
    pages,
    unknown_told,
)
from polyseme.text.options import Reading

if TYPE_CHECKING:
    from polyseme.encode_files import Write

SUFFIXES = {
    ".h5": "hdf5", ".hdf5": "hdf5", ".npy": "npy", ".parquet": "parquet", ".jsonl": "jsonl", ".json": "jsonl",
}  # fmt: skip
FORMATS = ("hdf5", "npy", "parquet", "jsonl", "features")
_LINES_BETWEEN_REPORTS = 64


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
    chosen = form or SUFFIXES.get(Path(out).suffix.lower()) or ("jsonl" if out == "-" else None)
    if chosen is None:
        raise OptionError(f"no known format for the suffix of {out}: choose one with --format ({', '.join(FORMATS)})")
    encoder = _open(model, precision, pooling, layers)
    begun = time.monotonic()
    whole = isinstance(encoder, SentenceEncoder)
    if whole and (chosen == "features" or pieces):
        raise OptionError(
            "features and pieces are vectors of words in context: not available for sentence models or with --pool"
        )
    if unknown != UNKNOWN[0] and not whole:
        raise OptionError(f"--unknown {unknown} is about vectors of whole lines: add --pool")
    planes = None if isinstance(encoder, SentenceEncoder) else _Planes(encoder, layers, together=chosen != "features")
    n_unknown = 0
    with shown_progress(out) as progress, _writing(chosen, out, planes.names if planes else [], force) as write:
        lines = InputLines(file, progress, encoding=encoding, errors=errors or "strict")
        if isinstance(encoder, SentenceEncoder):
            for vector in encoder.stream(_cut(lines, segment)):
                line = lines.taken()
                n_unknown += mark_unknown(vector[None], [line], unknown, lines.done)
                write(line, [], vector)
        elif planes:
            for sentence in _encoded(encoder, _cut(lines, segment), planes.asked, pieces):
                write(lines.taken(), sentence.tokens, planes.of(sentence.layers))
        lines.finish()
    if n_unknown and unknown == UNKNOWN[0]:
        say(unknown_told(n_unknown, lines.done, "--unknown nan"), err=True)
    if out != "-":
        from polyseme.encode_files import files_beside

        files = " and ".join(map(str, (out, *filter(Path.exists, files_beside(chosen, Path(out))))))
        say_end(f"vectors of {lines.done:,} lines in {files}", begun)


class _Planes:
    """The requested layers: which to ask the encoder for, and how they are written."""

    def __init__(self, encoder: ContextEncoder, choice: str, *, together: bool) -> None:
        self.together, self.numbers = together, Layers.listed(choice, encoder.n_layers)
        self.asked = choice if self.numbers is None else "all"
        read = Layers.read(self.asked, encoder.n_layers)
        self.single = read.n_planes == 1
        self.names: list[int | str] = list(self.numbers or read.numbers) if read.name != "mean" else ["mean"]
        self.names = ["mix"] if read.name == "mix" else self.names

    def of(self, layers: FloatArray) -> FloatArray:
        """``(L, T, D)``, or ``(T, D)`` for one layer or several concatenated."""
        if self.numbers is not None:
            layers = layers[self.numbers]
            return np.concatenate(list(layers), axis=1) if self.together else layers
        return layers[0] if self.together and self.single and self.asked != "all" else layers


def _encoded(
    encoder: ContextEncoder, lines: Iterator[Sentence], layers: str, pieces: bool
) -> Iterator[EncodedSentence]:
    if not pieces:
        return encoder.encode_tokens(lines, layers=layers)
    if not hasattr(encoder, "encode_pieces"):
        raise OptionError("--pieces needs a Transformer: other models read words")
    found: Iterator[EncodedSentence] = encoder.encode_pieces(lines, layers=layers)
    return found


def _open(path: str, precision: str, pooling: PoolingFlags, layers: str) -> ContextEncoder | SentenceEncoder:
    from polyseme.sentences.lift import lift

    model = opened_at(path, precision)
    if isinstance(model, SentenceEncoder) or pooling.asked:
        chosen = {} if layers == "all" else {"layers": layers}
        return PoolingFlags({**pooling.options, **chosen}, pooling.fit_on).encoder(model)
    return lift(model, "contexts")


class InputLines:
    """The input lines; those the encoder has read ahead are kept until their vectors are returned."""

    def __init__(self, name: str, progress: Progress, *, encoding: str | None = None, errors: str = "strict") -> None:
        from polyseme.text.source import SourceReader, find_sources

        sources = find_sources([name])
        if len(sources) > 1:
            raise OptionError(f"{name} is a folder: encode reads a single file")
        self._reader, self._size = SourceReader(sources[0], encoding=encoding, errors=errors), sources[0].size
        self._progress = progress
        self._ahead: list[str] = []
        self._next = self.done = 0

    def __iter__(self) -> Iterator[str]:
        rest = ""
        for chunk in self._reader.chunks():
            *lines, rest = (rest + chunk).split("\n")
            for line in lines:
                yield self._kept(line.removesuffix("\r"))
        if rest:
            yield self._kept(rest.removesuffix("\r"))

    def _kept(self, line: str) -> str:
        self._ahead.append(line)
        return line

    def taken(self) -> str:
        """The line whose vectors were just returned."""
        line = self._ahead[self._next]
        self._next += 1
        self.done += 1
        if self._next == len(self._ahead) or self._next > 4096:
            del self._ahead[: self._next]
            self._next = 0
        if self.done % _LINES_BETWEEN_REPORTS == 1:
            read = self._reader.consumed if self._size is None else min(self._reader.consumed, self._size - 1)
            self._progress("encoding", read, self._size, lines=self.done)  # read to the end is not yet done
        return line

    def finish(self) -> None:
        """All lines are written."""
        self._progress("encoding", self._size or self.done, self._size or self.done, lines=self.done)


def _cut(lines: Iterable[str], segment: str | None) -> Iterator[Sentence]:
    if segment is None:
        yield from lines
        return
    from polyseme.text.segment import Segmentation

    cut = Segmentation(segment, normalise="none") if segment == "space" else Segmentation(segment)
    for page in pages(lines, CHARACTERS_AT_ONCE, each=16):
        yield from cut.token_lists(page)


@contextmanager
def _writing(form: str, out: str, names: Sequence[int | str], force: bool) -> Iterator[Write]:
    """To the given file, or to stdout: JSON lines as they come, other formats when complete."""
    from polyseme.encode_files import stream_lines, writer

    if out != "-":
        with writer(form, Path(out), force=force, names=names) as write:
            yield write
    elif form in ("jsonl", "features"):
        with stream_lines(form, sys.stdout.fileno(), names=names) as write:
            yield write
    else:
        with Scratch() as folder:
            with writer(form, folder / "out", lasting=False) as write:
                yield write
            with open(folder / "out", "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
