"""The available CPU cores and memory, and the place of this process among those of torchrun."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60}
# torch: "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000 bytes"; NumPy: "Unable to
# allocate 3.73 GiB for an array with shape …"
_ASKED_FOR = re.compile(r"allocate ([\d.]+) (bytes|[KMGTPE]iB)\b")
_CGROUP = Path("/sys/fs/cgroup/memory.max")

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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was refused; torch says so in a RuntimeError."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("can't allocate memory" in str(error) or "out of memory" in str(error))
    )


def told_out_of_memory(error: BaseException) -> str:
    """One line: how much memory was asked for, what limits it, and what needs less."""
    asked = _ASKED_FOR.search(str(error))
    wanted = f": {_gigabytes(float(asked[1]) * _UNITS[asked[2]])} were needed at once" if asked else ""
    limit = "" if "CUDA" in str(error) else _memory_limit()
    limits = f", and {limit}" if limit else ""
    return f"not enough memory{wanted}{limits}; split very long lines, give less text at once, or raise the limit"


def _memory_limit() -> str:
    """What limits the memory of this process, the narrowest first; "" if that is not known."""
    limits: list[tuple[float, str]] = []
    with suppress(ImportError):  # Windows
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        if soft != resource.RLIM_INFINITY:
            limits.append((soft, "the process may have {} (ulimit -v)"))
    with suppress(OSError):
        allowed = _CGROUP.read_text(encoding="ascii").strip()  # or "max"
        if allowed.isdigit():
            limits.append((int(allowed), "the container may have {}"))
    with suppress(AttributeError, ValueError, OSError):  # Windows
        limits.append((os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "the machine has {}"))
    if not limits:
        return ""
    size, message = min(limits)
    return message.format(_gigabytes(size))


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
