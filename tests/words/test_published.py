"""Published files open as gensim and fastText open them; everything else is refused in a line that says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyseme
from polyseme.errors import FormatError, OptionError
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.files.models import FORMATS, PublishedFastText, save_vectors_as
from polyseme.words.vectors import WordVectors

VECTORS = {  # file → how gensim has to be told to read it
    "gensim_test_data/word2vec_pre_kv_c": {},
    "gensim_test_data/euclidean_vectors.bin": {"binary": True},
    "gensim_test_data/poincare_vectors.bin": {"binary": True},
    "gensim_test_data/high_precision.kv.bin": {"binary": True},
    "gensim_test_data/high_precision.kv.txt": {},
    "gensim_test_data/test_glove.txt": {"no_header": True},
    "gensim_test_data/EN.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt": {},
    "gensim_test_data/IT.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt": {},
    "gensim_test_data/crime-and-punishment.vec": {},
    "gensim_test_data/lee_fasttext.vec": {},
    "gensim_test_data/pang_lee_polarity_fasttext.vec": {"unicode_errors": "surrogateescape"},
    "gensim_test_data/toy-model.vec": {},
    "gensim_test_data/w2v_keyedvectors_load_test.modeldata": {"unicode_errors": "surrogateescape"},
    "glove/glove.6B.50d.top20k.txt": {"no_header": True},
    "zh_word2vec/synonyms_top20k.bin": {"binary": True},
    "zh_word2vec/synonyms_top2k.txt": {},
    "bpemb/en.wiki.bpe.vs1000.d25.w2v.bin": {"binary": True},
}
FASTTEXT = {  # file → whether gensim gives </s> the n-grams that fastText denies it since version 11
    "cp852_fasttext": False,
    "non_ascii_fasttext": False,
    "lee_fasttext": False,
    "lee_fasttext_new": True,
    "crime-and-punishment": True,
    "toy-model": False,
    "toy-model-pretrained": False,
}
REFUSED = {
    "gensim_test_data/word2vec_3.3": "pickle",
    "gensim_test_data/ft_kv_3.6.0.model.gz": "pickle",
    "gensim_test_data/d2v-lee-v0.13.0": "pickle",
    "gensim_test_data/lee.cor": "plain text",
    "gensim_test_data/similarities0-1.txt": "plain text",
    "gensim_test_data/fb-ngrams.txt": "plain text",
    "gensim_test_data/w2v_keyedvectors_load_test.vocab": "plain text",
    "gensim_test_data/pretrained.vec": "truncated",
    "tencent_char/embedding_Tencent.npz": "zip archive",
    "hf_tiny/bert-tiny-zh/model.safetensors": "safetensors",
    "hf_tiny/bert-tiny-zh/pytorch_model.bin": "zip archive",
    "hf_tiny/bert-tiny-zh/config.json": "JSON",
}


def bytes_of(words: list[str]) -> list[bytes]:
    return [word.encode("utf-8", "surrogateescape") for word in words]


@pytest.mark.parametrize("name", VECTORS)
def test_vector_files_are_read_as_gensim_reads_them(name: str, shared_data: Path) -> None:
    models = pytest.importorskip("gensim.models", reason="gensim is not installed (extra: bench)")
    path = shared_data / "models" / name
    peer = models.KeyedVectors.load_word2vec_format(str(path), **VECTORS[name])
    ours = polyseme.load(path)
    np.testing.assert_array_equal(ours.vectors, peer.vectors)
    assert bytes_of(ours.index_to_key) == bytes_of(peer.index_to_key)


@pytest.mark.parametrize("name", FASTTEXT)
def test_fasttext_models_are_read_as_gensim_reads_them(name: str, shared_data: Path) -> None:
    models = pytest.importorskip("gensim.models.fasttext", reason="gensim is not installed (extra: bench)")
    path = shared_data / "models" / "gensim_test_data" / f"{name}.bin"
    encoding = "cp852" if name.startswith("cp852") else "utf-8"
    peer = models.load_facebook_vectors(str(path), encoding=encoding)
    ours = polyseme.load(path)
    assert [word.decode(encoding) for word in bytes_of(ours.index_to_key)] == peer.index_to_key
    np.testing.assert_array_equal(ours.subwords.own, peer.vectors_vocab)
    for row, word in enumerate(ours.index_to_key):
        if not (FASTTEXT[name] and word == "</s>") and encoding == "utf-8":
            np.testing.assert_allclose(ours.vectors[row], peer.vectors[row], atol=1e-6)
    for word in ("neverseen", "深度学习", "žluť"):
        np.testing.assert_allclose(ours[word], peer[word], atol=1e-6)


@pytest.mark.parametrize("name", ["crime-and-punishment", "lee_fasttext", "toy-model", "pang_lee_polarity_fasttext"])
def test_a_fasttext_model_has_the_vectors_of_the_vec_file_beside_it(name: str, shared_data: Path) -> None:
    folder = shared_data / "models" / "gensim_test_data"
    model, printed = polyseme.load(folder / f"{name}.bin"), polyseme.load(folder / f"{name}.vec")
    assert model.index_to_key == printed.index_to_key
    np.testing.assert_allclose(model.vectors, printed.vectors, rtol=1e-4, atol=1e-5)  # five digits are printed


def test_the_language_identifier_answers_as_fasttext(shared_data: Path) -> None:
    fasttext = pytest.importorskip("fasttext", reason="fasttext is not installed (extra: bench)")
    fasttext.FastText.eprint = lambda *_: None
    path = shared_data / "models" / "fasttext" / "lid.176.ftz"
    ours, peer = polyseme.load(path), fasttext.load_model(str(path))
    assert ours.index_to_key == peer.get_words()
    assert ours.labels.words == peer.get_labels()
    for word in [*ours.index_to_key[::50], "neverseen", "深度学习"]:
        rows = [peer.get_input_vector(int(i)) for i in peer.get_subwords(word)[1]]
        np.testing.assert_allclose(ours[word], np.mean(rows, axis=0), atol=1e-5)


@pytest.mark.parametrize("name", REFUSED)
def test_other_files_are_refused_by_name(name: str, shared_data: Path) -> None:
    with pytest.raises(FormatError, match=REFUSED[name]) as caught:
        polyseme.load(shared_data / "models" / name)
    assert "\n" not in str(caught.value)


@pytest.fixture
def vectors(tmp_path: Path) -> Any:
    (tmp_path / "v.vec").write_text("3 2\n猫 1 2.5\n狗 3 4\ncat -1 0.1\n", encoding="utf-8")
    return polyseme.load(tmp_path / "v.vec")


@pytest.mark.parametrize("form", ["polyseme", "word2vec-text", "word2vec-binary", "glove", "fasttext"])
def test_every_format_gives_the_vectors_back(form: str, vectors: Any, tmp_path: Path) -> None:
    save_vectors_as(vectors, tmp_path / "out", form)
    again = polyseme.load(tmp_path / "out")
    assert again.index_to_key == ["猫", "狗", "cat"]
    np.testing.assert_array_equal(again.vectors, np.array([[1, 2.5], [3, 4], [-1, 0.1]], np.float32))


def test_an_output_matrix_of_another_width_does_not_spoil_a_fasttext_file(tmp_path: Path) -> None:
    words = Vocabulary(["猫", "狗"], np.array([2, 1]))
    joined = WordVectors(words, np.ones((2, 6), np.float32), output=np.ones((2, 3), np.float32))
    save_vectors_as(joined, tmp_path / "v.bin", "fasttext")
    np.testing.assert_array_equal(polyseme.load(tmp_path / "v.bin").vectors, np.ones((2, 6)))


def test_a_folder_of_published_vectors_remembers_the_file(vectors: Any, tmp_path: Path) -> None:
    vectors.save(tmp_path / "m")
    assert polyseme.load(tmp_path / "m").options.source == "v.vec"
    assert "v.vec" in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")


def test_the_projector_gets_a_line_for_each_word(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes("4 2\n猫 1 2.5\na\u2028b 3 4\n\xa0 5 6\n".encode() + b"\xff 7 8\n")
    save_vectors_as(polyseme.load(tmp_path / "v"), tmp_path / "out", "projector")
    assert (tmp_path / "out" / "vectors.tsv").read_text().splitlines()[:2] == ["1.0\t2.5", "3.0\t4.0"]
    names = (tmp_path / "out" / "metadata.tsv").read_text(encoding="utf-8").splitlines()
    assert names[:3] == ["猫", "a b", "(blank)"]
    assert len(names) == 4


def test_a_format_that_does_not_exist_is_named(vectors: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="word2vec-text"):
        save_vectors_as(vectors, tmp_path / "x", "word2vec")
    assert set(FORMATS) == {"polyseme", "word2vec-text", "word2vec-binary", "glove", "fasttext", "projector"}


def test_an_altered_folder_of_a_fasttext_model_is_refused(shared_data: Path) -> None:
    model = polyseme.load(shared_data / "models" / "gensim_test_data" / "toy-model.bin")
    parts = model.parts()
    for name in ("vectors", "own", "buckets", "output", "label_counts", "counts"):
        for wrong in (None, np.ones((1, 1, 1), np.float32)):
            tensors = {**parts.tensors, name: wrong}
            broken = type(parts)({k: v for k, v in tensors.items() if v is not None}, parts.tables)
            with pytest.raises(FormatError):
                PublishedFastText.from_parts(model.options, broken, model.about)
