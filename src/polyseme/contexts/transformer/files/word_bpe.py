"""BPE over words, as ``transformers`` has it in Python only: XLM, FlauBERT, BioGPT, PhoBERT, BERTweet and CTRL.

A word is cut into its characters, the last with ``</w>``, and these are merged in the order of the list of merges. The
vocabulary and the merges are read as data, and make an equal tokenizer of the library ``tokenizers``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

from polyseme.contexts.transformer.files.moses import ascii_punctuation, escaped, spaced, unescaped
from polyseme.contexts.transformer.library import reason
from polyseme.contexts.transformer.tokenizer import MOST_UNUSED, Pieces
from polyseme.disk.files import parsed_settings, read_settings, read_small
from polyseme.errors import FormatError

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
    found = {**specials, "model_max_length": settings.get("model_max_length"), "known_pieces": known}
    try:
        return Pieces(_built(kind, kind.normaliser(settings), numbers, merges, specials, added), found)
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
    own = {*specials.values()}
    made.add_tokens([AddedToken(name, normalized=False) for name in added if name not in own])
    made.add_special_tokens([AddedToken(name, normalized=False) for name in sorted(own)])
    return made


def _numbers(file: Path, kind: WordBpe, specials: Mapping[str, str]) -> dict[str, int]:
    """The number of each piece, from a JSON table or from lines of pieces and their counts."""
    if file.suffix == ".json":
        found = parsed_settings(_read(file), where=file)
        if not all(type(number) is int and 0 <= number <= len(found) + MOST_UNUSED for number in found.values()):
            raise FormatError(f"{file} is not a vocabulary: it has entries that are not numbers of pieces")
    else:
        found = {specials[f"{name}_token"]: n for n, name in enumerate(("bos", "pad", "eos", "unk"))}
        for name in _lines(file, "a piece and its count"):
            found.setdefault(" ".join(name[:-1]), len(found))
    return {_spelt(name, specials) if kind.marks_inside else name: number for name, number in found.items()}


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
    found = {_content(token): number for number, token in listed.items()} if isinstance(listed, dict) else {}
    if (folder / "added_tokens.json").is_file():
        found = {**read_settings(folder / "added_tokens.json"), **found}
    numbered = {name: str(number) for name, number in found.items() if name}
    return {name: int(number) for name, number in numbered.items() if number.isdecimal() and len(number) < 10}


def _content(token: Any) -> str:
    """A special token, given as text or as a table of its properties."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else ""
