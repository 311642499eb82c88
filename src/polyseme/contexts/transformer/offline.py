"""``transformers`` without access to the hub and without output to the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def offline() -> Iterator[None]:
    """Inside, models are loaded from local files only, without progress bars and log messages."""
    import huggingface_hub.constants
    from transformers.utils import logging

    hub, verbosity, bars = (
        huggingface_hub.constants.HF_HUB_OFFLINE,
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
    )
    huggingface_hub.constants.HF_HUB_OFFLINE = True
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        huggingface_hub.constants.HF_HUB_OFFLINE = hub
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def panics_as(kind: type[Exception], said: str) -> Iterator[None]:
    """Inside, a panic of the library ``tokenizers``, which is no Exception, is an error of this kind."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise kind(f"{said} ({reason(error)})") from None


def reason(error: BaseException) -> str:
    """The first line of a library's error, for a one-line message."""
    text = str(error).strip().split("\n")[0].strip()
    return f"{type(error).__name__}: {text[:160]}" if text else type(error).__name__
