"""Your own word method, with every query there is: `python examples/own_word_method.py`.

Random indexing 随机索引 (Kanerva et al. 2000): each word has a random vector of few ±1; a word's vector is the
sum of those around its occurrences. What makes a method trainable by name is in CONTRIBUTING.md, "Adding a method".
"""

import tempfile
from pathlib import Path

import numpy as np

import polyseme
from polyseme.store.model import About
from polyseme.words.vectors import WordVectors


def random_indexing(corpus, dim=300, window=2, filled=6, seed=1):
    """Word vectors of a corpus."""
    words = corpus.vocabulary
    draw = np.random.default_rng(seed)
    labels = np.zeros((len(words), dim), dtype=np.float32)
    for row in labels:
        row[draw.choice(dim, filled, replace=False)] = draw.choice([-1, 1], filled)
    vectors = np.zeros_like(labels)
    for sentence in corpus:
        ids = words.ids(sentence)  # -1: not in the vocabulary
        for apart in range(1, window + 1):
            left, right = ids[:-apart], ids[apart:]
            known = (left >= 0) & (right >= 0)
            np.add.at(vectors, left[known], labels[right[known]])
            np.add.at(vectors, right[known], labels[left[known]])
    return WordVectors(words, vectors, about=About(corpus.segmentation, corpus.facts))


corpus = polyseme.Corpus.from_sentences(["猫 在 跑", "狗 在 跑", "我 吃 米饭", "你 吃 面条"] * 9, segment="space")
wv = random_indexing(corpus)
print(wv.most_similar("猫", topn=2), wv.tokenize("我 吃 面条"))
with tempfile.TemporaryDirectory() as folder:  # saved like any model; `polyseme neighbours`, `serve` … read it
    wv.save(Path(folder) / "words")
    print(round(polyseme.load(Path(folder) / "words").similarity("米饭", "面条"), 2))
