"""Texts as subword ids (pieces: WordPiece, BPE, Unigram), and the subwords of each word.

A list of words is joined into a text, with a space between words but none next to a Chinese character. So a word has
the same subwords as in running text, and a subword that spans several words belongs to each of them.

The subwords of a word in running text 词在文中的子词: they can depend on what precedes the word.

Byte-level BPE and SentencePiece mark a space as part of the word after it: "terms" is ``terms`` at the beginning of a
text and ``Ġterms`` after a space; 技术 is ``▁技术`` at the beginning and ``技术`` after a Chinese character. So every
word has three forms, found by tokenising it alone, and behind a short prefix with and without a space.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as NormalizerSequence
from tokenizers.pre_tokenizers import BertPreTokenizer, PreTokenizer

from polyseme.contexts.transformer.offline import panics_as, reason
from polyseme.errors import FormatError
from polyseme.text.spacing import UNSPACED, is_unspaced
from polyseme.text.strings import well_formed
from polyseme.text.tokenizer_files import check_tokenizer

Ints = NDArray[np.int64]

SPECIALS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
_NOT_READ = "the tokenizer of the model cannot read a text: its tokenizer.json was altered"
_CUTTING_WORDS = ("RoFormerTokenizer", "RoFormerTokenizerFast")  # with jieba: words of the vocabulary are pieces
MOST_UNUSED = 1_000_000  # unused ids of a vocabulary
NO_LIMIT = 1_000_000  # a model_max_length beyond this means that none is known
_SPACE_BESIDE = re.compile(f"(?<=[{UNSPACED}]) | (?=[{UNSPACED}])")
_BARE = ("▁", "Ġ")  # the begin-of-word mark as a subword of its own


@dataclass(frozen=True)
class Cut:
    """The subwords of a text, without special tokens."""

    ids: Ints  # (n,)
    starts: Ints  # (n,) position of each subword in the text
    ends: Ints

    def words(self, spans: Sequence[tuple[int, int]], bare: frozenset[int]) -> Ints:
        """The start and end of each word among the subwords, ``(words, 2)``; equal for a word without subwords.

        ``spans`` are the positions of the words in the text. A begin-of-word mark (``bare``) before others is skipped.
        """
        bounds = np.array(spans, dtype=np.int64).reshape(-1, 2)
        first = np.searchsorted(self.ends, bounds[:, 0], side="right")
        last = np.maximum(np.searchsorted(self.starts, bounds[:, 1], side="left"), first)
        of_pieces = np.flatnonzero(last - first > 1)
        first[of_pieces] += np.isin(self.ids[first[of_pieces]], [*bare])
        return np.stack([first, last], axis=1)


@dataclass(frozen=True)
class PairCut:
    """Two texts as one input, with special tokens: one entry per subword, by the names of ``tokenizers``."""

    ids: list[int]
    type_ids: list[int]
    sequence_ids: list[int | None]  # 0 or 1, the text; None at special tokens
    special_tokens_mask: list[int]
    offsets: list[tuple[int, int]]


class Pieces:
    """A tokenizer and its special tokens."""

    def __init__(self, tokenizer: Tokenizer, settings: Mapping[str, Any]) -> None:
        """``settings`` are those of tokenizer_config.json: the special tokens and ``model_max_length``.

        Subwords from the number ``known_pieces`` on are merged into others, and unknown to the network themselves.
        """
        numbers = tokenizer.get_vocab(with_added_tokens=True).values()
        if (last := max(numbers, default=0)) > len(numbers) + MOST_UNUSED:
            raise ValueError(f"one of its {len(numbers):,} pieces has the number {last:,}")
        self.n_numbers = last + 1
        self.tokenizer = tokenizer
        self.cuts_words = settings.get("tokenizer_class") in _CUTTING_WORDS
        if self.cuts_words:
            from transformers.models.roformer.tokenization_utils import JiebaPreTokenizer

            self.tokenizer.pre_tokenizer = PreTokenizer.custom(JiebaPreTokenizer(tokenizer.get_vocab()))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.specials = {name: str(settings[name]) for name in SPECIALS if isinstance(settings.get(name), str)}
        said = settings.get("model_max_length")
        self.limit = int(said) if isinstance(said, (int, float)) and 0 < said < NO_LIMIT else 0
        most = settings.get("known_pieces")
        self.n_known = most if isinstance(most, int) and 0 < most < self.n_numbers else 0  # 0: all are known
        self.tokenizer.encode("☃ 𐍈 龘")  # raises if there is no unknown token
        around = self.tokenizer.encode("a")
        inner = [place for place, special in enumerate(around.special_tokens_mask) if not special] or [0]
        self.before: list[int] = around.ids[: inner[0]]
        self.behind: list[int] = around.ids[inner[-1] + 1 :]
        self.bare = frozenset(n for n in map(tokenizer.token_to_id, _BARE) if n is not None)

    @classmethod
    def read(cls, tokenizer: bytes, settings: bytes, *, where: object) -> Pieces:
        """Read from the bytes of tokenizer.json and tokenizer_config.json."""
        try:
            record = json.loads(settings)
            check_tokenizer(tokenizer)
            with panics_as(ValueError, "it was altered"):
                return cls(Tokenizer.from_buffer(tokenizer), record if isinstance(record, dict) else {})
        except Exception as error:  # the tokenizers library raises bare exceptions
            raise FormatError(f"{where} is not a tokenizer that can be read ({reason(error)})") from None

    def files(self) -> dict[str, bytes]:
        """The contents of tokenizer.json and tokenizer_config.json, which ``transformers`` can read too."""
        settings = {
            "tokenizer_class": _CUTTING_WORDS[0] if self.cuts_words else "PreTrainedTokenizerFast",
            **self.specials,
            **({"model_max_length": self.limit} if self.limit else {}),
            **({"known_pieces": self.n_known} if self.n_known else {}),
        }
        return {
            "tokenizer.json": self._written().encode(),
            "tokenizer_config.json": json.dumps(settings, ensure_ascii=False, indent=2).encode(),
        }

    def _written(self) -> str:
        """The tokenizer as JSON, where the segmenter, which is Python, is only known by the name of the class."""
        if not self.cuts_words:
            return str(self.tokenizer.to_str())
        cutting, self.tokenizer.pre_tokenizer = self.tokenizer.pre_tokenizer, BertPreTokenizer()
        try:
            return str(self.tokenizer.to_str())
        finally:
            self.tokenizer.pre_tokenizer = cutting

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size(with_added_tokens=True))

    def id_of(self, special: str) -> int | None:
        """The id of a special token (``mask``, ``pad`` …); None if there is none."""
        name = self.specials.get(f"{special}_token")
        number: int | None = None if name is None else self.tokenizer.token_to_id(name)
        return number

    @cached_property
    def lowered(self) -> Pieces:
        """A tokenizer that reads texts in lower case. Special tokens in a text remain what they are."""
        files = self.files()
        tokenizer = Tokenizer.from_buffer(files["tokenizer.json"])
        normaliser = tokenizer.normalizer
        tokenizer.normalizer = NormalizerSequence([Lowercase(), *([] if normaliser is None else [normaliser])])
        return Pieces(tokenizer, json.loads(files["tokenizer_config.json"]))

    @cached_property
    def marks(self) -> tuple[int, int, int] | None:
        """Ids of the start, delimiter and end tokens of GPT's task inputs; None if there is no end token."""
        end = self.id_of("eos")
        if end is None:
            return None
        start, delimiter = self.id_of("bos"), self.id_of("sep")
        return end if start is None else start, end if delimiter is None else delimiter, end

    @cached_property
    def ordinary(self) -> Ints:
        """The ids of all subwords but special tokens."""
        special = [self.id_of(name.removesuffix("_token")) for name in self.specials]
        return np.setdiff1d(np.arange(len(self.names)), np.array([n for n in special if n is not None], dtype=np.int64))

    @cached_property
    def names(self) -> list[str]:
        """The subwords as written in the vocabulary, by id."""
        numbers = self.tokenizer.get_vocab(with_added_tokens=True)
        names = [""] * (max(numbers.values(), default=-1) + 1)
        for name, number in numbers.items():
            names[number] = name
        return names[: self.n_known or None]

    def cut(self, texts: Sequence[str]) -> list[Cut]:
        """The subwords of each text and their positions in it."""
        with panics_as(FormatError, _NOT_READ):
            encodings: list[Encoding] = self.tokenizer.encode_batch(
                list(map(well_formed, texts)), add_special_tokens=False
            )
        return [self._cut(encoding) for encoding in encodings]

    def ids(self, texts: Sequence[str]) -> list[Ints]:
        """The subword ids of each text, without positions, which is faster."""
        with panics_as(FormatError, _NOT_READ):
            encodings = self.tokenizer.encode_batch_fast(list(map(well_formed, texts)), add_special_tokens=False)
        return [self._known(encoding.ids) for encoding in encodings]

    def between_masks(self, parts: Sequence[str]) -> list[Ints]:
        """The subword ids of the parts of a text between its masks.

        The tokenizer sees the text with its own masks, which may belong to the space before them.
        """
        mask = self.id_of("mask")
        if mask is not None:
            ids = self.ids([self.specials["mask_token"].join(parts)])[0]
            places = np.flatnonzero(ids == mask)
            if len(places) == len(parts) - 1:
                return [part[number > 0 :] for number, part in enumerate(np.split(ids, places))]
        return self.ids(parts)

    def spelt(self, ids: Sequence[int]) -> str:
        """Subwords as text, without special tokens."""
        text = str(self.tokenizer.decode(list(ids), skip_special_tokens=True)).strip()
        return _SPACE_BESIDE.sub("", text).removeprefix("##")

    def pair(self, first: str, second: str) -> tuple[Ints, Ints]:
        """Two texts as one input with special tokens: the ids, and the token types 0 and 1 of the texts."""
        pair_cut = self.encoded_pair(first, second)
        return np.array(pair_cut.ids, dtype=np.int64), np.array(pair_cut.type_ids, dtype=np.int64)

    def encoded_pair(self, first: str, second: str) -> PairCut:
        """Two texts as one input, with all that the tokenizer tells."""
        with panics_as(FormatError, _NOT_READ):
            encoding: Encoding = self.tokenizer.encode(well_formed(first), well_formed(second))
        ids: list[int] = self._known(encoding.ids).tolist()
        return PairCut(ids, encoding.type_ids, encoding.sequence_ids, encoding.special_tokens_mask, encoding.offsets)

    def _cut(self, encoding: Encoding) -> Cut:
        offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        return Cut(self._known(encoding.ids), offsets[:, 0], offsets[:, 1])

    def _known(self, ids: Sequence[int]) -> Ints:
        """The ids, with the unknown token in place of subwords that the network does not know."""
        numbers = np.array(ids, dtype=np.int64)
        return np.where(numbers < self.n_known, numbers, self.id_of("unk") or 0) if self.n_known else numbers


