"""``polyseme convert SRC DST``: to and from the published formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.show import Choice
from polyseme.errors import OptionError

if TYPE_CHECKING:
    from polyseme.words.vectors import WordVectors

FORMS = ("polyseme", "word2vec-text", "word2vec-binary", "glove", "fasttext", "projector", "bilm-tf")
_COMPRESSED = (".gz", ".bz2", ".xz")


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--to", "form", type=Choice(FORMS), help="The format of DST; told by its name where not given.")
@click.option("--dense", is_flag=True, help="Write sparse vectors (onehot, counts) with all their zeros.")
def convert(source: str, target: str, form: str | None, dense: bool) -> None:
    """Write the word vectors or the ELMo at SRC (any format that is read) to DST.

    \b
    name of DST      format
    no suffix        polyseme: a model folder
    .vec .txt        word2vec-text
    .bin             fasttext, if SRC has subwords; word2vec-binary otherwise
    folder with --to projector   vectors.tsv and metadata.tsv for TensorBoard
    folder with --to bilm-tf     options.json and weights.hdf5 of an ELMo that reads bytes
    Behind a suffix, .gz .bz2 .xz compress.
    """
    from polyseme.api import load
    from polyseme.cli.words import only_words
    from polyseme.words.files.published import save_vectors_as

    path = Path(target)
    _check_name(path, form)
    opened = load(source)
    if form == "bilm-tf" or (form in (None, "polyseme") and opened.method == "elmo"):
        _write_elmo(opened, path, form or "polyseme")
        return
    model = only_words(opened, source)
    chosen = form or _form_of(path, model)
    save_vectors_as(model, path, chosen, dense=dense)
    click.echo(f"{len(model):,} words of {model.vector_size} numbers in {target} ({chosen})", err=True)


def _write_elmo(model: Any, path: Path, form: str) -> None:
    if model.method != "elmo":
        raise OptionError(f"bilm-tf is a format of ELMo, and this is a model of {model.method}")
    if form == "polyseme":
        model.save(path)
    else:
        from polyseme.contexts.elmo.files.bilm import write_bilm

        write_bilm(model, path / "options.json", path / "weights.hdf5")
    click.echo(f"elmo model in {path} ({form})", err=True)


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path).suffix.lower()


def _check_name(path: Path, form: str | None) -> None:
    folder = path.suffix == ""
    if form is None and not folder and _suffix(path) not in (".vec", ".txt", ".bin"):
        raise OptionError(f"the suffix of {path} names no format: say which with --to ({', '.join(FORMS)})")


def _form_of(path: Path, model: WordVectors) -> str:
    if _suffix(path) == ".bin":
        return "fasttext" if model.subwords else "word2vec-binary"
    return "word2vec-text" if _suffix(path) else "polyseme"
