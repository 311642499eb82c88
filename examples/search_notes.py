"""Search one's own notes by meaning, by words, or by both: `python examples/search_notes.py`."""

import tempfile
from pathlib import Path

import polyseme
from polyseme.search import TextIndex

NOTES = """周一上午开会，讨论明年的预算。
给妈妈打电话，问她身体好不好。
买牛奶、鸡蛋和面包。
周末去爬山，早上六点出发。
服务器的内存不够，要换一台。
下个月的会议改到周三下午。
"""

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "notes.txt").write_text(NOTES * 2, encoding="utf-8")
    corpus = polyseme.Corpus.build(folder / "notes.txt", progress=polyseme.interfaces.silent)
    encoder = polyseme.train("lsa", corpus, dim=5)  # or any other model, polyseme.load("…")

    index = TextIndex.build(encoder, folder / "notes.txt", folder / "notes.texts")
    for how in ("vectors", "words", "both"):
        print(how, index.search("会议 预算", k=2, how=how))

    (folder / "more.txt").write_text("明天去超市买水果。\n", encoding="utf-8")
    index.append(folder / "more.txt")
    index.save(folder / "notes.texts")
    again = TextIndex.open(folder / "notes.texts", encoder)
    print(len(again), again.search("买水果", k=1, how="words"))