FIRST, SPACED, ATTACHED = range(3)  # at the beginning of a text, after a space, directly after another word
# Several prefixes, since a tokenizer may not know one, or merge it with the word (的 + 人).
_BEFORE_SPACE = ("a", "the", "1")
_BEFORE_WORD = ("的", "。", "(", "a")
_CLOSING = frozenset(",.;:!?%)]}’”…")  # no space before these
_OPENING = frozenset("([{‘“$£€#")  # no space after these


def word_forms(words: Sequence[str], pieces: Pieces) -> tuple[list[Ints], list[Ints], list[Ints]]:
    """The subwords of each word: first in a text, after a space, and directly after another word."""
    first = pieces.ids(words)
    return first, _behind(_BEFORE_SPACE, " ", words, first, pieces), _behind(_BEFORE_WORD, "", words, first, pieces)


def attachments(words: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which words have no space before them, and which have none after them, wherever they are."""
    before = [is_unspaced(word[:1]) or word[:1] in _CLOSING for word in words]
    after = [is_unspaced(word[-1:]) or word[-1:] in _OPENING for word in words]
    return np.array(before, dtype=bool), np.array(after, dtype=bool)


def _behind(prefixes: Sequence[str], gap: str, words: Sequence[str], first: list[Ints], pieces: Pieces) -> list[Ints]:
    """The subwords of each word behind the first prefix that keeps its own subwords there; else those in ``first``."""
    ids_of, missing, unknown = list(first), list(range(len(words))), pieces.id_of("unk")
    for prefix in prefixes:
        prefix_ids = pieces.ids([prefix])[0].tolist()
        if not prefix_ids or unknown in prefix_ids:
            continue
        together = pieces.ids([prefix + gap + words[place] for place in missing])
        kept = [ids[: len(prefix_ids)].tolist() == prefix_ids for ids in together]
        for place, ids, separate in zip(missing, together, kept, strict=True):
            if separate:
                ids_of[place] = ids[len(prefix_ids) :]
        missing = [place for place, separate in zip(missing, kept, strict=True) if not separate]
        if not missing:
            break
    return ids_of
