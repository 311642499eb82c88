"""The input units of a biLM: a word as bytes, as characters, as a word id, or as characters and a word id.

The ids of the three embedding tables, each with its special entries at the end:

    bytes       0–255 the byte, then begin/end of sentence (256, 257), begin/end of word (258, 259), padding (260)
    characters  0…n-1 the character, n unknown, then begin/end of sentence, begin/end of word, padding
    words       0…n-1 the word, n unknown, n+1 begin of sentence, n+2 end of sentence
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.elmo.options import BiLMShape

BYTE_ROWS = 261
CHARACTER_SPECIALS = 6
WORD_SPECIALS = 3


@dataclass
class Alphabet:
    """Turns words into ids. ``bos`` and ``eos`` are the tokens that stand for the sentence boundaries."""

    kind: str  # bytes | chars | words | chars+words
    max_characters: int = 50
    characters: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    bos: str = "<bos>"
    eos: str = "<eos>"
    # Whether a word that is too long is truncated before its word id is looked up, as in ELMoForManyLangs.
    look_up_cut: bool = False

    @property
    def spells(self) -> bool:
        """Whether words are read by their characters."""
        return self.kind != "words"

    @property
    def names(self) -> bool:
        """Whether words are read by their word ids."""
        return self.kind in ("words", "chars+words")

    @property
    def n_characters(self) -> int:
        """Number of rows of the character table."""
        if not self.spells:
            return 0
        return BYTE_ROWS if self.kind == "bytes" else len(self.characters) + CHARACTER_SPECIALS

    @property
    def n_words(self) -> int:
        """Number of rows of the word table."""
        return len(self.words) + WORD_SPECIALS if self.names else 0

    @property
    def padding(self) -> int:
        """The character id of padding."""
        return self.n_characters - 1

    @cached_property
    def _letter(self) -> dict[str, int]:
        return {character: i for i, character in enumerate(self.characters)}

    @cached_property
    def _word(self) -> dict[str, int]:
        return dict(zip(self.words, range(len(self.words)), strict=True))

    def spell(self, word: str) -> list[int]:
        """Character ids of a word between its boundary marks, at most ``max_characters`` ids."""
        bow, eow = self.n_characters - 3, self.n_characters - 2
        room = self.max_characters - 2
        if word == self.bos:
            letters = [self.n_characters - 5]
        elif word == self.eos:
            letters = [self.n_characters - 4]
        elif self.kind == "bytes":
            letters = list(word.encode("utf-8", "ignore")[:room])
        else:
            unknown = len(self.characters)
            letters = [self._letter.get(character, unknown) for character in word[:room]]
        return [bow, *letters, eow]

    def spell_all(self, words: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Character ids of the words, padded to the longest ``(W, C)``, and their lengths ``(W,)``."""
        spelt = [self.spell(word) for word in words]
        lengths = np.array([len(ids) for ids in spelt], dtype=np.int64)
        table = np.full((len(spelt), int(lengths.max(initial=0))), self.padding, dtype=np.int64)
        for row, ids in zip(table, spelt, strict=True):
            row[: len(ids)] = ids
        return table, lengths

    def name_all(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Word ids ``(W,)``; unknown words get ``len(self.words)``."""
        unknown = len(self.words)
        special = {self.bos: unknown + 1, self.eos: unknown + 2}
        if self.look_up_cut:
            words = [word[: self.max_characters - 2] for word in words]
        return np.array([special.get(w, self._word.get(w, unknown)) for w in words], dtype=np.int64)


def make_alphabet(options: BiLMShape, *, characters: list[str], words: list[str]) -> Alphabet:
    """The alphabet that these options describe, with these characters and words."""
    kind = options.value("alphabet")
    marks = ("<S>", "</S>") if kind == "bytes" or options.conventions == "bilm-tf" else ("<bos>", "<eos>")
    return Alphabet(
        kind,
        options.value("max_characters"),
        characters if kind in ("chars", "chars+words") else [],
        words if kind in ("words", "chars+words") else [],
        *marks,
        look_up_cut=options.conventions == "manylangs",
    )
