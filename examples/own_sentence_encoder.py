"""Your own sentence encoder, in tasks and in search: `python examples/own_sentence_encoder.py`.

A subclass of `SentenceEncoder` says its `dim` and encodes a batch; `encode`, `similarity`, tasks, indexes come with it.
"""

import zlib
from itertools import pairwise

import numpy as np

import polyseme
from polyseme.interfaces import SentenceEncoder
from polyseme.search import TextIndex


class HashedCharacters(SentenceEncoder):
    """Counts of the pairs of characters of a text, hashed into ``dim`` places."""

    def __init__(self, dim=256):
        self.dim = dim

    def encode_batch(self, texts):
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            text = text if isinstance(text, str) else "".join(text)  # a text may come as a list of words
            for pair in pairwise(text):
                row[zlib.crc32("".join(pair).encode()) % self.dim] += 1
        return vectors


encoder = HashedCharacters()
print(encoder.similarity(["房间很干净"], ["房间干净", "早餐难吃"]).round(2))

reviews = [("房间很干净", "好"), ("服务很好", "好"), ("早餐难吃", "差"), ("房间很吵", "差")] * 8
model = polyseme.fit("classify", polyseme.Examples.of(reviews), encoder=encoder, head="linear", epochs=20, lr=0.02)
print([answer.label for answer in model.predict(["房间干净", "早餐很难吃"])])

notes = polyseme.Corpus.from_sentences(["早餐很难吃。", "房间很大。", "前台热情。"])
index = TextIndex.build(encoder, notes)  # or the path of a file
print(index.search("早餐难吃吗", k=1))
