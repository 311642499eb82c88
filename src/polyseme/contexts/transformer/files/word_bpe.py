"""BPE over words, as ``transformers`` has it in Python only: XLM, FlauBERT, BioGPT, PhoBERT, BERTweet and CTRL.

A word is cut into its characters, the last with ``</w>``, and these are merged in the order of the list of merges. The
vocabulary and the merges are read as data, and make an equal tokenizer of the library ``tokenizers``.

Moses tokenisation of English and French as a normalisation: spaces between words, punctuation and clitics.

The rules are those of the scripts for machine translation (Koehn et al., 2007) with which XLM, FlauBERT and BioGPT were
trained. They are replacements by regular expressions, which keep the position of every character. Two things differ:
the list of abbreviations is short, and tabs and line breaks separate words.

The normalisation of a model's text as a normaliser of the library ``tokenizers``, for folders that others read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.decoders import Decoder
from tokenizers.models import BPE
from tokenizers.normalizers import NFKC, Lowercase, Normalizer, Replace, Sequence, Strip

from polyseme.contexts.transformer.offline import reason
from polyseme.contexts.transformer.tokenizer import MOST_UNUSED, Pieces
from polyseme.disk.files import parsed_settings, read_settings, read_small
from polyseme.errors import FormatError
from polyseme.text.normalise import INVISIBLE, SPACES, WIDE
from polyseme.text.segment import Segmentation

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
        *(Replace(Regex(f"[{variants}]"), plain) for plain, variants in _ASCII.items()),
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


_END = "</w>"  # of a word
_INSIDE = "@@"  # some vocabularies mark the pieces that do not end a word instead
_MOST_PADDING = 128  # rows of a network that stand for no piece


@dataclass(frozen=True)
class WordBpe:
    """How one class of tokenizers reads text."""

    files: tuple[str, str]  # the vocabulary and the merges
    specials: Mapping[str, str]
    template: tuple[str, str]  # of a text and of a pair, by the names of the special tokens
    normaliser: Callable[[Mapping[str, Any]], list[Any]] = lambda _: []
    marks_inside: bool = False
    decoder: tuple[Any, ...] = ()  # after the pieces are joined


def _xlm(settings: Mapping[str, Any]) -> list[Any]:
    steps = [ascii_punctuation("en"), spaced("en")]
    if settings.get("do_lowercase_and_remove_accent", True):
        steps += [normalizers.Lowercase(), normalizers.NFD(), normalizers.Replace(Regex(r"\p{Mn}"), "")]
    return steps


def _flaubert(settings: Mapping[str, Any]) -> list[Any]:
    steps = [normalizers.Replace(Regex("``|''"), '"'), normalizers.NFC()]
    if settings.get("do_lowercase"):
        steps.append(normalizers.Lowercase())
    return [*steps, ascii_punctuation("fr"), spaced("fr")]


def _biogpt(settings: Mapping[str, Any]) -> list[Any]:
    return [spaced("en", hyphens=True), *escaped()]


_JSON, _LIST = ("vocab.json", "merges.txt"), ("vocab.txt", "bpe.codes")
_XLM = {
    "unk_token": "<unk>", "bos_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "</s>",
    "mask_token": "<special1>",
}  # fmt: skip
_FAIRSEQ = {
    "bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "cls_token": "<s>",
    "sep_token": "</s>", "mask_token": "<mask>",
}  # fmt: skip
_BIOGPT = {name: _FAIRSEQ[name] for name in ("bos_token", "pad_token", "eos_token", "unk_token", "sep_token")}
_AROUND = ("bos $A sep", "bos $A sep $B sep")
_DICTIONARY = WordBpe(_LIST, _FAIRSEQ, ("cls $A sep", "cls $A sep sep $B sep"), marks_inside=True)
_KINDS = {
    "XLMTokenizer": WordBpe(_JSON, _XLM, _AROUND, _xlm),
    "FlaubertTokenizer": WordBpe(_JSON, _XLM, _AROUND, _flaubert),
    "BioGptTokenizer": WordBpe(_JSON, _BIOGPT, ("sep $A", "sep $A sep $B"), _biogpt, decoder=tuple(unescaped())),
    "PhobertTokenizer": _DICTIONARY,
    "BertweetTokenizer": _DICTIONARY,
    "CTRLTokenizer": WordBpe(_JSON, {"unk_token": "<unk>"}, ("$A", "$A $B"), marks_inside=True),
}
_BY_MODEL = {
    "xlm": "XLMTokenizer", "flaubert": "FlaubertTokenizer", "biogpt": "BioGptTokenizer", "ctrl": "CTRLTokenizer",
}  # fmt: skip


def word_bpe(folder: Path, settings: Mapping[str, Any], config: Any) -> WordBpe | None:
    """The kind of a folder's tokenizer; None if it is of another kind, or has a tokenizer.json instead of the files."""
    said = settings.get("tokenizer_class") or getattr(config, "tokenizer_class", None)
    named = str(said or _BY_MODEL.get(getattr(config, "model_type", ""), ""))
    kind = _KINDS.get(named.removesuffix("Fast"))
    if kind is None or all((folder / name).is_file() for name in kind.files):
        return kind
    return None if (folder / "tokenizer.json").is_file() else kind


