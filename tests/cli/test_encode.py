"""``polyseme encode``: every format, from a file and from a pipe."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import h5py
import numpy as np
import pyarrow.parquet
import pytest
from tests.processes import run_command, run_program

import polyseme
from polyseme.cli.main import main
from polyseme.contexts.elmo.model import Elmo
from polyseme.contexts.elmo.options import ElmoOptions
from polyseme.encode_files import encode_file
from polyseme.errors import OptionError
from polyseme.text.corpus import Corpus
from polyseme.training.run import Run

LINES = ["小明 打 电话 给 朋友 。", "", "小明 喜欢 看 书 。", "小明 打 电话 给 朋友 。"]


def run(*arguments, stdin=b""):
    return run_command("encode", *arguments, stdin=stdin)


def call(*arguments, command="encode"):
    """Run the command in this process, where torch is already imported; return the exit code."""
    before, sys.argv = sys.argv, ["polyseme", command, *map(str, arguments)]
    try:
        main()
    except SystemExit as stop:
        return stop.code
    finally:
        sys.argv = before


@pytest.fixture(scope="module")
def folder(fifty_lines, tmp_path_factory):
    """A folder with a small model, and a text without a newline at its end."""
    folder = tmp_path_factory.mktemp("encode")
    options = ElmoOptions(size="tiny", epochs=1, min_count=1, threads=1)
    Elmo.train(Corpus.from_sentences(fifty_lines), options, Run()).save(folder / "m")
    (folder / "text.txt").write_bytes("\r\n".join(LINES).encode("gb18030"))
    return folder


@pytest.fixture(scope="module")
def wanted(folder):
    return [s.layers for s in polyseme.load(folder / "m").encode_tokens([line.split() for line in LINES])]


def encode(folder, out, *arguments):
    assert call(folder / "m", folder / "text.txt", "-o", folder / out, "--segment", "space", *arguments) == 0
    return folder / out


def test_hdf5_has_allennlp_s_layout(folder, wanted):
    with h5py.File(encode(folder, "a.hdf5")) as file:
        assert sorted(file) == ["0", "1", "2", "3", "sentence_to_index"]
        for number, layers in enumerate(wanted):
            np.testing.assert_allclose(file[str(number)][...], layers, atol=1e-6)
        assert file["sentence_to_index"].shape == (1,)
        assert json.loads(file["sentence_to_index"][0]) == {LINES[0]: "3", "": "1", LINES[2]: "2"}
    with h5py.File(encode(folder, "b.h5", "--layers", "top")) as file:
        np.testing.assert_allclose(file["2"][...], wanted[2][-1], atol=1e-6)


def test_npy_has_all_tokens_and_where_lines_begin(folder, wanted):
    whole = np.load(encode(folder, "a.npy"), mmap_mode="r")
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, np.concatenate(wanted, axis=1).transpose(1, 0, 2), atol=1e-6)
    assert np.load(folder / "a.offsets.npy").tolist() == [0, 6, 6, 11, 17]
    np.testing.assert_allclose(
        np.load(encode(folder, "b.npy", "--layers", "1")), np.concatenate(wanted, axis=1)[1], atol=1e-6
    )


def test_parquet_has_a_row_for_each_token(folder, wanted):
    table = pyarrow.parquet.read_table(encode(folder, "a.parquet"))
    assert table["line"].to_pylist() == [0] * 6 + [2] * 5 + [3] * 6
    assert table["token"].to_pylist() == [token for line in LINES for token in line.split()]
    assert table["position"].to_pylist()[:8] == [0, 1, 2, 3, 4, 5, 0, 1]
    for number in range(3):
        found = np.array(table[f"layer_{number}"].to_pylist())
        np.testing.assert_allclose(found, np.concatenate(wanted, axis=1)[number], atol=1e-6)


def test_jsonl_gives_float32_back_exactly(folder, wanted):
    first = encode(folder, "a.jsonl").read_text(encoding="utf-8").splitlines()
    with h5py.File(encode(folder, "c.h5")) as file:
        for number, line in enumerate(first):
            record = json.loads(line)
            assert record["tokens"] == LINES[number].split()
            np.testing.assert_array_equal(
                np.array(record["layers"], dtype=np.float32).reshape(wanted[number].shape), file[str(number)]
            )


def test_a_pipe_in_and_a_pipe_out(folder, wanted):
    text = "\n".join(LINES).encode()
    done = run(folder / "m", "-", "-o", "-", "--segment", "space", "--layers", "mean", stdin=text)
    found = [json.loads(line) for line in done.stdout.decode().splitlines()]
    np.testing.assert_allclose(found[2]["vectors"], wanted[2].mean(axis=0), atol=1e-6)
    done = run(folder / "m", "-o", "-", "--segment", "space", "--format", "npy", stdin=text)
    np.testing.assert_allclose(
        np.load(io.BytesIO(done.stdout)), np.concatenate(wanted, axis=1).transpose(1, 0, 2), atol=1e-6
    )


def test_json_lines_go_out_as_they_come_in(folder):
    (folder / "w.vec").write_text("2 2\n打 1 2\n书 3 4\n", encoding="utf-8")
    command = [sys.executable, "-m", "polyseme", "encode", "w.vec", "long.txt", "-o", "-", "--segment", "space"]
    (folder / "long.txt").write_text("打 书\n" * 200_000, encoding="utf-8")  # more than pipes and buffers hold
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline()) == {"tokens": ["打", "书"], "layers": [[[1, 2], [3, 4]]]}
        assert process.poll() is None
        process.stdout.close()  # as head -1 does
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


FULL_DISK = """
import resource
from polyseme.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
main()
"""


@pytest.mark.parametrize("suffix", ["h5", "npy", "jsonl"])
def test_a_full_disk_is_one_line_and_leaves_nothing(folder, tmp_path, suffix):
    pytest.importorskip("resource")
    (tmp_path / "w.vec").write_text("1 500\n打" + " 0.123456" * 500 + "\n", encoding="utf-8")
    (tmp_path / "t.txt").write_text("打 打 打 打 打\n" * 200, encoding="utf-8")
    done = run_program(FULL_DISK, "encode", "w.vec", "t.txt", "-o", f"out.{suffix}", cwd=tmp_path)
    assert done.returncode == 1
    said = f"polyseme: no space left on {tmp_path}, nothing was replaced: free some space and start again\n"
    assert done.stderr.decode() == said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.txt", "w.vec"]


def test_pooled_lines(folder, wanted):
    encode(folder, "p.npy")
    assert (folder / "p.offsets.npy").exists()
    for layers, plane in (("top", wanted[2][-1]), ("all", wanted[2].mean(axis=0))):
        found = np.load(encode(folder, "p.npy", "--pool", "max", "--layers", layers, "--force"))
        assert found.shape == (4, wanted[0].shape[2])
        np.testing.assert_allclose(found[2], plane.max(axis=0), atol=1e-6)
        assert not found[1].any()
        assert not (folder / "p.offsets.npy").exists()
    table = pyarrow.parquet.read_table(encode(folder, "p.parquet", "--pool", "mean"))
    assert table["text"].to_pylist() == LINES


def test_word_vectors_encode_too(folder):
    (folder / "w.vec").write_text("2 2\n打 1 2\n书 3 4\n", encoding="utf-8")
    (folder / "w.txt").write_text("打 书 x", encoding="utf-8")
    assert call(folder / "w.vec", folder / "w.txt", "-o", folder / "w.jsonl", "--segment", "space") == 0
    assert json.loads((folder / "w.jsonl").read_text())["layers"] == [[[1, 2], [3, 4], [0, 0]]]


def test_empty_input_gives_an_empty_file(folder):
    (folder / "empty.txt").write_bytes(b"")
    for name in ("e.h5", "e.npy", "e.parquet", "e.jsonl"):
        assert call(folder / "m", folder / "empty.txt", "-o", folder / name) == 0
    assert len(np.load(folder / "e.npy")) == 0
    assert pyarrow.parquet.read_table(folder / "e.parquet").num_rows == 0
    assert (folder / "e.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["m", "text.txt", "-o", "x.docx"], "--format"),
        (["m", "text.txt", "-o", "x.npy", "--layers", "9"], "layers must be all"),
        (["m", "none.txt", "-o", "x.npy"], "does not exist"),
        (["text.txt", "text.txt", "-o", "x.npy"], "not a model"),
        (["m", "m/weights.safetensors", "-o", "x.npy"], "text"),
    ],
)
def test_mistakes_are_one_line_and_leave_no_file(folder, arguments, words, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert call(*arguments) == 1
    errors = capsys.readouterr().err
    assert words in errors
    assert len(errors.splitlines()) == 1
    assert not list(folder.glob("x.*")) + list(folder.glob(".x.*"))


def test_an_elmo_converts_to_bilm_tf_s_pair_and_back(folder, fifty_lines):
    options = ElmoOptions(size="tiny", alphabet="bytes", epochs=1, min_count=1, threads=1)
    Elmo.train(Corpus.from_sentences(fifty_lines), options, Run()).save(folder / "bytes")
    assert call(folder / "bytes", folder / "pair", "--to", "bilm-tf", command="convert") == 0
    assert call(folder / "pair", folder / "again", command="convert") == 0
    one, other = (polyseme.load(folder / name) for name in ("bytes", "again"))
    lists = [line.split() for line in LINES]
    for first, second in zip(one.encode_tokens(lists), other.encode_tokens(lists), strict=True):
        np.testing.assert_allclose(first.layers, second.layers, atol=1e-6)
    assert call(folder / "m", folder / "no", "--to", "bilm-tf", command="convert") == 1
    assert not (folder / "no").exists()


def test_distilled_vectors_answer_for_words(folder, fifty_lines, capsys):
    (folder / "fifty.txt").write_text("\n".join(fifty_lines), encoding="utf-8")
    arguments = ("--layers", "1", "--min-count", 2, "--pca", 8)
    assert call(folder / "m", folder / "fifty.txt", "-o", folder / "vectors", *arguments, command="distil") == 0
    vectors = polyseme.load(folder / "vectors")
    assert vectors.vector_size == 8
    assert vectors.options.encoder == "elmo"
    assert call(folder / "vectors", "小明", "-n", 3, command="neighbours") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert call(folder / "vectors", folder / "fifty.txt", "-o", folder / "again", "--pca", "x", command="distil") == 2


def test_several_layers_stand_side_by_side(folder, wanted):
    file = encode(folder, "several.npy", "--layers", "-1,0")
    expected = np.concatenate([np.concatenate([layers[-1], layers[0]], axis=1) for layers in wanted])
    np.testing.assert_allclose(np.load(file), expected, atol=1e-6)


def test_features_are_written_as_bert_s_extract_features_writes_them(folder, wanted):
    file = encode(folder, "features.jsonl", "--layers", "-1,-2", "--format", "features")
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [record["linex_index"] for record in records] == [0, 1, 2, 3]
    assert [feature["token"] for feature in records[2]["features"]] == LINES[2].split()
    for place, feature in enumerate(records[2]["features"]):
        assert [layer["index"] for layer in feature["layers"]] == [-1, -2]
        for layer in feature["layers"]:
            np.testing.assert_allclose(layer["values"], wanted[2][layer["index"], place], rtol=1e-6)


def test_layers_that_are_not_there_and_pieces_of_words_are_refused(folder, capsys):
    for arguments in (("--layers", "9,1"), ("--pieces",), ("--pool", "mean", "--format", "features")):
        assert call(folder / "m", folder / "text.txt", "-o", folder / "x.npy", *arguments) == 1
        assert capsys.readouterr().err.count("\n") == 1


def test_every_file_that_was_written_is_named(folder, capfd):
    out = encode(folder, "named.npy")
    assert f"vectors of 4 lines in {out} and {folder / 'named.offsets.npy'} (" in capfd.readouterr().err


def test_an_encoder_is_no_file_of_word_vectors_and_distil_is_named(folder, capfd):
    assert call(folder / "m", folder / "words.vec", command="convert") == 1
    assert "polyseme distil turns it into word vectors" in capfd.readouterr().err
    assert not (folder / "words.vec").exists()


def test_every_pool_is_asked_for_by_flags_and_kept_as_a_model(folder, tmp_path):
    text = folder / "text.txt"
    wv = polyseme.train("word2vec", text, dim=8, min_count=1, sample=0.0, epochs=1, segment="space", threads=1)
    wv.save(tmp_path / "wv")
    from polyseme.sentences.lift import lift

    data = Corpus.build(text, segment=wv.segmentation)
    for flags, options in (
        (["--pool", "max"], {"pool": "max"}),
        (["--pool", "pmean", "--powers", "1,3"], {"pool": "pmean", "powers": "1,3"}),
        (["--pool", "sif", "--smoothing", "0.01"], {"pool": "sif", "smoothing": 0.01}),
        (["--pool", "usif", "--fit-on", text, "--components", "2"], {"pool": "usif", "components": 2, "data": data}),
    ):
        assert call(tmp_path / "wv", text, "-o", tmp_path / "v.npy", "--force", *flags) == 0
        wanted = lift(wv, "sentences", **options).encode(LINES)
        np.testing.assert_allclose(np.load(tmp_path / "v.npy"), wanted, atol=1e-6)
        assert call(tmp_path / "wv", tmp_path / "kept", "--force", *flags, command="convert") == 0
        np.testing.assert_allclose(polyseme.load(tmp_path / "kept").encode(LINES), wanted, atol=1e-6)
    assert call(tmp_path / "kept", text, "-o", tmp_path / "w.npy", "--pool", "mean") == 1  # it is pooled already
    assert call(folder / "m", text, "-o", tmp_path / "top.npy", "--pool", "max", "--layers", "top") == 0
    top = lift(polyseme.load(folder / "m"), "sentences", pool="max", layers="top").encode(LINES)
    np.testing.assert_allclose(np.load(tmp_path / "top.npy"), top, atol=1e-5)


def test_a_text_with_a_stray_byte_is_encoded_with_the_option_that_the_error_names(folder, capsys):
    (folder / "stray.txt").write_bytes("小明 打 电话\n".encode() + b"\xff\x00 \n" + "给 朋友\n".encode())
    given = (folder / "m", folder / "stray.txt", "-o", folder / "stray.npy", "--segment", "space")
    assert call(*given)
    assert "--errors replace" in capsys.readouterr().err
    assert call(*given, "--errors", "replace") == 0
    assert len(np.load(folder / "stray.offsets.npy")) == 4


def test_the_encoding_of_a_text_can_be_given(folder):
    (folder / "big5.txt").write_bytes("小明 打 電話\n".encode("big5"))
    assert (
        call(folder / "m", folder / "big5.txt", "-o", folder / "big5.jsonl", "--segment", "space", "--encoding", "big5")
        == 0
    )
    assert json.loads((folder / "big5.jsonl").read_text())["tokens"] == ["小明", "打", "電話"]


def test_lines_without_a_known_word_are_counted_marked_or_an_error(tmp_path, capsys):
    polyseme.train("tfidf", Corpus.from_sentences(["小明 打 电话", "小明 看 书"])).save(tmp_path / "m")
    (tmp_path / "t.txt").write_text("小明 打 电话\nZyxwvut\n\n", encoding="utf-8")
    for arguments, code in ((["-o", "a.npy"], 0), (["-o", "b.jsonl", "--unknown", "nan"], 0), (["-o", "c.npy"], 1)):
        arguments[1] = tmp_path / arguments[1]
        more = ["--unknown", "error"] if code else []
        assert (call(tmp_path / "m", tmp_path / "t.txt", *arguments, *more) or 0) == code
    lines = capsys.readouterr().err.splitlines()
    assert sum("2 of 3 texts have no word that the model knows" in line for line in lines) == 1
    assert any("text 2 has no word that the model knows: 'Zyxwvut'" in line for line in lines)
    marked = [json.loads(line)["vector"] for line in (tmp_path / "b.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [vector is None for vector in marked] == [False, True, True]


def test_a_program_encodes_a_file_as_the_command_does(folder, wanted, tmp_path):
    written = encode_file(
        polyseme.load(folder / "m"), folder / "text.txt", tmp_path / "v.npy", layers="top", segment="space"
    )
    assert (written.lines, written.unknown) == (len(LINES), 0)
    assert written.files == [tmp_path / "v.npy", tmp_path / "v.offsets.npy"]
    tops = np.concatenate([layers[-1] for layers in wanted])
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), tops, atol=1e-5)
    with pytest.raises(OptionError, match="unknown='nan' is about vectors of whole lines"):
        encode_file(polyseme.load(folder / "m"), folder / "text.txt", tmp_path / "w.npy", unknown="nan")
