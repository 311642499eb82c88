"""Subwords learned from word frequencies 子词: byte-pair encoding (BPE).

Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units", ACL 2016: start from
characters and merge the most frequent pair of neighbours until the vocabulary has the wanted size. Pairs are merged
within words only; the last piece of a word ends in ``</w>``. The ``tokenizers`` library does the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from polyseme.errors import FormatError
from polyseme.text.spacing import join_words
from polyseme.text.strings import well_formed
from polyseme.text.tokenizer_files import check_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END = "</w>"
UNKNOWN = "<unk>"
AT_ONCE = 10_000  # words per line given to the trainer


class BytePairs:
    """A BPE tokenizer: the ordered merges and the pieces they produce."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        numbers = tokenizer.get_vocab()
        self.pieces = sorted((piece for piece in numbers if piece != UNKNOWN), key=lambda piece: numbers[piece])

    @classmethod
    def learn(cls, counted_words: Iterable[tuple[str, int]], *, size: int) -> BytePairs:
        """Learn about ``size`` pieces from words and their counts."""
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, end_of_word_suffix=END))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        trainer = trainers.BpeTrainer(
            vocab_size=size, special_tokens=[UNKNOWN], end_of_word_suffix=END, show_progress=False
        )
        tokenizer.train_from_iterator(_repeated(counted_words), trainer)
        return cls(tokenizer)

    @classmethod
    def from_json(cls, content: bytes) -> BytePairs:
        """Read what ``to_json`` returned."""
        from tokenizers import Tokenizer

        try:
            check_tokenizer(content)
            return cls(Tokenizer.from_str(content.decode("utf-8")))
        except Exception as error:  # the library raises plain Exceptions
            raise FormatError(f"the tokenizer cannot be read: {' '.join(str(error).split())[:200]}") from None

    def to_json(self) -> bytes:
        """The content of a tokenizer.json as the ``tokenizers`` library writes it."""
        return self._tokenizer.to_str().encode("utf-8")

    def cut(self, word: str) -> list[str]:
        """Split one word into pieces; unseen characters become the unknown piece."""
        tokens: list[str] = self._tokenizer.encode(well_formed(word)).tokens
        return tokens

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        """Join pieces into words, and words into text."""
        return join_words("".join(pieces).split(END))


def _repeated(counted_words: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Repeat each word as often as it occurs, in lines of bounded length."""
    for word, n in counted_words:
        clean = well_formed("".join(word.split()))
        while n > 0 and clean:
            yield " ".join([clean] * min(n, AT_ONCE))
            n -= AT_ONCE
