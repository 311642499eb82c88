"""Pooled word vectors as a sentence-transformers folder: its StaticEmbedding, a mean over rows of a matrix.

With ``mean`` and ``sif``, a text's vector is a mean of rows that depend only on the word, w(a) x_a (I - u uᵀ), so the
folder gives the same vectors; words without a vector are omitted there too. Its tokenizer (of the ``tokenizers``
library) splits text like English text here, or at spaces if the model's text was split so. It has no Chinese segmenter:
Chinese text must be given to it segmented, with spaces between words.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyseme.contexts.static import StaticEncoder
from polyseme.disk.export import new_export
from polyseme.disk.plain import read_small
from polyseme.errors import FormatError, OptionError
from polyseme.nouns import FloatArray
from polyseme.sentences.pooled import Pooled
from polyseme.store import tensors as tensor_file
from polyseme.text.segment import Segmentation
from polyseme.text.writing_systems import has_han

if TYPE_CHECKING:
    from polyseme.contexts.transformer.pieces import Pieces

log = logging.getLogger(__name__)

LINEAR = ("mean", "sif")
_MARK = "▁"  # before every word, so that single letters of an unknown word are not taken for words
_PLACE = "0_StaticEmbedding"
_TYPE = "sentence_transformers.models.StaticEmbedding"
# URLs; abbreviations; words and numbers with inner punctuation; runs of dots or dashes; other signs one by one.
_ENGLISH = (
    r"https?://[!-~]*[\w/]|(?:[^\W\d_]\.){2,}|Ph\.D\.|\w+(?:(?:[-'’·]|(?<=\d)[.,:/](?=\d))\w+)*|\.{2,}|-{2,}|[^\w\s]"
)


def write_static_embedding(model: Pooled, path: str | Path, *, force: bool = False) -> None:
    """Write word vectors pooled by mean or SIF as a folder that sentence-transformers can read."""
    if not isinstance(model.encoder, StaticEncoder) or model.options.pool not in LINEAR:
        raise OptionError(
            "only word vectors pooled by mean or sif, or a Transformer, can be "
            "written as a sentence-transformers folder"
        )
    words = [word for word in model.encoder.words.index_to_key if _writable(word)]
    spaced = _cut_at_spaces(model.segmentation, words)
    if spaced and model.segmentation.method != "space":
        log.warning("%s splits text at spaces only: give it segmented Chinese", path)
    with new_export(path, "sentence-transformers", force=force) as folder:
        module = {"idx": 0, "name": "0", "path": _PLACE, "type": _TYPE}
        (folder / "modules.json").write_text(json.dumps([module], indent=2), encoding="utf-8")
        place = folder / _PLACE
        place.mkdir()
        rows = np.ascontiguousarray(_rows(model, words), dtype=np.float32)
        tensor_file.write(place / "model.safetensors", {"embedding.weight": rows}, {"format": "pt"})
        (place / "tokenizer.json").write_text(_tokenizer(words, model.segmentation, spaced), encoding="utf-8")


def read_static_embedding(place: Path) -> tuple[Pieces, FloatArray]:
    """The tokenizer and the vectors of its subwords; in model2vec, subwords may share a vector and have weights."""
    from polyseme.contexts.transformer.files.huggingface import read_weights
    from polyseme.contexts.transformer.pieces import Pieces

    tensors = read_weights(place)
    rows = tensors.get("embedding.weight", tensors.get("embeddings"))
    mapping, weights = tensors.get("mapping"), tensors.get("weights")
    try:
        if rows is None or rows.ndim != 2:
            raise ValueError("it has no table of vectors")
        rows = rows.float() if mapping is None else rows.float()[mapping.long()]
        found: FloatArray = (rows if weights is None else rows * weights.float()[:, None]).contiguous().numpy()
        if not np.isfinite(found).all():
            raise ValueError("its vectors are not finite")
    except (ValueError, IndexError, RuntimeError) as error:
        raise FormatError(f"{place} does not hold vectors of pieces: {str(error)[:100]}") from None
    try:
        tokenizer = read_small(place / "tokenizer.json")
    except OSError as error:
        raise FormatError(f"{place / 'tokenizer.json'} cannot be read: {error.strerror}") from None
    pieces = Pieces.read(tokenizer, b"{}", where=place / "tokenizer.json")
    if len(pieces.names) > len(found):
        raise FormatError(f"{place} has a tokenizer of {len(pieces.names):,} pieces and vectors of {len(found):,}")
    return pieces, found


def _rows(model: Pooled, words: list[str]) -> FloatArray:
    """The vector of each word, encoded as a one-word text."""
    return model.encode_silently([word] for word in words)


def _writable(word: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in word)


def _cut_at_spaces(segmentation: Segmentation, words: list[str]) -> bool:
    chinese = sum(map(has_han, words[:10_000])) > 0.2 * len(words[:10_000])
    return segmentation.method in ("space", "jieba", "char") or (segmentation.method == "auto" and chinese)


def _tokenizer(words: list[str], segmentation: Segmentation, spaced: bool) -> str:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    known = {f"{_MARK}{word}": number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=known, merges=[], ignore_merges=True))
    steps: list[Any] = [normalizers.NFKC()] if segmentation.normalise == "nfkc" else []
    steps += [normalizers.Lowercase()] if segmentation.case == "lower" else []
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    cut = (
        pre_tokenizers.WhitespaceSplit()
        if spaced
        else pre_tokenizers.Split(Regex(_ENGLISH), behavior="removed", invert=True)
    )
    marked = pre_tokenizers.Metaspace(replacement=_MARK, prepend_scheme="always", split=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, marked])
    return str(tokenizer.to_str())
