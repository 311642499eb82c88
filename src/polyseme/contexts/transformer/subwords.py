"""Subwords 子词 learned from the words of a corpus: WordPiece (BERT) or byte-pair encoding (GPT, XLM).

Starting from characters, the most frequent pair of neighbours within words is merged until the vocabulary has the given
size. Each Chinese character is a subword. Words are split at spaces and punctuation, and no subword crosses them, so a
word has the same subwords alone and in running text, here and in ``transformers``. A subword inside a word is marked
with ``##``, also in BPE: the mark of GPT, ``</w>``, would give every Chinese character two entries.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from polyseme.contexts.transformer.tokenizer import Pieces
from polyseme.text.segment import Segmentation
from polyseme.text.strings import well_formed
from polyseme.text.vocabulary import Vocabulary

BERT_SPECIALS = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip
INSIDE = "##"
ALPHABET = 0.85  # largest share of single characters in the vocabulary
WORDS_COUNTED = 2_000_000  # more do not change which subwords are learned
AT_ONCE = 10_000
LONGEST_WORD = 100
# A character inside a word is another symbol than at its beginning: during learning it is moved to a private Unicode
# plane. (The library can mark it too, but numbers the marked ones in random order, so that ties break differently.)
_PLANE, _LAST = 0xF0000, 0xFFFD


def learn_wordpieces(words: Vocabulary, size: int, segmentation: Segmentation, *, limit: int) -> Pieces:
    """A WordPiece tokenizer as in BERT, with [CLS] before and [SEP] after a text."""
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
    """A BPE tokenizer; ``single`` and ``pair`` are templates of special tokens for one text ($A) and two ($A, $B)."""
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


class _LearnedSubwords(NamedTuple):
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


def _learn(tokenizer: Tokenizer, words: Vocabulary, size: int, specials: list[str]) -> _LearnedSubwords:
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
    by_number = sorted(model["vocab"], key=model["vocab"].__getitem__)
    numbers = {name: number for number, name in enumerate([*specials, *map(_marked, by_number)])}
    return _LearnedSubwords(numbers, [(_marked(first), _marked(second)) for first, second in model["merges"]])


def _parts(tokenizer: Tokenizer, words: Vocabulary) -> Counter[str]:
    """Counts of the parts of words between spaces and punctuation, with inner characters moved to the private plane."""
    counts: Counter[str] = Counter()
    for word, n in zip(words.words, words.counts.tolist(), strict=True):
        for part, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(well_formed(word))):
            if len(part) <= LONGEST_WORD and all(ord(character) <= _LAST for character in part[1:]):
                counts[part[0] + "".join([chr(_PLANE + ord(character)) for character in part[1:]])] += n
    return counts


def _marked(piece: str) -> str:
    """A learned subword in its final form: characters moved back, and marked with ## if it is inside a word."""
    plain = "".join(chr(ord(c) - _PLANE) if ord(c) >= _PLANE else c for c in piece)
    return INSIDE + plain if ord(piece[0]) >= _PLANE else plain


def _repeated(counts: Counter[str]) -> Iterator[str]:
    """Each part as often as it occurs (scaled down for a large text), in lines of bounded length."""
    scale = max(sum(counts.values()) / WORDS_COUNTED, 1)
    for part, count in counts.items():
        n = max(round(count / scale), 1)
        while n > 0:
            yield " ".join([part] * min(n, AT_ONCE))
            n -= AT_ONCE
