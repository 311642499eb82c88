"""Fixtures for all tests: the data kept outside the repository, and a small corpus."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Workers that run side by side get a core each, and libraries of linear algebra one thread: the models of tests are so
# small that threads mostly wait for each other, for fifty times as long as they compute where cores are busy.
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
if WORKER and CORES:
    os.sched_setaffinity(0, {CORES[int(WORKER) % len(CORES)]})
os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when they are imported

# The same examples on every run, so that results are reproducible. `--hypothesis-profile=default` tries others.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")

DATA = Path(os.environ.get("POLYSEME_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of corpora, evaluation sets and published files; tests that use it are skipped if it is missing."""
    if not DATA.is_dir():
        pytest.skip(f"no test data at {DATA} (POLYSEME_TEST_DATA names another place)")
    return DATA


@pytest.fixture(scope="module")
def every_core() -> Iterator[None]:
    """Run threads and processes that race each other on all cores."""
    if CORES:
        pinned = os.sched_getaffinity(0)
        os.sched_setaffinity(0, CORES)
    yield
    if CORES:
        os.sched_setaffinity(0, pinned)


@pytest.fixture(scope="session")
def fifty_lines() -> list[str]:
    """Fifty lines of Chinese, written for these tests, with words that repeat and 打 in several senses."""
    people = ["小明", "老王", "姐姐", "弟弟", "张老师"]
    doings = [
        "打电话给朋友，说明天去公园。",
        "在学校打篮球，打得很高兴。",
        "打开窗户，看见外面下雨了。",
        "到商店打酱油，顺便买了一本书。",
        "把房间打扫干净，然后看书。",
        "喜欢看书，也喜欢听音乐。",
        "早上坐火车去北京看朋友。",
        "晚上在家里吃饭，喝了一杯茶。",
        "说今天的天气比昨天好多了！",
        "问：你明天去不去学校？",
    ]
    return [person + doing for doing in doings for person in people]
