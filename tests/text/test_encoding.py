"""Bytes become the right text, or an error that says where they do not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyseme.errors import PolysemeError, TextError
from polyseme.text import source
from polyseme.text.encoding import check_name, detect
from polyseme.text.source import Source, SourceReader

CHINESE = "他打了个电话，说明天去公园。\n这是一个测试文件，里面有中文，也有 English words 和数字 123。\n"
TRADITIONAL = "他打了個電話，說明天去公園。\n這是一個測試文件，裡面有中文，也有 English words 和數字 123。\n"


def text_of(path: Path, **options: str) -> str:
    return "".join(SourceReader(Source(str(path)), **options).chunks())


def written(folder: Path, data: bytes, name: str = "a.txt") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        (CHINESE, "utf-8", "utf-8"),
        (CHINESE, "utf-8-sig", "utf-8"),
        (CHINESE, "gb18030", "gb18030"),
        (CHINESE, "utf-16", "utf-16-le"),
        (CHINESE, "utf-16-le", "utf-16-le"),
        (CHINESE, "utf-16-be", "utf-16-be"),
        ("中文没有一个空格也没有换行而且很短", "utf-16-be", "utf-16-be"),
        (TRADITIONAL, "big5", "big5"),
        ("你好", "gb18030", "gb18030"),
        ("联通", "gb18030", "gb18030"),
        ("Plain English.", "utf-16-le", "utf-16-le"),
        ("Plain English.", "ascii", "utf-8"),
        ("Он сказал: да.\n", "utf-16-le", "utf-16-le"),
        ("他在房子裏面看書，說了很多話。", "cp950", "big5"),
        ("圍碁、生銹、恒星、嫺靜，一百€～史蒂文‧金", "cp950", "big5"),
        ("佢哋話今日唔得閒，啲嘢好貴㗎，我喺度食咗飯，冇錢嘅。", "big5hkscs", "big5"),
        ("날씨가 좋습니다.", "utf-16-le", "utf-16-le"),
        ("날씨가 좋습니다.", "utf-16-be", "utf-16-be"),
        ("الطقس جميل اليوم.", "utf-16-le", "utf-16-le"),
        ("आज मौसम बहुत अच्छा है।", "utf-16-be", "utf-16-be"),
        ("วันนี้อากาศดีมาก", "utf-16-be", "utf-16-be"),
        ("วันนี้อากาศดีมาก", "utf-16-le", "utf-16-le"),
        ("N\bNA\bAM\bME\bE of an old manual, struck over", "ascii", "utf-8"),
    ],
)
def test_the_encoding_is_found(tmp_path: Path, text: str, encoding: str, found: str) -> None:
    reader = SourceReader(Source(str(written(tmp_path, text.encode(encoding)))))
    assert "".join(reader.chunks()) == text
    assert reader.encoding == found


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "utf-16-le", "big5"])
def test_characters_that_lie_across_chunks_are_whole(tmp_path: Path, encoding: str) -> None:
    text = "a" + TRADITIONAL * 9000
    assert len(text.encode(encoding)) > 2 * source.CHUNK
    assert text_of(written(tmp_path, text.encode(encoding))) == text


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "cp950", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("size", [8, 12, 20, 40])
def test_short_texts_are_enough(encoding: str, size: int) -> None:
    text = (TRADITIONAL if encoding == "cp950" else CHINESE).split(" ")[0].replace("\n", "") * 3
    pieces = [text[start : start + size].encode(encoding) for start in range(len(text) // 3)]
    assert {detect(piece, whole=True) for piece in pieces} == {{"cp950": "big5"}.get(encoding, encoding)}


def test_after_a_bad_character_big5_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, TRADITIONAL.encode("big5") + b"\xfe\xff" + TRADITIONAL.encode("big5"))
    with pytest.raises(TextError, match=f"byte 0xfe at offset {len(TRADITIONAL.encode('big5'))} is not BIG5"):
        text_of(path)
    assert text_of(path, errors="replace") == f"{TRADITIONAL}\ufffd{TRADITIONAL}"


def test_a_long_english_beginning_does_not_hide_the_encoding(tmp_path: Path) -> None:
    text = "plain words " * 40_000 + CHINESE * 20
    assert text_of(written(tmp_path, text.encode("gb18030"))) == text


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_files_are_known_by_their_first_bytes(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    assert text_of(written(tmp_path, pack(CHINESE.encode("gb18030")), "no_ending")) == CHINESE


def test_a_bad_byte_is_named_with_its_offset(tmp_path: Path) -> None:
    good = (CHINESE * 200).encode()
    path = written(tmp_path, good + b"\xff\xfe" + good)
    with pytest.raises(TextError, match=rf"a\.txt: byte 0xff at offset {len(good):,} is not UTF-8"):
        text_of(path)
    assert text_of(path, errors="replace") == CHINESE * 200 + "\ufffd\ufffd" + CHINESE * 200


@pytest.mark.parametrize(("encoding", "cut"), [("utf-8", 2), ("gb18030", 1), ("utf-16-le", 1)])
def test_a_character_cut_at_the_end_is_an_error_with_its_offset(tmp_path: Path, encoding: str, cut: int) -> None:
    whole = (CHINESE * 50 + "完").encode(encoding)
    path = written(tmp_path, whole[:-cut])
    start = len((CHINESE * 50).encode(encoding))
    with pytest.raises(TextError, match=f"offset {start:,} "):
        text_of(path)
    assert text_of(path, errors="replace") == CHINESE * 50 + "\ufffd"


def test_a_nul_in_text_is_an_error_with_its_offset(tmp_path: Path) -> None:
    path = written(tmp_path, (CHINESE * 9).encode() + b"\0" + CHINESE.encode())
    with pytest.raises(TextError, match=f"offset {len((CHINESE * 9).encode()):,}"):
        text_of(path)
    assert "\0" not in text_of(path, errors="replace")


def test_the_reader_says_what_binary_files_are(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="is a PDF, not text"):
        text_of(written(tmp_path, b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n"))
    with pytest.raises(TextError, match="is not text"):
        text_of(written(tmp_path, bytes(range(256)) * 20))
    with pytest.raises(TextError, match="truncated or damaged"):
        text_of(written(tmp_path, gzip.compress(CHINESE.encode() * 999)[:-9]))


def test_a_named_encoding_is_used(tmp_path: Path) -> None:
    path = written(tmp_path, "Łódź, Kraków, Gdańsk".encode("iso8859-2"))
    assert text_of(path, encoding="iso8859-2") == "Łódź, Kraków, Gdańsk"
    with pytest.raises(PolysemeError, match="no text encoding 'utf-9'"):
        text_of(path, encoding="utf-9")


def test_letters_with_accents_among_ascii_are_windows_1252(tmp_path: Path) -> None:
    for text in ("Café déjà vu, naïve façade, élève", "a clichéd film – “fun” … and not much more\n" * 9000):
        assert text_of(written(tmp_path, text.encode("cp1252"))) == text


def test_byte_order_marks_inside_a_text_are_dropped(tmp_path: Path) -> None:
    path = written(tmp_path, CHINESE.encode("utf-8-sig") * 2)
    assert text_of(path) == CHINESE * 2


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=400), errors=st.sampled_from(["strict", "replace"]))
def test_random_bytes_give_text_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, errors: str
) -> None:
    path = written(tmp_path_factory.getbasetemp(), data, "random.bin")
    try:
        text = text_of(path, errors=errors)
    except TextError as error:
        assert "\n" not in str(error)
    else:
        assert "\0" not in text


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=200))
def test_every_text_comes_back_from_utf8(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = written(tmp_path_factory.getbasetemp(), text.encode(), "round.txt")
    assert text_of(path, encoding="utf-8") == text


def test_the_same_book_in_four_encodings_reads_the_same(tmp_path: Path, shared_data: Path) -> None:
    archive = shared_data / "corpora" / "classics.tar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} is absent")
    with tarfile.open(archive) as tar:
        names = [m for m in tar.getmembers() if "encoding_fixtures" in m.name and m.isfile()]
        data = {Path(m.name).name.split(".", 1)[1]: tar.extractfile(m).read() for m in names}  # type: ignore[union-attr]
    texts = {name: text_of(written(tmp_path, raw)) for name, raw in data.items()}
    # Big5 and GBK lack a few of the book's characters, and the fixtures leave those out.
    assert texts["traditional.big5.txt"] == texts["traditional.utf8.txt"].encode("big5", "ignore").decode("big5")
    assert texts["simplified.gbk.txt"] == texts["simplified.utf16.txt"].encode("gbk", "ignore").decode("gbk")
    assert "浮生六" in texts["simplified.gbk.txt"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "gb18030"])
@pytest.mark.parametrize("head", ["", "plain words " * 9001], ids=["at once", "late"])
@pytest.mark.parametrize("body", ["", CHINESE * 2000], ids=["ascii", "chinese"])
def test_a_long_text_is_told_by_its_first_characters_that_are_not_ascii(
    tmp_path: Path, encoding: str, head: str, body: str
) -> None:
    text = head + body
    assert text_of(written(tmp_path, text.encode(encoding))) == text


@pytest.mark.parametrize("name", ["utf-9", "base64", "rot13", "undefined", "zlib"])
def test_only_encodings_of_text_are_taken(name: str) -> None:
    with pytest.raises(PolysemeError, match=f"no text encoding '{name}'"):
        check_name(name)


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
@pytest.mark.parametrize("place", [0, 3, 1000, 2000, 3000])
def test_damaged_packing_is_not_taken_for_another_encoding(tmp_path: Path, ending: str, pack: Any, place: int) -> None:
    noise = "".join(chr(0x4E00 + number * number % 7001) for number in range(9000))  # packs badly, so is damaged within
    data = bytearray(pack(noise.encode()))
    data[place] ^= 0x55
    with pytest.raises(TextError, match="damaged") as error:
        text_of(written(tmp_path, bytes(data), f"a.{ending}"))
    assert "encoding" not in str(error.value)


@pytest.mark.parametrize("options", [{}, {"encoding": "utf-8"}])
def test_a_tar_archive_is_called_one(tmp_path: Path, options: dict[str, str]) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(written(tmp_path, b"Plain English.\n" * 9), "a.txt")
    with pytest.raises(TextError, match="is a tar archive, not text"):
        text_of(tmp_path / "a.tar.gz", **options)


def test_bytes_that_are_no_text_may_be_replaced_and_the_error_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, bytes(range(256)) * 9)
    with pytest.raises(TextError, match=r"is not text .* or errors='replace'"):
        text_of(path)
    assert "ABC" in text_of(path, errors="replace")


@pytest.mark.parametrize("name", ["utf-16", "utf-32", "UTF16"])
@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_utf_16_by_name_wants_a_byte_order_mark(tmp_path: Path, name: str, errors: str) -> None:
    file = written(tmp_path, b"abcd")
    with pytest.raises(TextError, match=r"no byte order mark: use utf-\d\d-le or utf-\d\d-be"):
        text_of(file, encoding=name, errors=errors)
    assert text_of(written(tmp_path, CHINESE.encode(name)), encoding=name) == CHINESE
    assert text_of(written(tmp_path, b""), encoding=name) == ""


def test_an_encoding_that_cannot_do_this_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="IDNA"):
        text_of(written(tmp_path, CHINESE.encode()), encoding="idna", errors="replace")


def test_a_thousand_byte_order_marks_are_no_text(tmp_path: Path) -> None:
    from polyseme.api import recognise

    file = written(tmp_path, b"\xef\xbb\xbf" * 1000)
    assert recognise(file) == "text"
    with pytest.raises(TextError, match="there is no text"):
        list(source.read_blocks([Source(str(file))]))
