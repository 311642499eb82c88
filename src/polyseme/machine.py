"""The available CPU cores and memory, and the place of this process among those of torchrun."""

from __future__ import annotations

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def leads() -> bool:
    """Whether this process saves the model and reports: torchrun's processes all hold the same model."""
    return os.environ.get("RANK", "0") == "0"


def keep_freed_memory() -> None:
    """Make the C library keep large freed blocks: fetching them again costs a page fault per 4 kB.

    Without it a weight gradient of 30 MB takes a third longer to compute, and a block of text a twentieth longer to
    read. Does nothing except on glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    if not mallopt(_MMAP_THRESHOLD, 1 << 30):
        mallopt(_MMAP_THRESHOLD, 32 << 20)  # the most that some versions accept
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
