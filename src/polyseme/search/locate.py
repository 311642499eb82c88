"""Which token of a sentence is meant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice

from polyseme.errors import OptionError
from polyseme.interfaces import ContextEncoder, Sentence

_MOST_CUTS = 32  # places that are tried: each costs a segmentation of the whole text


def locate(
    sentence: Sentence, position: int | None, word: str | None, encoder: ContextEncoder, share: Callable[[str], float]
) -> tuple[list[str], int]:
    """The sentence's tokens and the place among them of the word that is meant.

    A word that the segmentation would not cut out of raw text is cut out all the same: the text before it and the text
    after it are segmented apart. Where that can be done in several places, the cut into likelier words is taken, by the
    ``share`` of a text that each has: 里 of 从这里到那里有三十里 is the last one where 这里 and 那里 are words.
    """
    tokens = encoder.tokenize(sentence) if isinstance(sentence, str) else list(sentence)
    if position is not None:
        if not -len(tokens) <= position < len(tokens):
            raise OptionError(f"the sentence has {len(tokens)} tokens ({' '.join(tokens)}), no position {position}")
        place = position % len(tokens)
        if word is not None and tokens[place] != word:
            raise OptionError(f"token {position} is {tokens[place]!r}, not {word!r} ({' '.join(tokens)})")
        return tokens, place
    if word is None:
        if len(tokens) != 1:
            raise OptionError(f"which word is meant? give word or position ({' '.join(tokens)})")
        return tokens, 0
    if word in tokens:
        return tokens, tokens.index(word)
    if isinstance(sentence, str) and word and word in sentence:
        cuts = [_cut_out(sentence, begin, word, encoder) for begin in islice(_occurrences(sentence, word), _MOST_CUTS)]
        return max(cuts, key=lambda cut: sum(math.log(share(token)) for token in cut[0]))
    raise OptionError(f"{word!r} is not in the sentence ({' '.join(tokens)})")


def _occurrences(text: str, word: str) -> Iterator[int]:
    begin = text.find(word)
    while begin >= 0:
        yield begin
        begin = text.find(word, begin + len(word))


def _cut_out(text: str, begin: int, word: str, encoder: ContextEncoder) -> tuple[list[str], int]:
    before = encoder.tokenize(text[:begin]) if begin else []
    return [*before, word, *encoder.tokenize(text[begin + len(word) :])], len(before)
