"""Training data: a Corpus, a Parallel, Examples, or several of them by name. 训练数据

Kinds, as in the catalog's ``learns_from``:

    corpus     documents of sentences in order
    parallel   two texts aligned line by line
    texts      labelled texts;   pairs   two texts and a label or score
    tags       sentences with a tag for each word;   spans   passages, questions and answers
    choices    contexts, alternatives and the right one
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyseme.data.detect import SAYS, DetectedFile, Request, detect
from polyseme.data.examples import Examples
from polyseme.data.parallel import Parallel
from polyseme.data.tables import LABEL, Lines
from polyseme.errors import OptionError, TextError, as_given
from polyseme.interfaces import Progress, silent
from polyseme.text.corpus import Corpus, is_corpus
from polyseme.text.options import OPTIONS_OF, ReadingExamples
from polyseme.text.source import STDIN, Source, find_sources, paths_given

Data = Corpus | Parallel | Examples
Paths = str | Path | Sequence[str | Path]
Given = Data | Paths
FORMS = {
    "corpus": "text (files, folders or a corpus)",
    "parallel": "parallel text (two columns, or two files with the same number of lines)",
    "texts": "labelled texts (TSV, CSV or JSON lines)",
    "pairs": "labelled pairs of texts (TSV, CSV or JSON lines)",
    "tags": "tagged sentences (CoNLL columns)",
    "spans": "passages with questions and answers (SQuAD JSON)",
    "choices": "contexts with alternatives and the right one (JSON, TSV or CSV)",
}
ANY = "*"  # the name of sources that may be called anything, such as languages
FIRST = 3  # files that are examined if several are given
MOST = 30  # files of a folder that are examined
FEW = 10  # a table without a header needs at least this many lines to be told from text


def reading_options(learns_from: Iterable[str]) -> list[type]:
    """The option dataclasses for reading data of these kinds."""
    return list(dict.fromkeys(OPTIONS_OF[kind] for entry in learns_from for kind in kinds_of(entry)))


def kinds_of(entry: str) -> tuple[str, ...]:
    """The kinds in an entry of ``learns_from``, without its name: ``*=texts|pairs`` gives texts and pairs."""
    return tuple(entry.split("=")[-1].split("|"))


def sources_by_name(learns_from: Iterable[str]) -> dict[str, str]:
    """Source name → kinds, for a method that learns from several sources; {} if it learns from one."""
    return dict(entry.split("=", 1) for entry in learns_from if "=" in entry)


def read_data(
    method: str,
    learns_from: Sequence[str],
    data: Given | Mapping[str, Given],
    reading: Mapping[str, Any],
    progress: Progress = silent,
    *,
    like: Mapping[str, Any] | None = None,
) -> Data | dict[str, Data]:
    """Read the training data of ``method``; data of other kinds is refused with an error that says what to give.

    ``like`` holds the facts of earlier examples: data with the same layout is read the same way.
    """
    named = sources_by_name(learns_from)
    if not named:
        if isinstance(data, Mapping):
            raise OptionError(f"{method} is trained on one source, {_wanted(learns_from)}: give it without a name")
        return _one(method, learns_from, data, reading, progress, like)
    names = ", ".join(f"{'NAME' if name == ANY else name}=({_wanted(kinds_of(kind))})" for name, kind in named.items())
    if not isinstance(data, Mapping) or not data:
        raise OptionError(f"{method} is trained on several named sources: {names}")
    for name in data:
        if name not in named and ANY not in named:
            raise OptionError(f"{method} has no source {name!r}; it is trained on {names}")
    sources: dict[str, Data] = {}
    for name, one in data.items():
        kinds = kinds_of(named.get(name, named.get(ANY, "")))
        known = {field.name for cls in reading_options(kinds) for field in dataclasses.fields(cls)}
        fitting = {option: value for option, value in reading.items() if option in known}
        sources[name] = _one(method, kinds, one, fitting, progress)
    return sources


def fingerprint_of(data: Data | Mapping[str, Data]) -> str | dict[str, str]:
    """The fingerprint of the data, which a checkpoint depends on; for several sources, one by name."""
    if isinstance(data, Mapping):
        return {name: one.fingerprint for name, one in sorted(data.items())}
    return data.fingerprint


def _one(
    method: str,
    kinds: Sequence[str],
    data: Given,
    reading: Mapping[str, Any],
    progress: Progress,
    like: Mapping[str, Any] | None = None,
) -> Data:
    if isinstance(data, (str, Path)) and is_corpus(data):
        data = Corpus.open(data)
    if isinstance(data, (Corpus, Parallel, Examples)):
        if data.kind not in kinds:
            raise _refusal(method, kinds, data.kind, data.path)
        if reading:
            raise OptionError(
                f"{data.path} is already segmented: leave out {' and '.join(reading)}, or rebuild the corpus with it"
            )
        return data
    detected_files = {path: detected for path in _files(data)[:FIRST] if (detected := recognise_data(path))}
    other = next(((detected, path) for path, detected in detected_files.items() if detected.kind not in kinds), None)
    if "corpus" in kinds and (other or not detected_files):
        if other and not _are_records_of_text(other[0], reading):
            refusal = _refusal(method, kinds, other[0].kind, other[1])
            raise OptionError(f"{refusal}; or use {as_given('format', 'text')} to read it as plain text")
        return Corpus.build(data, progress=progress, **reading)  # lives as long as this object
    if other and "columns" not in reading:
        raise _refusal(method, kinds, other[0].kind, other[1])
    if tuple(kinds) == ("parallel",) or any(detected.kind == "parallel" for detected in detected_files.values()):
        return Parallel.read(data, **reading)
    examples = Examples.read(data, kind=kinds[0] if len(kinds) == 1 else None, like=like, **reading)
    if examples.kind not in kinds:
        raise _refusal(method, kinds, examples.kind, examples.path)
    return examples


def _are_records_of_text(detected: DetectedFile, reading: Mapping[str, Any]) -> bool:
    """Whether labelled data can also be read as a corpus: records with a field of text, or what the reader chose."""
    return "format" in reading or (detected.format == "jsonl" and (detected.kind != "choices" or "field" in reading))


def _files(data: Paths) -> list[Path]:
    """The files that were given by name, without folders, pipes and stdin."""
    return [Path(path) for path in paths_given(data) if str(path) != STDIN and Path(path).is_file()]


def _refusal(method: str, kinds: Sequence[str], kind: str, path: Path) -> OptionError:
    return OptionError(f"{method} is trained on {_wanted(kinds)}, but {path} contains {SAYS.get(kind, 'text')}")


def _wanted(kinds: Sequence[str]) -> str:
    return " or ".join(FORMS[kind] for kind in kinds)


# ---- telling data from text


def recognise_data(path: str | Path) -> DetectedFile | None:
    """Detect labelled or parallel data; None for text and in case of doubt, so that a novel stays text.

    A folder counts as the kind that more than half of its first files have.
    """
    files = find_sources([path])[:MOST]
    found = [detected for file in files if (detected := _recognise(file))]
    kinds = Counter(detected.kind for detected in found).most_common(1)
    if not kinds or kinds[0][1] <= len(files) / 2:
        return None
    return next(detected for detected in found if detected.kind == kinds[0][0])


def _recognise(file: Source) -> DetectedFile | None:
    request = Request(None, ReadingExamples())
    try:
        lines = request.open(file)
        detected = detect(lines, request)
    except (TextError, OptionError):
        return None
    return detected if _is_certain(detected, lines) else None


def _is_certain(detected: DetectedFile, lines: Lines) -> bool:
    """Whether the file is clearly a table: every line has the same shape, and there are enough lines."""
    full = [line for line in lines.head_lines() if line.strip()]
    if not isinstance(detected.layout, tuple):
        return detected.kind in ("spans", "choices") or len(full) >= FEW
    table, columns = detected.layout
    if detected.kind != "parallel" and "label" not in columns.places:
        return False
    if table.names:
        return True
    if table.format == "first":
        return len(full) >= FEW and all(LABEL.fullmatch(line.split()[0]) for line in full)
    if table.format == "csv":
        return len(full) >= FEW and Path(lines.name).name.lower().split(".")[1:2] == ["csv"]
    delimiter = {"tsv": "\t", "bars": "||"}[table.format]
    return len(full) >= FEW and all(table.admits(line.count(delimiter) + 1) for line in full)
