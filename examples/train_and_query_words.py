"""Train word vectors on a text of your own and ask for neighbours: `python examples/train_and_query_words.py`."""

import random
import tempfile
from pathlib import Path

import polyseme

ANIMALS, FOODS = ("猫", "狗", "马", "羊"), ("米饭", "面条", "饺子", "馒头")
draw = random.Random(1)
lines = [f"我家的{draw.choice(ANIMALS)}在院子里跑。" for _ in range(200)]
lines += [f"中午我们吃了一碗{draw.choice(FOODS)}。" for _ in range(200)]

with tempfile.TemporaryDirectory() as folder:
    text = Path(folder) / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")

    corpus = polyseme.Corpus.build(text, segment="jieba", progress=polyseme.interfaces.silent)
    print(corpus.facts)  # tokens, sentences, documents, words

    wv = polyseme.train("word2vec", corpus, dim=20, window=3, min_count=5, epochs=20, threads=1, seed=1)
    print(wv.most_similar("猫", topn=3))  # other animals
    print(round(wv.similarity("猫", "狗"), 2), ">", round(wv.similarity("猫", "面条"), 2))

    wv.save(Path(folder) / "words")  # a folder; to the field's formats: polyseme convert
    again = polyseme.load(Path(folder) / "words", "words")
    print(again.doesnt_match(["猫", "狗", "米饭", "马"]))
