"""What a forked process needs so that it can go on computing: multiprocessing's fork, DataLoader workers, notebooks.

A fork copies the memory but only the thread that forks. GNU OpenMP keeps a pool of threads for each thread that it has
worked for; in the child that pool is a list of threads that do not exist, and the first parallel loop waits for them
forever. So the pool is ended before a fork, and each process makes its own again when it needs one. A child computes on
one thread, like a DataLoader's worker: as many threads as cores in every child would only wait for each other. Whoever
forks a single child may call ``torch.set_num_threads`` there. LLVM's and Intel's OpenMP, OpenBLAS, and the tokenizers
of Hugging Face look after themselves.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

_HARD = 2  # omp_pause_hard: end the threads


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
