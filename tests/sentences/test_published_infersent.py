"""InferSent's published files open, and give what a plain torch BiLSTM with a maximum gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import polyseme
from polyseme.errors import FormatError

WORDS = ["<s>", "</s>", "the", "cat", "sat", "<p>"]


class Authors(nn.Module):
    """The part of the authors' model that holds the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.enc_lstm = nn.LSTM(6, 5, 1, bidirectional=True)


@pytest.fixture
def vectors(tmp_path: Path) -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(len(WORDS), 6)).round(3).astype(np.float32)
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, rows, strict=True)]
    (tmp_path / "glove.txt").write_text("".join(lines), encoding="utf-8")
    return rows


def reference(authors: Authors, vectors: np.ndarray, words: list[str]) -> np.ndarray:
    """The authors' encoding of one sentence at a time, without padding."""
    x = torch.from_numpy(vectors[[WORDS.index(word) for word in words if word in WORDS]])[:, None]  # (T, 1, D)
    with torch.inference_mode():
        return authors.enc_lstm(x)[0].max(dim=0).values[0].numpy()


@pytest.mark.parametrize(("name", "legacy", "ends"), [
    ("infersent1.pkl", True, ("<s>", "</s>")), ("infersent2.pkl", False, ("<p>", "</p>")),
])  # fmt: skip
def test_both_versions_read_as_the_authors_do(
    name: str, legacy: bool, ends: tuple[str, str], tmp_path: Path, vectors: np.ndarray
) -> None:
    torch.manual_seed(0)
    authors = Authors()
    torch.save(authors.state_dict(), tmp_path / name, _use_new_zipfile_serialization=not legacy)
    texts = [["the", "cat", "sat"], ["the", "unseen", "cat"], ["sat"]]
    wanted = np.stack([reference(authors, vectors, [ends[0], *text, ends[1]]) for text in texts])
    for path in (tmp_path, tmp_path / name):
        encoder = polyseme.load(path)
        np.testing.assert_allclose(encoder.encode(texts), wanted, atol=1e-6)
        np.testing.assert_allclose(encoder.encode(["the cat sat"]), wanted[:1], atol=1e-6)
    encoder.save(tmp_path / "saved")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "saved").encode(texts), encoder.encode(texts))
    assert encoder.dim == 10


def test_an_encoder_is_found_below_the_classifier_it_was_trained_under(tmp_path: Path, vectors: np.ndarray) -> None:
    whole = nn.Module()
    whole.encoder, whole.classifier = Authors(), nn.Linear(40, 3)
    torch.save(whole.state_dict(), tmp_path / "nli.pkl")
    wanted = reference(whole.encoder, vectors, ["<s>", "cat", "</s>"])
    np.testing.assert_allclose(polyseme.load(tmp_path / "nli.pkl").encode(["cat"])[0], wanted, atol=1e-6)


def test_a_pickled_model_is_refused_in_one_line(tmp_path: Path, vectors: np.ndarray) -> None:
    torch.save(Authors(), tmp_path / "infersent.allnli.pickle")
    with pytest.raises(FormatError, match=r"could run code.*state_dict"):
        polyseme.load(tmp_path / "infersent.allnli.pickle")


def test_missing_and_unfit_vectors_are_told(tmp_path: Path) -> None:
    torch.save(Authors().state_dict(), tmp_path / "infersent1.pkl")
    with pytest.raises(FormatError, match="GloVe 840B"):
        polyseme.load(tmp_path / "infersent1.pkl")
    (tmp_path / "glove.txt").write_text("the 1 2 3\ncat 4 5 6\n", encoding="utf-8")
    with pytest.raises(FormatError, match="of dimension 6, but those next to it have 3"):
        polyseme.load(tmp_path / "infersent1.pkl")


@pytest.mark.parametrize("damage", ["weight_hh_l0", "bias_ih_l0_reverse"])
def test_weights_that_do_not_fit_are_told(damage: str, tmp_path: Path, vectors: np.ndarray) -> None:
    state = Authors().state_dict()
    state[f"enc_lstm.{damage}"] = state[f"enc_lstm.{damage}"][:3]
    torch.save(state, tmp_path / "infersent1.pkl")
    with pytest.raises(FormatError, match=damage):
        polyseme.load(tmp_path / "infersent1.pkl")
