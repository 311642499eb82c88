"""Your own context encoder in an index of occurrences: `python examples/own_context_encoder.py`.

A subclass of `ContextEncoder` gives each word of a sentence a vector for each layer: enough for indexes, tasks, stacks.
"""

import tempfile
import zlib
from pathlib import Path

import numpy as np

import polyseme
from polyseme.interfaces import ContextEncoder, EncodedSentence, Layers
from polyseme.search import Index, build_index


class Neighbourhood(ContextEncoder):
    """A word's vector is made of the words beside it: random directions, one layer."""

    dim, n_layers = 64, 1

    def tokenize(self, text):
        return text.split()

    def encode_tokens(self, sentences, *, layers="all"):
        Layers.read(layers, self.n_layers)  # refuses a layer that does not exist
        for tokens in self.token_lists(sentences):
            seeds = [zlib.crc32(token.encode()) for token in ("", *tokens, "")]
            directions = np.array([np.random.default_rng(seed).normal(size=self.dim) for seed in seeds])
            around = directions[:-2] + directions[2:]  # (tokens, dim)
            yield EncodedSentence(tokens, around[None].astype(np.float32))


lines = ["他 给 我 打 电话 。", "他 去 学校 打 篮球 。", "我 给 他 打 电话 ！", "我们 去 学校 打 篮球 ！"] * 15
with tempfile.TemporaryDirectory() as folder:
    corpus = polyseme.Corpus.from_sentences(lines, Path(folder) / "corpus", segment="space")
    build_index(Neighbourhood(), corpus, Path(folder) / "index", progress=polyseme.interfaces.silent)
    index = Index.open(Path(folder) / "index", model=Neighbourhood())  # it has no folder of its own: given again
    print(index.senses("打"), index.same_sense("你 给 他 打 电话", word="打", topn=2))
print(polyseme.lift(Neighbourhood(), "sentences", pool="mean").encode(["他 打 电话"]).shape)
