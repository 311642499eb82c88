"""Detect the encoding: UTF-8, UTF-16, GB18030, Big5 or Windows-1252, by how plausible the decoded characters are.

Valid UTF-8 is UTF-8. Otherwise a sample is decoded with each encoding, and the one that gives the most frequent Chinese
characters and the fewest undecodable bytes wins: Big5 read as GB18030 decodes too, but to rare characters.
If none fits, ASCII with an occasional other letter (café) is Windows-1252, which includes Latin-1.

Big5 is read as in browsers: with the characters that Windows (cp950) and Hong Kong (HKSCS) added to it.
"""

from __future__ import annotations

import codecs
import unicodedata

import numpy as np

from polyseme.errors import OptionError, TextError, as_given

WESTERN = "cp1252"
NAMES = ("utf-8", "utf-16-le", "utf-16-be", "gb18030", "big5")
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Files that are mistaken for text, by their first bytes.
_KNOWN_BINARY = (
    (b"%PDF", "a PDF"),
    (b"PK\x03\x04", "a zip archive or office document"),
    (b"\xd0\xcf\x11\xe0", "an old office document"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x89PNG", "a picture"),
)
# These make up about four fifths of running Chinese text, modern and classical, simplified and traditional.
_FREQUENT = frozenset(
    "一七万三上下不与专且世业东两並个中为主举乃么义之乐九也书了争事二于云五亚些亞交亦产京亲人今从他仙代令以们件任伊众"
    "会传伯似但位住体佔何余作你使來例便保信個們倒候做傳儿元兄先光克兒党入內全兩八公六兰共关兴兵其具内再写军决几出分划"
    "列刘则初別利别到制則前劃劉力加务动動務包化北区區十千半华单南占即却卻历原去县参參又及双反发叔取受变口古句只叫可台"
    "史号司吃各合同名后向君听吾告员呢周命和品响員哥唐商問善喜喫單器四回因团国图國圖團土在地场坐型城域基堂報場增士声处"
    "复外多夜夢大天太夫央头女好如妇妻始姐姓委娘婆婦子字存孙学孫學它守安宗官定宝实客宫宮家實寫寶对寻导将將專尋對導小少"
    "尔尚就尼尽居展属屬山岛島州工差己已巴市布师帝带師帶常干平年并幹幾广应店府度廣建开式弟张張強强归当形影往待很後得從"
    "復德心必忙快忽怎怕思急性总恐情惊想意愛應成我或战戰房所手才打把报拉拜括拿持指据接提據支收改放政故教敢数數文斯新方"
    "於族无既日早时明星是時晚普曰更書曾最會月有望朝期未本术机杀权李条来杨東构林果标校样根格條梦楊業構樂標樣機權次欧欲"
    "歐正此武歷歸死殺母比氏民气氣水求汉江決沒没河治法洲活派流济海深清游湾源满滿演漢濟灣火点無然爭爱爲父爷爺爾版物特率"
    "玉王现現球理甚生產用由电界留當病發白百的皆皇盡目直相省看真眼着矣知石研示礼社神禮种科秦称程種稱究空立竟笑第等答管"
    "米类系紀約紅級細組結給統經維線縣總红约级纪线组细经结给统维罗罢罷羅美義老者而耐联聞聯聲聽肯育能臣自至臺與興舉般船"
    "色花苏若苦英莫華萬落著蘇蘭處號虽衆行術衣表被裏西要見規視親覺觀见观规视觉解言計記設許詞詩話該認語說誰調請論謝議變"
    "计认议记许论设词诗话该语说请谁调谢資質质资走起足路身車軍較轉车转较边达过运近还这进远连送选這通造連進遂遊運過道達"
    "遠選還邊那郎部都酒里重量金銀錢钱银長长門開間關门问间闻队阳阿际陆院除陸陽隊随際隨难集雖雙難雲電青非面革音響須領頭"
    "題類须领题風风飛飞飯餘饭首香馬驚马體高麼黃黄點黨齊齐龍龙"
)
_PUNCTUATION = frozenset("、。，！？：；「」『』“”‘’《》〈〉（）【】—…·～　")
TELLING = 1 << 15  # bytes that are enough to detect the encoding
_ASCII = bytes(range(128))
# Control bytes, which are rare in text; in UTF-16 they may be half of a character.
_CONTROLS = bytes([*range(9), *range(0x0E, 0x1B), *range(0x1C, 0x20)])


def mark_of(head: bytes) -> tuple[str, int] | None:
    """The encoding that a byte order mark announces and the mark's length; None without a mark."""
    for mark, name in MARKS:
        if head.startswith(mark):
            return name, len(mark)
    return None


def detect(sample: bytes, *, whole: bool) -> str | None:
    """Detect the encoding of the sample; None if it is not text in any of them.

    ``whole`` means that the sample is the entire text; otherwise it may end within a character.
    """
    doubtful = _is_doubtful(sample)
    valid = b"\0" not in sample and _is_valid(sample, "utf-8", whole)
    if valid and not doubtful:
        return "utf-8"
    if len(sample) > TELLING:  # start at the first byte that is not ASCII, at an even offset for UTF-16
        start = len(sample) - len(sample.lstrip(_ASCII) or sample) & ~1
        sample, whole = sample[start : start + TELLING], whole and start + TELLING >= len(sample)
    candidates = ("utf-16-le", "utf-16-be") if doubtful else NAMES
    best = max(candidates, key=lambda name: _plausibility(sample, name, whole))
    if _plausibility(sample, best, whole) > 0:
        return best
    if valid or (doubtful and _plausibility(sample, "utf-8", whole) > 0):
        return "utf-8"
    return WESTERN if not doubtful and _is_western(sample) else None


def is_plain(chunk: bytes) -> bool:
    """Whether the chunk is certainly ASCII, whatever follows it."""
    return chunk.isascii() and not _is_doubtful(chunk)


def _is_doubtful(sample: bytes) -> bool:
    """Whether the bytes have NULs or many controls: Thai in UTF-16 looks like ASCII with controls in between."""
    return b"\0" in sample or 10 * len(sample.translate(None, _CONTROLS)) < 9 * len(sample)


def _is_western(sample: bytes) -> bool:
    """Whether the bytes that are not ASCII are few, and most of them stand alone between ASCII bytes."""
    wide = np.frombuffer(sample, dtype=np.uint8) > 0x7F
    near_wide = np.zeros_like(wide)
    near_wide[1:] |= wide[:-1]
    near_wide[:-1] |= wide[1:]
    few = wide.mean() < 0.3 and (wide & ~near_wide).sum() >= 0.6 * wide.sum()
    return bool(few) and _is_valid(sample, WESTERN, True)


_BIG5_ERRORS = "polyseme-big5-"


class _Big5(codecs.IncrementalDecoder):
    """Decodes Big5 with its extensions; a bad character is skipped so that the next one is still read correctly."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._inner = codecs.getincrementaldecoder("big5hkscs")(_BIG5_ERRORS + errors)

    def decode(self, input: bytes, final: bool = False) -> str:  # type: ignore[override]
        text = self._inner.decode(input, final)
        return text.replace("∼", "～").replace("•", "‧")  # as in Windows, where most Big5 comes from

    def getstate(self) -> tuple[bytes, int]:
        return self._inner.getstate()


def _big5_error(error: UnicodeError) -> tuple[str, int]:
    """Error handler: the euro sign of Windows, or else one � for both bytes of a character that does not exist."""
    assert isinstance(error, UnicodeDecodeError)
    pair = error.object[error.start : error.start + 2]
    if pair == b"\xa3\xe1":
        return "€", error.start + 2
    error.end = error.start + 1 + (len(pair) == 2 and pair[1] > 0x7F)
    return "\ufffd", error.end


def _big5_strict(error: UnicodeError) -> tuple[str, int]:
    decoded = _big5_error(error)
    if decoded[0] == "\ufffd":
        raise error
    return decoded


codecs.register_error(f"{_BIG5_ERRORS}replace", _big5_error)
codecs.register_error(f"{_BIG5_ERRORS}strict", _big5_strict)


def decoder(name: str, errors: str = "strict") -> codecs.IncrementalDecoder:
    """An incremental decoder for this encoding."""
    return (_Big5 if name == "big5" else codecs.getincrementaldecoder(name))(errors)


def _is_valid(sample: bytes, name: str, whole: bool) -> bool:
    try:
        decoder(name).decode(sample, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _plausibility(sample: bytes, name: str, whole: bool) -> float:
    """A score, above 0 for text: frequent characters raise it; undecodable bytes, controls and private use lower it."""
    text = decoder(name, "replace").decode(sample, final=whole)
    wide = [c for c in text if c > "\x7f"]
    if not text:
        return 0.0
    bad = sum(c == "\ufffd" or "\ue000" <= c <= "\uf8ff" or c < "\t" or "\x0e" <= c < " " for c in text) / len(text)
    if not wide:
        return 1.0 - 20 * bad
    likely = sum(c in _FREQUENT or c in _PUNCTUATION or _is_letter(c) for c in wide)
    spaced = " " in text
    other = sum(_is_other_letter(c, hangul=spaced) for c in wide)
    if other > len(wide) / 2:  # a few occur in any text that is read in the wrong encoding
        likely += other
    return likely / len(wide) - 0.12 - 8 * bad


def _is_letter(character: str) -> bool:
    """Whether it is a letter that may occur in Chinese text: Latin, Greek, Cyrillic, kana, full-width."""
    return (
        "\xc0" <= character <= "\u052f" or "\u3041" <= character <= "\u30ff" or "\uff01" <= character <= "\uff5a"
    ) and (character.isalpha())


def _is_other_letter(character: str, *, hangul: bool) -> bool:
    """Whether it is a letter, mark or punctuation from Armenian to Mongolian, or Hangul if ``hangul``.

    Hangul counts only in text with spaces, which Chinese in the wrong encoding does not have.
    """
    if hangul and "\uac00" <= character <= "\ud7a3":
        return True
    return "\u0530" <= character <= "\u18af" and unicodedata.category(character)[0] in "LMP"


def check_name(encoding: str) -> str:
    """Python's name of a text encoding; OptionError if there is no such encoding."""
    try:
        info = codecs.lookup(encoding)
        "a".encode(info.name)  # fails for codecs that are not for text, such as base64
    except (LookupError, ValueError):
        raise OptionError(f"there is no text encoding {encoding!r}; common ones: {', '.join(NAMES)}") from None
    return info.name


def known_binary(head: bytes) -> str | None:
    """The kind of a binary file that is often mistaken for text, by its first bytes; None if it is not known."""
    if head[257:262] == b"ustar":
        return "a tar archive"
    return next((what for start, what in _KNOWN_BINARY if head.startswith(start)), None)


def not_text(name: str, head: bytes) -> TextError:
    """The error for bytes that are not text."""
    if what := known_binary(head):
        return TextError(f"{name} is {what}, not text: extract its text first")
    place = head.find(b"\0")
    detail = f"a NUL byte at offset {place:,}" if place >= 0 else _first_error(head)
    return TextError(
        f"{name} is not text in UTF-8, UTF-16, GB18030, Big5 or Windows-1252 ({detail}): "
        f"give its encoding ({as_given('encoding', 'NAME')}), or {as_given('errors', 'replace')}"
    )


def _first_error(head: bytes) -> str:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        return f"byte 0x{head[error.start]:02x} at offset {error.start:,}"
    return "its characters are not plausible"
