"""Pieces learned from the words of a corpus: WordPiece (BERT) or byte-pair encoding (GPT, XLM). 子词

Begin with characters, and join the most frequent pair of neighbours within words until there are as many pieces as
wanted. A Chinese character is a piece of its own, words are cut at spaces and punctuation, and pieces never reach over
that, so the pieces of a word are the same in the word alone and in running text, here and in ``transformers``. A piece
that continues with a word is marked ``##``, also in BPE: GPT's own mark, ``</w>``, would double the Chinese characters.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from polyseme.contexts.transformer.pieces import Pieces, readable
from polyseme.text.segment import Segmentation
from polyseme.text.vocabulary import Vocabulary

BERT_SPECIALS = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip
INSIDE = "##"
ALPHABET = 0.85  # of the pieces, at most so many are single characters
WORDS_COUNTED = 2_000_000  # more do not change which pieces are learned
AT_ONCE = 10_000
LONGEST_WORD = 100
# A character inside a word is another sign than at its beginning; while pieces are learned it is moved to a private
# plane. (The library can mark it too, but numbers the marked ones in random order, so that ties fall differently.)
_PLANE, _LAST = 0xF0000, 0xFFFD


def learn_wordpieces(words: Vocabulary, size: int, segmentation: Segmentation, *, limit: int) -> Pieces:
    """BERT's pieces, with [CLS] before and [SEP] after a text."""
    tokenizer = _tokenizer(segmentation)
    learned = _learn(tokenizer, words, size, list(BERT_SPECIALS.values()))
    tokenizer.model = models.WordPiece(learned.numbers, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD)
    tokenizer.add_special_tokens(list(BERT_SPECIALS.values()))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return Pieces(tokenizer, {**BERT_SPECIALS, "model_max_length": limit})


def learn_byte_pairs(
    words: Vocabulary, size: int, segmentation: Segmentation, specials: dict[str, str], *, single: str, pair: str,
    limit: int,
) -> Pieces:  # fmt: skip
    """Byte-pair pieces; ``single`` and ``pair`` say where special ones stand around one text ($A) and two ($A, $B)."""
    tokenizer, names = _tokenizer(segmentation), list(dict.fromkeys(specials.values()))
    learned = _learn(tokenizer, words, size, names)
    tokenizer.model = models.BPE(
        learned.numbers, learned.merges, unk_token=specials["unk_token"], continuing_subword_prefix=INSIDE
    )
    tokenizer.add_special_tokens(names)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(name, tokenizer.token_to_id(name)) for name in names]
    )
    return Pieces(tokenizer, {**specials, "model_max_length": limit})


class _Learned(NamedTuple):
    numbers: dict[str, int]
    merges: list[tuple[str, str]]


def _tokenizer(segmentation: Segmentation) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=segmentation.case == "lower"
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=INSIDE, cleanup=False)
    return tokenizer


def _learn(tokenizer: Tokenizer, words: Vocabulary, size: int, specials: list[str]) -> _Learned:
    counts = _parts(tokenizer, words)
    characters: Counter[str] = Counter()
    for part, n in counts.items():
        for character in part:
            characters[character] += n
    kept = sorted(characters, key=lambda character: (-characters[character], character))[: int(ALPHABET * size)]
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(
        _repeated(counts),
        trainers.BpeTrainer(
            vocab_size=max(size - len(specials), len(kept)), initial_alphabet=kept, limit_alphabet=len(kept),
            show_progress=False,
        ),
    )  # fmt: skip
    model = json.loads(learner.to_str())["model"]
    found = sorted(model["vocab"], key=model["vocab"].__getitem__)
    numbers = {name: number for number, name in enumerate([*specials, *map(_marked, found)])}
    return _Learned(numbers, [(_marked(first), _marked(second)) for first, second in model["merges"]])


def _parts(tokenizer: Tokenizer, words: Vocabulary) -> Counter[str]:
    """What the words are cut into at spaces and punctuation, and how often; characters inside moved to their plane."""
    counts: Counter[str] = Counter()
    for word, n in zip(words.words, words.counts.tolist(), strict=True):
        for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(readable(word))):
            if len(part) <= LONGEST_WORD and all(ord(character) <= _LAST for character in part[1:]):
                counts[part[0] + "".join([chr(_PLANE + ord(character)) for character in part[1:]])] += n
    return counts


def _marked(piece: str) -> str:
    """A learned piece as it is written: its characters moved back, and marked where it continues with a word."""
    plain = "".join(chr(ord(c) - _PLANE) if ord(c) >= _PLANE else c for c in piece)
    return INSIDE + plain if ord(piece[0]) >= _PLANE else plain


def _repeated(counts: Counter[str]) -> Iterator[str]:
    """Each part as often as it occurs, or in proportion to it, in lines of bounded length."""
    scale = max(sum(counts.values()) / WORDS_COUNTED, 1)
    for part, count in counts.items():
        n = max(round(count / scale), 1)
        while n > 0:
            yield " ".join([part] * min(n, AT_ONCE))
            n -= AT_ONCE
