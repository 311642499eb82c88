"""The subwords of a word in running text 词在文中的子词: they can depend on what precedes the word.

Byte-level BPE and SentencePiece mark a space as part of the word after it: "terms" is ``terms`` at the beginning of a
text and ``Ġterms`` after a space; 技术 is ``▁技术`` at the beginning and ``技术`` after a Chinese character. So every
word has three forms, found by tokenising it alone, and behind a short prefix with and without a space.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polyseme.contexts.transformer.tokenizer import Ints, Pieces
from polyseme.text.spacing import is_unspaced

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
    found, missing, unknown = list(first), list(range(len(words))), pieces.id_of("unk")
    for prefix in prefixes:
        own = pieces.ids([prefix])[0].tolist()
        if not own or unknown in own:
            continue
        together = pieces.ids([prefix + gap + words[place] for place in missing])
        kept = [ids[: len(own)].tolist() == own for ids in together]
        for place, ids, separate in zip(missing, together, kept, strict=True):
            if separate:
                found[place] = ids[len(own) :]
        missing = [place for place, separate in zip(missing, kept, strict=True) if not separate]
        if not missing:
            break
    return found
