"""fastText files: bytes set by hand, models that fastText itself trains and quantises, and what we write read by it."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyseme
from polyseme.errors import FormatError, UnknownWord
from polyseme.words.character_ngrams import ngram_hash, ngrams
from polyseme.words.files import fasttext as fasttext_format
from polyseme.words.files.models import PublishedFastText, save_vectors_as

UNSEEN = ["neverseen", "北京大学堂", "x", "</s>", "naïve", "a b"]


def test_the_hash_is_fnv1a() -> None:
    """Published values of the 32-bit hash; fastText differs from it for bytes above 127 only."""
    assert ngram_hash(b"") == 0x811C9DC5
    assert ngram_hash(b"a") == 0xE40C292C
    assert ngram_hash(b"foobar") == 0xBF9CF968
    assert ngram_hash(b"\xe5") == ((0x811C9DC5 ^ 0xFFFFFFE5) * 0x01000193) % 2**32


def test_ngrams_are_those_of_the_paper() -> None:
    assert list(ngrams("where", 3, 3)) == [b"<wh", b"whe", b"her", b"ere", b"re>"]
    assert [g.decode() for g in ngrams("北京", 1, 2)] == ["<北", "北", "北京", "京", "京>"]


def by_hand(magic: bool) -> tuple[bytes, np.ndarray]:
    """A file with the words </s> and ab, n-grams of 2 characters and 4 buckets, and the expected vectors."""
    own, buckets = np.array([[1, 2], [3, 4]], "<f4"), np.arange(8, dtype="<f4").reshape(4, 2) * 10
    head = struct.pack("<2i", 793712314, 12) if magic else b""
    settings = struct.pack("<12id", 2, 5, 5, 1, 5, 1, 2, 2, 4, 2, 2, 100, 1e-4)
    sizes = struct.pack("<3iq", 2, 2, 0, 77) + (struct.pack("<q", -1) if magic else b"")
    entries = b"</s>\x00" + struct.pack("<qb", 9, 0) + b"ab\x00" + struct.pack("<qb", 5, 0)
    flag = b"\x00" if magic else b""
    matrices = flag + struct.pack("<2q", 6, 2) + own.tobytes() + buckets.tobytes()
    output = flag + struct.pack("<2q", 2, 2) + bytes(16)

    def composed(row: np.ndarray, word: str) -> np.ndarray:
        text = f"<{word}>".encode()
        rows = [buckets[ngram_hash(text[i : i + 2]) % 4] for i in range(len(text) - 1)]
        return np.mean([row, *rows], axis=0)

    end = own[0] if magic else composed(own[0], "</s>")
    return head + settings + sizes + entries + matrices + output, np.array([end, composed(own[1], "ab")])


@pytest.mark.parametrize("magic", [True, False], ids=["version 12", "before version 11"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_set_by_hand(magic: bool, pack: Any, tmp_path: Path) -> None:
    content, vectors = by_hand(magic)
    (tmp_path / "m.bin").write_bytes(pack(content))
    model = polyseme.load(tmp_path / "m.bin")
    assert model.index_to_key == ["</s>", "ab"]
    assert model.vocabulary.counts.tolist() == [9, 5]
    assert model.about.corpus["tokens"] == 77
    np.testing.assert_allclose(model.vectors, vectors, rtol=1e-6)
    save_vectors_as(model, tmp_path / "again.bin", "fasttext")
    np.testing.assert_allclose(polyseme.load(tmp_path / "again.bin").vectors, vectors, rtol=1e-6)


@pytest.fixture(scope="module")
def fasttext() -> Any:
    module = pytest.importorskip("fasttext", reason="fasttext is not installed (extra: bench)")
    module.FastText.eprint = lambda *_: None
    return module


def reference(peer: Any, word: str) -> np.ndarray:
    """A word's vector from the peer's own n-grams and rows (get_word_vector of some builds scales to length one)."""
    rows = [peer.get_input_vector(int(i)) for i in peer.get_subwords(word)[1]]
    return np.mean(rows, axis=0) if rows else np.zeros(peer.get_dimension())


def agree(model: PublishedFastText, peer: Any) -> None:
    assert model.index_to_key == peer.get_words()
    for word in model.index_to_key:
        np.testing.assert_allclose(model[word], reference(peer, word), atol=1e-6)
    for word in UNSEEN:
        expected = reference(peer, word)
        if word in model:
            np.testing.assert_allclose(model[word], expected, atol=1e-6)
        else:
            assert not expected.any()
            with pytest.raises(UnknownWord):
                model[word]


def text_of(path: Path, fifty_lines: list[str], n_labels: int = 0) -> str:
    lines = [" ".join(line.replace("，", " ").replace("打", " 打 ")) for line in fifty_lines]
    starts = [f"__label__甲{i % n_labels} " if n_labels else "" for i in range(len(lines))]
    path.write_text("".join(a + b + " tail of english words\n" for a, b in zip(starts, lines, strict=True)))
    return str(path)


@pytest.mark.parametrize(
    "options",
    [
        {"model": "skipgram", "minn": 2, "maxn": 4, "bucket": 300},
        {"model": "cbow", "loss": "hs", "minn": 1, "maxn": 1, "bucket": 50},
        {"model": "skipgram", "maxn": 0},
    ],
)
def test_models_that_fasttext_trains(
    fasttext: Any, fifty_lines: list[str], options: dict[str, Any], tmp_path: Path
) -> None:
    source = text_of(tmp_path / "text", fifty_lines)
    peer = fasttext.train_unsupervised(source, dim=7, epoch=1, minCount=1, thread=1, verbose=0, **options)
    peer.save_model(str(tmp_path / "m.bin"))
    model = polyseme.load(tmp_path / "m.bin")
    agree(model, peer)
    np.testing.assert_array_equal(model.output, peer.get_output_matrix())
    model.save(tmp_path / "folder")
    save_vectors_as(polyseme.load(tmp_path / "folder"), tmp_path / "again.bin", "fasttext")
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "m.bin").read_bytes()


@pytest.mark.parametrize(
    "quantise",
    [
        None,
        {"dsub": 2},
        {"dsub": 3, "qnorm": True},
        {"dsub": 2, "qnorm": True, "qout": True},
        {"dsub": 2, "cutoff": 400, "qnorm": True},
    ],
)
def test_supervised_and_quantised_models(
    fasttext: Any, fifty_lines: list[str], quantise: dict[str, Any] | None, tmp_path: Path
) -> None:
    # fastText quantises matrices of 256 rows or more: an output has a row for each label
    source = text_of(tmp_path / "text", fifty_lines * 6, n_labels=256 if quantise and "qout" in quantise else 3)
    peer = fasttext.train_supervised(source, dim=8, epoch=1, minn=1, maxn=3, bucket=600, thread=1, verbose=0)
    if quantise:
        peer.quantize(source, retrain=False, verbose=0, **quantise)
    name = tmp_path / ("m.ftz" if quantise else "m.bin")
    peer.save_model(str(name))
    model = polyseme.load(name)
    agree(model, peer)
    assert model.labels.words == peer.get_labels()
    assert (model.subwords.kept is not None) == bool(quantise and "cutoff" in quantise)
    model.save(tmp_path / "folder")
    agree(polyseme.load(tmp_path / "folder"), peer)
    if quantise and "cutoff" in quantise:
        with pytest.raises(FormatError, match=r"write \.vec"):
            save_vectors_as(model, tmp_path / "again.bin", "fasttext")
    else:
        save_vectors_as(model, tmp_path / "again.bin", "fasttext")
        again = fasttext.load_model(str(tmp_path / "again.bin"))
        agree(model, again)
        assert again.get_labels() == peer.get_labels()


@pytest.mark.parametrize("loss", ["negative", "hierarchical"])
def test_models_trained_here_are_read_by_fasttext(
    fasttext: Any, fifty_lines: list[str], loss: str, tmp_path: Path
) -> None:
    corpus = polyseme.Corpus.from_sentences(fifty_lines)
    model = polyseme.train("fasttext", corpus, dim=8, epochs=1, min_count=1, loss=loss, threads=1)
    save_vectors_as(model, tmp_path / "ours.bin", "fasttext")
    peer = fasttext.load_model(str(tmp_path / "ours.bin"))
    agree(model, peer)
    assert peer.f.getArgs().minn == model.options.minn


def test_plain_vectors_as_a_fasttext_model(fasttext: Any, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("北京 1 2 3\nab 4 5 6\n", encoding="utf-8")
    save_vectors_as(polyseme.load(tmp_path / "v.txt"), tmp_path / "v.bin", "fasttext")
    peer = fasttext.load_model(str(tmp_path / "v.bin"))
    assert peer.get_words() == ["北京", "ab"]
    np.testing.assert_array_equal(reference(peer, "北京"), [1, 2, 3])
    models = pytest.importorskip("gensim.models.fasttext")
    np.testing.assert_array_equal(models.load_facebook_vectors(str(tmp_path / "v.bin"))["ab"], [4, 5, 6])


def test_old_supervised_models_ignored_their_ngrams(tmp_path: Path) -> None:
    settings = fasttext_format.FastTextSettings(2, model=3, buckets=3, minn=1, maxn=2)
    model = fasttext_format.FastTextFile(
        settings, ["ab"], np.ones(1, np.int64), np.ones((1, 2), np.float32), np.ones((3, 2), np.float32) * 9,
        np.zeros((1, 2), np.float32), ["__label__x"], np.ones(1, np.int64),
    )  # fmt: skip
    fasttext_format.write(tmp_path / "m.bin", model)
    content = bytearray((tmp_path / "m.bin").read_bytes())
    assert polyseme.load(tmp_path / "m.bin")["ab"].tolist() != [1, 1]
    content[4:8] = struct.pack("<i", 11)
    (tmp_path / "m.bin").write_bytes(bytes(content))
    assert polyseme.load(tmp_path / "m.bin")["ab"].tolist() == [1, 1]
