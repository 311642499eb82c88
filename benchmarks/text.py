"""Speed and memory of building a corpus against their bars, in CPU-seconds including all helper processes.

    python benchmarks/text.py [DATA]       DATA: the folder with corpora/zhwiki.txt.xz and corpora/enwiki.txt.xz

- raw Chinese costs at most twice the segmenter's own time (rjieba alone over the same lines, in the same run);
- English split on spaces: at least 1.5 million tokens per CPU-second;
- peak memory of all processes: under 600 MB, and no higher for the same text ten times over.

Times are the minimum of several rounds, in each of which everything runs once, since the load of the machine varies.
"""

from __future__ import annotations

import itertools
import lzma
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DATA = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("POLYSEME_TEST_DATA", "../shared/data"))

ROUNDS = 3
WORKERS = {0: "every core", 1: "one process"}
SEGMENTER_ALONE = """
import sys, time, rjieba
rjieba.cut("你好")
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
begun = time.process_time()
for line in lines:
    rjieba.cut(line)
print(time.process_time() - begun)
"""
BUILD = """
import os, sys, rjieba
from polyseme import Corpus
rjieba.cut("你好")
begun = sum(os.times()[:4])
corpus = Corpus.build(sys.argv[1], sys.argv[2], segment=sys.argv[3], workers=int(sys.argv[4]) or None, force=True)
print(sum(os.times()[:4]) - begun, corpus.n_tokens)
"""


def run(code: str, *arguments: object) -> tuple[list[float], float]:
    """The numbers a fresh Python prints, and the peak memory of it and all its children in MB."""
    process = subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, tree_memory(process.pid))
        time.sleep(0.05)
    assert process.stdout
    assert process.returncode == 0
    return [float(word) for word in process.stdout.read().split()], peak


def tree_memory(pid: int) -> float:
    """Resident memory of a process and its descendants, in MB."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for task in Path(f"/proc/{pid}/task").iterdir():
            if task.name != str(pid):
                children += (task / "children").read_text().split()
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGESIZE") / 1e6 + sum(tree_memory(int(child)) for child in children)


def bar(what: str, value: str, holds: bool) -> bool:
    print(f"{'holds     ' if holds else 'FALLS SHORT'} {what}: {value}", flush=True)
    return holds


def main() -> int:
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for language in ("zhwiki", "enwiki"):
            text = lzma.decompress((DATA / "corpora" / f"{language}.txt.xz").read_bytes())
            (folder / f"{language}.txt").write_bytes(text)
        chinese, english = folder / "zhwiki.txt", folder / "enwiki.txt"
        memory = 0.0
        alone = math.inf
        built: dict[tuple[str, int], tuple[float, int]] = {}
        for _ in range(ROUNDS):
            alone = min(alone, run(SEGMENTER_ALONE, chinese)[0][0])
            for way in itertools.product(("jieba", "auto"), WORKERS):
                (cpu, tokens), peak = run(BUILD, chinese, folder / "zh", *way)
                if way == ("auto", 0):  # the same options as for the text ten times over, below
                    memory = max(memory, peak)
                built[way] = min((cpu, int(tokens)), built.get(way, (math.inf, 0)))
        for (segment, workers), (cpu, tokens) in built.items():
            line = f"{cpu:.2f} CPU-s, segmenter alone {alone:.2f}: {cpu / alone:.2f}x (bar 2x), {tokens:,} tokens"
            results.append(bar(f"raw Chinese, {segment}, {WORKERS[workers]}", line, cpu <= 2 * alone))
        for workers, shown in WORKERS.items():
            cpu, tokens = min(run(BUILD, english, folder / "en", "space", workers)[0] for _ in range(ROUNDS))
            line = f"{tokens / cpu / 1e6:.2f} M tokens per CPU-s (bar 1.5), {cpu:.2f} CPU-s"
            results.append(bar(f"English on spaces, {shown}", line, tokens / cpu >= 1.5e6))
        results.append(bar("peak memory, zhwiki", f"{memory:.0f} MB (bar 600)", memory < 600))
        ten = folder / "ten.txt"
        with open(ten, "wb") as handle:
            for _ in range(10):
                handle.write(chinese.read_bytes() + b"\n")
        (cpu, _), peak = run(BUILD, ten, folder / "zh10", "auto", 0)
        line = f"{peak:.0f} MB against {memory:.0f} MB (bar: no higher, within 5 %), {cpu:.1f} CPU-s"
        results.append(bar("peak memory, ten times zhwiki", line, peak <= memory * 1.05))
    print(f"{sum(results)} of {len(results)} hold")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
