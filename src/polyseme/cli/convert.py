"""``polyseme convert SRC DST``: to and from the published formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polyseme.cli.flags import OneOf, PoolingFlags, force_option, pooling_flags
from polyseme.cli.terminal import say
from polyseme.errors import OptionError

if TYPE_CHECKING:
    from polyseme.words.vectors import WordVectors as Table

OF_ENCODERS = ("bilm-tf", "huggingface", "sentence-transformers")
FORMS = ("polyseme", "word2vec-text", "word2vec-binary", "glove", "fasttext", "projector", *OF_ENCODERS)
_COMPRESSED = (".gz", ".bz2", ".xz")


@pooling_flags
@click.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--to", "form", type=OneOf(FORMS), help="Format of DST; default: by its name.")
@click.option("--dense", is_flag=True, help="Write sparse vectors (onehot, counts) with all zeros.")
@force_option
def convert(source: str, target: str, form: str | None, dense: bool, force: bool, pooling: PoolingFlags) -> None:
    """Write the model at SRC (any supported format) to DST.

    \b
    name of DST  format
    no suffix    polyseme: a model folder
    .vec .txt    word2vec-text
    .bin         fasttext, if SRC has subwords; word2vec-binary otherwise

    \b
    folder with --to
    projector    vectors.tsv and metadata.tsv for TensorBoard
    bilm-tf      options.json and weights.hdf5 of an ELMo that reads bytes
    huggingface  a Transformer for transformers' AutoModel and AutoTokenizer
    sentence-transformers
                 a Transformer that gives sentence vectors; or, with
                 --pool mean or sif, word vectors that do

    An additional .gz .bz2 or .xz compresses. With --pool, DST is a sentence model: SRC and its pooling, fitted if it
    needs counts, in one folder.
    """
    from polyseme.api import load
    from polyseme.cli.words import only_words
    from polyseme.disk.atomic import writing
    from polyseme.interfaces import WordVectorsInterface
    from polyseme.words.files.models import save_vectors_as

    path = Path(target)
    _check_name(path, form)
    with writing(path):
        opened = load(source)
        if pooling.asked:
            opened = pooling.encoder(opened)
        folder = form == "polyseme" or (form is None and not _suffix(path))
        if form in OF_ENCODERS or (folder and not isinstance(opened, WordVectorsInterface)):
            _write_encoder(opened, path, form or "polyseme", force)
            return
        model = only_words(opened, source)
        chosen = form or _form_of(path, model)
        save_vectors_as(model, path, chosen, dense=dense, force=force)
    say(f"{len(model):,} words with {model.vector_size} dimensions in {target} ({chosen})", err=True)


def _write_encoder(model: Any, path: Path, form: str, force: bool) -> None:
    if form == "polyseme":
        model.save(path, force=force)
    elif form == "bilm-tf":
        from polyseme.contexts.elmo.files.bilm import write_bilm
        from polyseme.contexts.elmo.model import Elmo

        write_bilm(_only(model, form, Elmo), path / "options.json", path / "weights.hdf5", force=force)
    else:
        from polyseme.contexts.transformer.files.huggingface import write_huggingface
        from polyseme.contexts.transformer.model import TransformerEncoder
        from polyseme.sentences.files.sentence_transformers import write_sentence_transformers
        from polyseme.sentences.files.static_embedding import write_static_embedding
        from polyseme.sentences.pooled import Pooled
        from polyseme.sentences.transformer import SentenceTransformer

        if form == "huggingface":
            write_huggingface(_only(model, form, TransformerEncoder), path, force=force)
        else:
            encoder = _only(model, form, SentenceTransformer, TransformerEncoder, Pooled)
            write = write_static_embedding if isinstance(encoder, Pooled) else write_sentence_transformers
            write(encoder, path, force=force)
    say(f"{model.method} model in {path} ({form})", err=True)


def _only(model: Any, form: str, *classes: type) -> Any:
    if not isinstance(model, classes):
        names = " and ".join(str(getattr(cls, "method", cls)) for cls in classes)
        raise OptionError(f"{form} is a format for {names} models, but this model has method {model.method}")
    return model


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path).suffix.lower()


def _check_name(path: Path, form: str | None) -> None:
    folder = path.suffix == ""
    if form is None and not folder and _suffix(path) not in (".vec", ".txt", ".bin"):
        raise OptionError(f"no known format for the suffix of {path}: choose one with --to ({', '.join(FORMS)})")


def _form_of(path: Path, model: Table) -> str:
    if _suffix(path) == ".bin":
        return "fasttext" if model.subwords else "word2vec-binary"
    return "word2vec-text" if _suffix(path) else "polyseme"
