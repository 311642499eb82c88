"""Models of tasks go to other processes and can be copied like their encoders."""

from __future__ import annotations

import copy
import pickle

import pytest

import polyseme
from polyseme.data.examples import Examples

from .conftest import reviews

ELMO = {"size": "tiny", "epochs": 1}
MADE_WITH = {
    "classify on ELMo": lambda: polyseme.fit("classify", Examples.of(reviews()), encoder=elmo(), epochs=1),
    "classify of its own": lambda: polyseme.fit("classify", Examples.of(reviews()), head="textcnn", epochs=1),
    "tag on ELMo": lambda: polyseme.fit("tag", tagged(), encoder=elmo(), epochs=1),
}


def elmo():
    return polyseme.train("elmo", polyseme.Corpus.from_sentences([text for text, _ in reviews()]), **ELMO)


def tagged():
    return Examples.of([(["房间", "很", word], ["O", "O", "B-ADJ"]) for word in ("干净", "吵闹", "舒服", "破旧") * 5])


@pytest.mark.parametrize("made", MADE_WITH.values(), ids=MADE_WITH)
def test_predictions_stay_the_same(made):
    model = made()
    given = [["房间", "很", "干净"]] if model.method == "tag" else [text for text, _ in reviews(5)]
    wanted = list(model.predict(given))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert list(other.predict(given)) == wanted
