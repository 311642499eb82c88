"""Index every occurrence of every word and ask how a word is used: `python examples/index_and_uses.py`."""

import random
import tempfile
from pathlib import Path

import polyseme
from polyseme.search import Index, build_index

draw = random.Random(1)
PEOPLE, DAYS = ("小明", "老王", "姐姐", "弟弟"), ("今天", "昨天", "早上", "晚上")
CALLS = "{day} {who} 给 朋友 打 了 一个 电话 。"
GAMES = "{day} {who} 在 学校 打 篮球 ， 很 高兴 。"
sentences = [
    draw.choice((CALLS, GAMES)).format(day=draw.choice(DAYS), who=draw.choice(PEOPLE)).split() for _ in range(120)
]

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    corpus = polyseme.Corpus.from_sentences(sentences, folder / "corpus", segment="space")
    small = {"char_dim": 8, "filters": "1x16 2x16", "n_highway": 0, "hidden": 32, "projection": 16, "negative": 20}
    polyseme.train("elmo", corpus, out=folder / "elmo", epochs=20, min_count=1, threads=1, seed=1, **small)

    build_index(folder / "elmo", folder / "corpus", folder / "index")
    index = Index.open(folder / "index")
    uses = index.senses("打")
    print(uses)
    for use in uses.senses:
        print(f"{use.share:.0%}", use.substitutes[:3], use.typical[0])

    for hit in index.same_sense("晚上 姐姐 给 朋友 打 了 一个 电话 。", word="打", topn=3):
        print(hit)  # used as in this sentence, nearest first
