"""Pooled word vectors as a sentence-transformers folder: its StaticEmbedding, a mean over rows of a matrix.

With ``mean`` and ``sif``, a text's vector is a mean of rows that depend only on the word, w(a) x_a (I - u uᵀ), so the
folder gives the same vectors; words without a vector are omitted there too. Its tokenizer (of the ``tokenizers``
library) splits text like English text here, or at spaces if the model's text was split so. Runs of Han characters are
cut by a unigram model 一元模型: of all ways to cut them into words of the vocabulary the one of the greatest product of
their frequencies. That is nearly what jieba does, not quite (docs/formats.md has the share of equal words), and what is
no word counts as one of vector zero: vectors are a little shorter, and point the same way where the words are equal.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import regex
from numpy.typing import NDArray

from polyseme.arrays import FloatArray
from polyseme.contexts.static import StaticEncoder
from polyseme.disk.files import read_small
from polyseme.disk.folders import new_export
from polyseme.errors import FormatError, OptionError
from polyseme.sentences.pooled import Pooled
from polyseme.sentences.word_weights import with_counts
from polyseme.store import safetensors_file as tensor_file
from polyseme.text.normalise import WIDE
from polyseme.text.segment import Segmentation, has_han

if TYPE_CHECKING:
    from polyseme.contexts.transformer.tokenizer import Pieces

log = logging.getLogger(__name__)

LINEAR = ("mean", "sif")
_MARK = "▁"  # before every word, so that single letters of an unknown word are not taken for words
_PLACE = "0_StaticEmbedding"
_TYPE = "sentence_transformers.models.StaticEmbedding"
# URLs; abbreviations; words and numbers with inner punctuation; runs of dots or dashes; other signs one by one.
_ENGLISH = (
    r"https?://[!-~]*[\w/]|(?:[^\W\d_]\.){2,}|Ph\.D\.|\w+(?:(?:[-'’·]|(?<=\d)[.,:/](?=\d))\w+)*|\.{2,}|-{2,}|[^\w\s]"
)
# The same of other scripts than Han, and where one of these begins once its end is marked.
_FOREIGN = (
    _ENGLISH.replace(r"[^\W\d_]", r"[^\W\d_\p{Han}]")
    .replace(r"\w+", r"[\w&&[^\p{Han}]]+")
    .replace(r"[\w/]", "[0-9A-Za-z/]")
)
_BEGINS = rf"(?<![^\s{_MARK}\p{{Han}}])(?=[^\s{_MARK}\p{{Han}}]+{_MARK})"
_HAN_WORD = regex.compile(r"\p{Han}+")
_PRIVATE = 0xF0000  # characters of no meaning that stand for others while those must not change


def write_static_embedding(model: Pooled, path: str | Path, *, force: bool = False) -> None:
    """Write word vectors pooled by mean or SIF as a folder that sentence-transformers can read."""
    if not isinstance(model.encoder, StaticEncoder) or model.options.pool not in LINEAR:
        raise OptionError(
            "only word vectors pooled by mean or sif, or a Transformer, can be "
            "written as a sentence-transformers folder"
        )
    words = [word for word in model.encoder.words.index_to_key if _writable(word)]
    how = _cutting(model.segmentation, words)
    if how == "spaces":
        log.warning("%s splits text at spaces only: give it segmented Chinese", path)
    if how == "unigram" and model.segmentation.script != "keep":
        log.warning("%s does not convert its text: give it %s Chinese", path, model.segmentation.script)
    with new_export(path, "sentence-transformers", force=force) as folder:
        module = {"idx": 0, "name": "0", "path": _PLACE, "type": _TYPE}
        (folder / "modules.json").write_text(json.dumps([module], indent=2), encoding="utf-8")
        place = folder / _PLACE
        place.mkdir()
        rows = np.ascontiguousarray(_rows(model, words), dtype=np.float32)
        if how == "unigram":
            table: Any = model.encoder.words
            known = with_counts(table.vocabulary)
            counts = np.array([known.counts[known.index[word]] for word in words])
            tokenizer = unigram_tokenizer(words, counts, model.segmentation)
            rows = np.concatenate([np.zeros_like(rows[:1]), rows])  # of what is no word
        else:
            tokenizer = _tokenizer(words, model.segmentation, how == "spaces")
        tensor_file.write(place / "model.safetensors", {"embedding.weight": rows}, {"format": "pt"})
        (place / "tokenizer.json").write_text(tokenizer, encoding="utf-8")


def read_static_embedding(place: Path) -> tuple[Pieces, FloatArray]:
    """The tokenizer and the vectors of its subwords; in model2vec, subwords may share a vector and have weights."""
    from polyseme.contexts.transformer.files.huggingface import read_weights
    from polyseme.contexts.transformer.tokenizer import Pieces

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


def _cutting(segmentation: Segmentation, words: list[str]) -> str:
    """How text can be cut like the model's: at ``spaces``, by ``unigram`` frequencies, or as ``english``."""
    if segmentation.method == "space":
        return "spaces"
    chinese = sum(map(has_han, words[:10_000])) > 0.2 * len(words[:10_000])
    cut = segmentation.method in ("jieba", "char") or (segmentation.method == "auto" and chinese)
    return "unigram" if cut else "english"


def unigram_tokenizer(words: list[str], counts: NDArray[np.int64], segmentation: Segmentation) -> str:
    """A tokenizer.json that cuts runs of Han characters into these words; the token 0 is all that is no word.

    Other words stand between two marks, so that no part of an unknown one is taken for a word.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    names = [word if _HAN_WORD.fullmatch(word) else f"{_MARK}{word}{_MARK}" for word in words]
    scores = np.log(np.maximum(counts, 1) / counts.sum()).tolist()
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), *zip(names, scores, strict=True)], unk_id=0))
    marks = [normalizers.Replace(Regex(f"(?:{_FOREIGN})\\K"), _MARK), normalizers.Replace(Regex(_BEGINS), _MARK)]
    tokenizer.normalizer = normalizers.Sequence([*_normalisers(segmentation), *marks])
    pieces = Regex(f"\\p{{Han}}+|{_MARK}[^\\s{_MARK}]+{_MARK}")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pieces, behavior="removed", invert=True)
    return str(tokenizer.to_str())


def _normalisers(segmentation: Segmentation) -> list[Any]:
    """The steps of our normalisation: NFKC that keeps the full-width signs of Chinese, and lower case."""
    from tokenizers import normalizers

    steps: list[Any] = []
    if segmentation.normalise == "nfkc":
        private = [(sign, chr(_PRIVATE + i)) for i, sign in enumerate(WIDE)]
        steps += [normalizers.Replace(sign, held) for sign, held in private]
        steps += [normalizers.NFKC(), *(normalizers.Replace(held, sign) for sign, held in private)]
    return steps + ([normalizers.Lowercase()] if segmentation.case == "lower" else [])


def _tokenizer(words: list[str], segmentation: Segmentation, spaced: bool) -> str:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    known = {f"{_MARK}{word}": number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=known, merges=[], ignore_merges=True))
    steps = _normalisers(segmentation)
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