def read_word_bpe(folder: Path, kind: WordBpe, settings: Mapping[str, Any], config: Any) -> Pieces:
    """The tokenizer in the files of a folder."""
    if (folder / "special_tokens_map.json").is_file():
        settings = {**read_settings(folder / "special_tokens_map.json"), **settings}
    if settings.get("normalization"):
        raise FormatError(
            f"{folder / 'tokenizer_config.json'} asks to normalise tweets, which is not done here: "
            'set "normalization" to false and give normalised texts'
        )
    specials = {name: _content(settings.get(name)) or usual for name, usual in kind.specials.items()}
    numbers = _numbers(folder / kind.files[0], kind, specials)
    added = _added(folder, settings)
    for name in (*added, *specials.values()):
        numbers.setdefault(name, added.get(name, len(numbers)))
    known = max(numbers.values()) + 1
    rows = getattr(config, "vocab_size", None) or 0
    if known + _MOST_PADDING < rows:
        raise FormatError(f"{folder / kind.files[0]} is truncated: {known:,} pieces of {rows:,}")
    merges = list(_merges(folder / kind.files[1]))
    # Pieces that are always merged further may be missing in the vocabulary: where one remains, it is unknown.
    between = {name for a, b in merges for name in (a, b, a + b)} - numbers.keys()
    numbers |= {name: known + n for n, name in enumerate(sorted(between))}
    piece_settings = {**specials, "model_max_length": settings.get("model_max_length"), "known_pieces": known}
    try:
        return Pieces(_built(kind, kind.normaliser(settings), numbers, merges, specials, added), piece_settings)
    except Exception as error:  # the tokenizers library raises bare exceptions
        raise FormatError(f"{folder} has a tokenizer that does not work ({reason(error)})") from None


def _built(
    kind: WordBpe, steps: list[Any], numbers: dict[str, int], merges: list[tuple[str, str]],
    specials: Mapping[str, str], added: Mapping[str, int],
) -> Tokenizer:  # fmt: skip
    made = Tokenizer(BPE(numbers, merges, unk_token=specials["unk_token"], end_of_word_suffix=_END))
    made.normalizer = normalizers.Sequence(steps)
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    single, pair = ([specials.get(f"{part}_token", part) for part in form.split()] for form in kind.template)
    around = [(name, numbers[name]) for name in sorted({*single, *pair} - {"$A", "$B"})]
    made.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=around)
    made.decoder = decoders.Sequence([decoders.BPEDecoder(suffix=_END), decoders.Fuse(), *kind.decoder])
    special_names = {*specials.values()}
    made.add_tokens([AddedToken(name, normalized=False) for name in added if name not in special_names])
    made.add_special_tokens([AddedToken(name, normalized=False) for name in sorted(special_names)])
    return made


