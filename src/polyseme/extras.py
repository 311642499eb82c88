"""Packages that only a part of polyseme needs, and the extras that install them.

Networks need torch, which is larger than everything else together. They import it as if it were there; where it is not,
the import itself says what to install, from whatever command or function it was reached.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from polyseme.errors import MissingExtra

EXTRAS = {  # package → extra
    **dict.fromkeys(("torch", "transformers", "tokenizers", "huggingface_hub", "h5py"), "neural"),
    **dict.fromkeys(("fastapi", "uvicorn", "httptools"), "serve"),
    "matplotlib": "plot",
    "pyarrow": "parquet",
    "sacrebleu": "bench",
}
_BETWEEN = ("importlib", "_frozen_importlib", "safetensors")  # safetensors.torch imports torch for whoever imports it


class ExtraFinder(MetaPathFinder):
    """Stands last among the finders, and so is only asked for what is not installed.

    Other libraries try whether torch is there and go on without it; for them it finds nothing, like the others.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in EXTRAS and _importer().partition(".")[0] == "polyseme":
            raise MissingExtra("this", EXTRAS[fullname], fullname)
        return None


def _importer() -> str:
    """The name of the module whose import is under way."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


@contextmanager
def needed_for(what: str) -> Iterator[None]:
    """Inside, an import that fails for want of an extra says what needs it."""
    try:
        yield
    except MissingExtra as error:
        raise MissingExtra(what, error.extra, error.package) from None


def install() -> None:
    """Let imports of packages that are not installed say which extra has them."""
    if not any(isinstance(finder, ExtraFinder) for finder in sys.meta_path):
        sys.meta_path.append(ExtraFinder())
