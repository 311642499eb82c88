"""Moses tokenisation of English and French as a normalisation: spaces between words, punctuation and clitics.

The rules are those of the scripts for machine translation (Koehn et al., 2007) with which XLM, FlauBERT and BioGPT were
trained. They are replacements by regular expressions, which keep the position of every character. Two things differ:
the list of abbreviations is short, and tabs and line breaks separate words.
"""

from __future__ import annotations

from tokenizers import Regex, decoders
from tokenizers.decoders import Decoder
from tokenizers.normalizers import Normalizer, Replace, Sequence, Strip

# Han characters and Hangul syllables are words of their own; the signs of Indic scripts belong to words.
_LETTER = (
    r"[[\p{Alphabetic}\u093c\u094d\u09bc\u09cd\u0a3c\u0a4d\u0abc\u0acd\u0b3c\u0b4d\u0bcd\u0c4d\u0cbc\u0ccd\u0d4d\u0dca"
    r"\u0eba\u1039\u135f]&&[\u0000-\ufffd]&&[^\p{Han}\uac00-\ud7a3]]"
)
_NOT_LETTER = f"[^{_LETTER}]"
_NUMBER = r"[\p{N}&&[\u0000-\ufffd]]"
_INNER = rf"[{_LETTER}[\p{{Nd}}&&[\u0000-\ufffd]]]"
_SYMBOL = rf"[^{_INNER}\s.'`,\-]"
_ASCII = {  # what is written for these characters
    ",": "，、", '"': "“”„《》「」«»", ":": "∶：", "?": "？", "!": "！", "(": "（", ")": "）", ";": "；", "~": "～",
    "...": "…", "-": "━–", " - ": "—", "<": "〈", ">": "〉", "[": "【", "]": "】", "%": "％", ". ": "。．",
    **{str(n): chr(0xFF10 + n) for n in range(10)},
}  # fmt: skip
# Words that keep the period after them, and English words that keep it before a number.
_ABBREVIATIONS = {
    "en": "[A-Z] Mr Mrs Ms Dr Prof Rev Hon Sen Rep Gov Gen Col Lt Capt Maj Sgt Cpl Adm Brig St Sr Bros Messrs Mlle Mme "
    "vs v Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec",
    "fr": "[A-Zb-z] MM al apr art av cf chap éd env etc ex fig hab pp pl tél vol",
}
_BEFORE_NUMBERS = "No|Art|pp"
_ENTITIES = {
    "&": "&amp;", "|": "&#124;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;", "[": "&#91;", "]": "&#93;",
}  # fmt: skip
# An insertion at the very start of a text would make the positions wrong, so that patterns exclude it by (?!\A).
_HELD = "\ue000"  # in place of a character that is moved; the text has none, since private characters are removed


def ascii_punctuation(language: str) -> Normalizer:
    """Punctuation of every script written in ASCII, invisible characters removed, and quotes moved past commas."""
    steps = [
        Replace(Regex(r"[\t\n\v\f\r\u0085]"), " "),
        Replace(Regex(r"\p{C}"), ""),
        *(Replace(Regex(f"[{found}]"), plain) for plain, found in _ASCII.items()),
        Replace(Regex("[`’]"), "'"),
        Replace("''", ' " '),
        Replace(Regex("[´‘‚]"), "'"),
        Replace("''", '"'),
        Replace(Regex(r"(?<=\d)\u00a0(?=\d)"), "," if language == "fr" else "."),
        Strip(),
    ]
    if language == "fr":  # a," b → a", b and a." b → a". b
        steps += _swapped(',(?=")', r'\K"', ',"')
        steps += _swapped(r'(?<!\.)\.(?=\.*"[^<])', r'\.*\K"', '."')
    else:  # "a", b → "a," b
        steps += _swapped('"(?=,)', r",*\K,(?!,)", '",')
        steps += _swapped(r'"(?=\.)', r"\.*\K\.(?!\.)", '".')
    return Sequence(steps)


def spaced(language: str, *, hyphens: bool = False) -> Normalizer:
    """Spaces around everything that is a token of its own; with ``hyphens``, those inside words too, as ``@-@``."""
    letter, other, number = _LETTER, _NOT_LETTER, _NUMBER
    if language == "fr":  # l'homme → l' homme
        apostrophes = [
            Replace(Regex(f"(?<={other})'(?!\\z)|(?<!\\A)'(?={other})"), " ' "),
            Replace(Regex(f"(?<={letter}')(?<!{letter}'{letter}')(?={letter})"), " "),
        ]
    else:  # don't → don 't
        apostrophes = [
            Replace(Regex(f"(?<=[^{letter}{number}])'(?!\\z)|(?<!\\A)'(?={other})"), " ' "),
            Replace(Regex(f"(?<={letter})(?<!{letter}'{letter})(?='{letter})|(?<={number})(?='s)"), " "),
        ]
    numbered = rf"|(?:{_BEFORE_NUMBERS})\.\s+[0-9]" if language == "en" else ""
    kept = rf"(?!(?:{'|'.join(_ABBREVIATIONS[language].split())})\.(?!\S){numbered}|\.\.)"
    return Sequence(
        [
            Strip(),
            Replace(Regex(f"(?!\\A)(?:(?={_SYMBOL})|(?<={_SYMBOL}))"), " "),
            *([Replace(Regex(f"(?<={_INNER})-(?={_INNER})"), " @-@ ")] if hyphens else []),
            Replace(Regex(r"(?!\A)(?:(?<!\.)(?=\.\.)|(?<=\.\.)(?!\.))"), " "),
            Replace(Regex(f"(?<!{number}),|,(?!{number})"), " , "),
            *apostrophes,
            Replace(Regex(rf"(?<!\S){kept}(?:[^\s.]+|[^\s{letter}]+)\K(?=\.(?!\S)(?!\s+\p{{Lowercase}}))"), " "),
            Replace(Regex(r"(?!\A)(?=\.'\s*\z)"), " "),
            Replace(Regex(r"(?<=\.)(?='\s*\z)"), " "),
        ]
    )


def escaped() -> list[Normalizer]:
    """Characters that have a meaning in XML, as entities."""
    return [Replace(mark, entity) for mark, entity in _ENTITIES.items()]


def unescaped() -> list[Decoder]:
    """Entities and hyphens as they were."""
    return [decoders.Replace(entity, mark) for mark, entity in [("-", " @-@ "), *reversed(_ENTITIES.items())]]


def _swapped(first: str, second: str, marks: str) -> list[Normalizer]:
    """Two characters that change places, each replaced where it stands, so that the positions stay in order.

    ``second`` is looked for directly behind ``first``.
    """
    return [Replace(Regex(first), _HELD), Replace(Regex(_HELD + second), marks[0]), Replace(_HELD, marks[1])]
