"""The normalisation of a model's text as a normaliser of the library ``tokenizers``, for folders that others read."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer
from tokenizers.normalizers import NFKC, Lowercase, Normalizer, Replace, Sequence

from polyseme.text.normalise import INVISIBLE, SPACES, WIDE
from polyseme.text.segment import Segmentation

# Full-width punctuation is held as these while NFKC runs: private characters, which it does not change.
_HELD = [chr(0x10FF00 + number) for number in range(len(WIDE))]
# Lowercase changes every character by itself, but a sigma at the end of a word is another one.
_CASED = r"[\p{Lu}\p{Ll}\p{Lt}]"
_FINAL_SIGMA = Regex(rf"(?<={_CASED})Σ(?![\p{{Mn}}\p{{Cf}}'.:·’]*{_CASED})")


def with_normalisation(tokenizer: bytes, segmentation: Segmentation) -> bytes:
    """A tokenizer.json that normalises text as ``segmentation`` does, except for its script, before all else."""
    steps = _form() if segmentation.normalise == "nfkc" else []
    if segmentation.case == "lower":
        steps += [Replace(_FINAL_SIGMA, "ς"), Lowercase()]
    if not steps:
        return tokenizer
    found = Tokenizer.from_buffer(tokenizer)
    own = [] if found.normalizer is None else [found.normalizer]
    found.normalizer = Sequence([*steps, *own])
    return str(found.to_str()).encode()


def _form() -> list[Normalizer]:
    """NFKC as in ``polyseme.text.normalise``."""
    invisible = "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in INVISIBLE)
    spaces = "".join(rf"\x{{{ord(space):x}}}" for space in SPACES)
    return [
        Replace(Regex(f"[{invisible}]"), ""),
        Replace(Regex(f"[{spaces}]"), " "),
        *(Replace(sign, held) for sign, held in zip(WIDE, _HELD, strict=True)),
        NFKC(),
        *(Replace(held, sign) for sign, held in zip(WIDE, _HELD, strict=True)),
    ]
