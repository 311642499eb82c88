"""The available CPU cores and memory, the place of this process among those of torchrun, and its forks.

What a forked process needs so that it can go on computing: multiprocessing's fork, DataLoader workers, notebooks. A
fork copies the memory but only the thread that forks. GNU OpenMP keeps a pool of threads for each thread that it has
worked for; in the child that pool is a list of threads that do not exist, and the first parallel loop waits for them
forever. So the pool is ended before a fork, and each process makes its own again when it needs one. A child computes on
one thread, like a DataLoader's worker: as many threads as cores in every child would only wait for each other. Whoever
forks a single child may call ``torch.set_num_threads`` there. LLVM's and Intel's OpenMP, OpenBLAS, and the tokenizers
of Hugging Face look after themselves.
"""

from __future__ import annotations

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
_HARD = 2  # omp_pause_hard: end the threads


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
    import ctypes

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


def end_openmp_pools() -> None:
    """End the calling thread's pool in every copy of GNU OpenMP that is loaded: torch, faiss and SciPy bring theirs."""
    libraries = _loaded("libgomp")
    if not libraries:
        return
    import ctypes

    for path in libraries:
        with suppress(OSError, AttributeError):  # the file was replaced since; GCC before 9
            ctypes.CDLL(path, mode=os.RTLD_NOLOAD).omp_pause_resource_all(_HARD)


def _loaded(name: str) -> set[str]:
    """The paths of the libraries in memory whose file name begins so."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
            paths = {line.split(maxsplit=5)[-1].rstrip("\n") for line in lines if name in line}
    except OSError:
        return set()
    return {path for path in paths if path.rpartition("/")[2].startswith(name)}


def _in_child() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # what they do anyway, without the warning
    set_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)
    if set_threads:
        set_threads(1)


if sys.platform == "linux":
    os.register_at_fork(before=end_openmp_pools, after_in_child=_in_child)
