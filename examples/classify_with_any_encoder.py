"""The same classifier over several encoders, or over none: `python examples/classify_with_any_encoder.py`."""

import random
import tempfile
from pathlib import Path

import polyseme

GOOD, BAD = ("干净", "安静", "热情", "方便"), ("脏", "吵", "冷淡", "麻烦")
PLACES = ("房间", "前台", "早餐", "位置", "电梯")
draw = random.Random(1)
rows = [(f"{draw.choice(PLACES)}很{draw.choice(GOOD)}，满意", "好") for _ in range(60)]
rows += [(f"{draw.choice(PLACES)}很{draw.choice(BAD)}，失望", "差") for _ in range(60)]
examples = polyseme.Examples.of(rows)
train, test = examples.split(0.25, seed=1)  # a quarter of every class

texts = polyseme.Corpus.from_sentences([text for text, _ in rows])
words = polyseme.train("svd", texts, dim=16, min_count=1)
tfidf = polyseme.train("tfidf", texts)

for name, encoder in {"none": None, "svd": words, "tfidf": tfidf}.items():
    head = "dan" if encoder is None else "linear"  # without an encoder, vectors of words are learned with the task
    small = {"hidden": 16, "dim": 16} if encoder is None else {}
    model = polyseme.fit("classify", train, encoder=encoder, head=head, epochs=20, lr=0.02, threads=1, seed=1, **small)
    report = model.score(test)
    print(name, {figure: round(value, 2) for figure, value in report.figures.items()})

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "reviews")
    for answer in polyseme.load(Path(folder) / "reviews").predict(["早餐很方便", "电梯很吵"]):
        print(answer.label, round(answer.probability, 2))