def _numbers(file: Path, kind: WordBpe, specials: Mapping[str, str]) -> dict[str, int]:
    """The number of each piece, from a JSON table or from lines of pieces and their counts."""
    if file.suffix == ".json":
        listed = parsed_settings(_read(file), where=file)
        if not all(type(number) is int and 0 <= number <= len(listed) + MOST_UNUSED for number in listed.values()):
            raise FormatError(f"{file} is not a vocabulary: it has entries that are not numbers of pieces")
    else:
        listed = {specials[f"{name}_token"]: n for n, name in enumerate(("bos", "pad", "eos", "unk"))}
        for name in _lines(file, "a piece and its count"):
            listed.setdefault(" ".join(name[:-1]), len(listed))
    return {_spelt(name, specials) if kind.marks_inside else name: number for name, number in listed.items()}


def _spelt(name: str, specials: Mapping[str, str]) -> str:
    """A piece that is marked as inside of a word, or not, as one that is marked as the end of a word, or not."""
    if name in specials.values():
        return name
    return name.removesuffix(_INSIDE) if name.endswith(_INSIDE) and name != _INSIDE else name + _END


def _merges(file: Path) -> Iterator[tuple[str, str]]:
    """The pairs of pieces to merge, in order; what follows them in a line is their count."""
    for first, second, *_ in _lines(file, "two pieces"):
        if first != "#version:":
            yield first, second


def _lines(file: Path, what: str) -> Iterator[list[str]]:
    try:
        text = _read(file).decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{file} is not UTF-8 text") from None
    for number, line in enumerate(text.split("\n"), start=1):
        parts = line.split()
        if len(parts) > 1:
            yield parts
        elif parts:
            raise FormatError(f"{file} is truncated or altered: line {number:,} is not {what}")


def _read(file: Path) -> bytes:
    try:
        return read_small(file)
    except OSError as error:
        raise FormatError(f"{file} cannot be read: {error.strerror}") from None


def _added(folder: Path, settings: Mapping[str, Any]) -> dict[str, int]:
    """Tokens that were added to the vocabulary later, and their numbers."""
    listed = settings.get("added_tokens_decoder")
    number_of = {_content(token): number for number, token in listed.items()} if isinstance(listed, dict) else {}
    if (folder / "added_tokens.json").is_file():
        number_of = {**read_settings(folder / "added_tokens.json"), **number_of}
    numbered = {name: str(number) for name, number in number_of.items() if name}
    return {name: int(number) for name, number in numbered.items() if number.isdecimal() and len(number) < 10}


def _content(token: Any) -> str:
    """A special token, given as text or as a table of its properties."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else ""


# Full-width punctuation is held as these while NFKC runs: private characters, which it does not change.
_HELD_SIGNS = [chr(0x10FF00 + number) for number in range(len(WIDE))]
# Lowercase changes every character by itself, but a sigma at the end of a word is another one.
_CASED = r"[\p{Lu}\p{Ll}\p{Lt}]"
_FINAL_SIGMA = Regex(rf"(?<={_CASED})Σ(?![\p{{Mn}}\p{{Cf}}'.:·’]*{_CASED})")


def with_normalisation(tokenizer: bytes, segmentation: Segmentation) -> bytes:
    """A tokenizer.json that normalises text as ``segmentation`` does, except for its script, before all else."""
    steps = _form() if segmentation.normalise == "nfkc" else []
    if segmentation.case == "lower":
        steps += [Replace(_FINAL_SIGMA, "ς"), Lowercase()]
    if not steps:
        return tokenizer
    changed = Tokenizer.from_buffer(tokenizer)
    tokenizer_steps = [] if changed.normalizer is None else [changed.normalizer]
    changed.normalizer = Sequence([*steps, *tokenizer_steps])
    return str(changed.to_str()).encode()


def _form() -> list[Normalizer]:
    """NFKC as in ``polyseme.text.normalise``."""
    invisible = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in INVISIBLE)
    spaces = "".join(rf"\x{{{ord(space):x}}}" for space in SPACES)
    return [
        Replace(Regex(f"[{invisible}]"), ""),
        Replace(Regex(f"[{spaces}]"), " "),
        *(Replace(sign, held) for sign, held in zip(WIDE, _HELD_SIGNS, strict=True)),
        NFKC(),
        *(Replace(held, sign) for sign, held in zip(WIDE, _HELD_SIGNS, strict=True)),
    ]
