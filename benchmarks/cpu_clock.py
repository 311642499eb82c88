"""Time limits in CPU-seconds, so that the result of a time-limited training does not depend on what else runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

from polyseme.training import loop
from polyseme.training.run import Run


@contextmanager
def cpu_clock() -> Iterator[Run]:
    """A run whose ``minutes`` are counted in CPU time of this process."""
    with patch.object(loop, "time", SimpleNamespace(monotonic=time.process_time)):
        yield Run(began=time.process_time())
