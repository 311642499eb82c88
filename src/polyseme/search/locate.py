"""Which token of a sentence is meant."""

from __future__ import annotations

from polyseme.errors import OptionError
from polyseme.types import ContextEncoder, Sentence


def locate(
    sentence: Sentence, position: int | None, word: str | None, encoder: ContextEncoder
) -> tuple[list[str], int]:
    """The sentence's tokens and the place among them of the word that is meant.

    A word that the segmentation would not cut out of raw text is cut out all the same: the text before it and the text
    after it are segmented apart.
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
    if isinstance(sentence, str) and word and (begin := sentence.find(word)) >= 0:
        before = encoder.tokenize(sentence[:begin]) if begin else []
        after = encoder.tokenize(sentence[begin + len(word) :])
        return [*before, word, *after], len(before)
    raise OptionError(f"{word!r} does not stand in the sentence ({' '.join(tokens)})")
