"""Hostile files: mutations of every format we open, ours and published, each read in a child with limits.

An altered file must open or be rejected in one line: no traceback, no crash, no hang, no memory beyond the limit. Half
of our own folders get valid checksums after the mutation, as a deliberate attacker would do. Published files come from
the folder of test data (POLYSEME_TEST_DATA); without it only formats that polyseme writes are tried.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from pathlib import Path

import faults_data
from faults_common import Tally, bounded_memory, command, digest, in_child, in_this_process, small_steps
from faults_jobs import World
from faults_mutations import mutated, sealed_anew
from faults_subject import Subject, use_model, use_task
from polyseme.errors import PolysemeError
from polyseme.search import Index
from polyseme.text.corpus import Corpus

DATA = Path(os.environ.get("POLYSEME_TEST_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
BATCH = 50  # mutations per child
SECONDS = 20
BERT = ("config.json", "model.safetensors", "vocab.txt", "tokenizer.json")
MEGABYTES = 1500
ASIDE = ("training.jsonl", "model.json", "index.json")  # contain speeds, and paths of the sources


def campaign(world: World, *, mutations: int, seed: int) -> list[Tally]:
    """Try this many mutations, spread evenly over the formats."""
    with small_steps():
        return _campaign(world, mutations, seed)


def _campaign(world: World, mutations: int, seed: int) -> list[Tally]:
    place = world.home / "data"
    place.mkdir(exist_ok=True)
    data = [*faults_data.texts(place), *faults_data.examples(world, place), *faults_data.made_published(place)]
    subjects = [*_ours(world), *(data[::4] if world.short else [*data, *_published()])]
    tallies = {subject.name: Tally(f"altered {subject.name}") for subject in subjects}
    todo = [(subjects[number % len(subjects)], seed * 10**7 + number) for number in range(mutations)]
    todo.sort(key=lambda item: item[0].name)  # children then need the same imports
    for subject in subjects:
        subject.use(_copied(subject, world.home / "whole"))  # warms up, and checks that it opens unaltered
    while todo:
        todo = todo[_batch(todo[:BATCH], world.home / "altered", tallies) :]
    return list(tallies.values())


def _copied(subject: Subject, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    target = place / subject.path.name
    if subject.path.is_dir():
        shutil.copytree(subject.path, target, symlinks=True)
        target.chmod(0o755)
    else:
        shutil.copyfile(subject.path, target)
    return target


def _batch(todo: list[tuple[Subject, int]], place: Path, tallies: dict[str, Tally]) -> int:
    """Try some mutations; return how many were tried. The child reports after each, so a crash can be attributed."""
    report = place.with_name("report")
    report.write_text("")

    def action() -> int:
        for subject, seed in todo:
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            outcome = _try(subject, seed, place)
            with open(report, "a", encoding="utf-8") as file:
                file.write(json.dumps(outcome) + "\n")
        return 0

    ended = in_child(action, limit=bounded_memory(MEGABYTES), seconds=SECONDS)
    outcomes = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    if len(outcomes) < len(todo):
        outcomes.append(f"BROKEN {ended.failure or 'ended early'}")
    for (subject, seed), outcome in zip(todo, outcomes, strict=False):
        tally = tallies[subject.name]
        tally.tried += 1
        tally.check(not outcome.startswith("BROKEN"), f"seed {seed}: {outcome}")
        if not outcome.startswith("BROKEN"):
            tally.count(outcome)
    return len(outcomes)


def _try(subject: Subject, seed: int, place: Path) -> str:
    rng = random.Random(seed)
    target = _copied(subject, place)
    what = _alter(target, subject.files, rng)
    try:
        subject.use(target)
    except PolysemeError as error:
        return "refused" if "\n" not in str(error) else f"BROKEN {what}: several lines: {error}"
    except BaseException as error:
        return f"BROKEN {what}: {type(error).__name__}: {str(error)[:300]}"
    return "opened"


def _alter(target: Path, names: tuple[str, ...], rng: random.Random) -> str:
    if target.is_dir():
        found = sorted(p for p in target.rglob("*") if p.is_file() and (not names or p.name in names))
        file = rng.choice(found)
    else:
        file = target
    file.chmod(0o644)
    data = file.read_bytes()
    if rng.random() < 0.03:
        how = _other_thing(file, rng)
    else:
        how, data = mutated(data, rng)
        file.write_bytes(data)
    if target.is_dir() and rng.random() < 0.5:
        with suppress(Exception):  # if nothing is left to seal
            sealed_anew(target)
    return f"{file.name} {how}"


def _other_thing(file: Path, rng: random.Random) -> str:
    """Replace a file by a pipe, a folder, a device, a link or nothing."""
    file.unlink()
    what = rng.choice(("pipe", "folder", "device", "link to itself", "link to nothing", "nothing"))
    if what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    elif what != "nothing":
        file.symlink_to({"device": "/dev/zero", "link to itself": file.name, "link to nothing": "gone"}[what])
    return what


# ---- what is opened, and how


def use_corpus(path: Path) -> None:
    """Open a corpus and read from it."""
    corpus = Corpus.open(path)
    for place in {0, len(corpus) // 2, len(corpus) - 1}:
        corpus.token_spans(place)
        corpus.text(place)
    corpus.vocabulary.cut(max_size=5)


def _use_index(world: World) -> Callable[[Path], None]:
    def use(path: Path) -> None:
        index = Index.open(path, model=world.home / "static", corpus=world.home / "corpus")
        word = index.words.words[0]
        index.same_sense([word], word=word)
        index.same_sense([word], word=word, any_word=True)

    return use


def _use_unfinished(wanted: str, *arguments: object) -> Callable[[Path], None]:
    """Resume from a checkpoint, with ``OUT`` as output; the result must equal that of an uninterrupted run."""

    def use(path: Path) -> None:
        out = path.with_name(path.name.removesuffix(".checkpoint"))
        from polyseme.cli.main import polyseme as commands

        given = [str(out) if argument == "OUT" else str(argument) for argument in arguments]
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
            commands.main([*given, "--resume"], standalone_mode=False)
        if digest(out, ASIDE) != wanted:
            raise AssertionError("resumed, it ends in other bits")

    return use


def _ours(world: World) -> Iterator[Subject]:
    home, place = world.home, world.home / "subjects"
    place.mkdir(exist_ok=True)
    yield Subject("model folder", home / "vectors", use_model)
    yield Subject("composed model", home / "static", use_model)
    if not world.short:
        yield Subject("ELMo folder", home / "elmo", use_model)
    yield Subject("corpus", home / "corpus", use_corpus)
    in_this_process(
        *("index", home / "static", home / "corpus", "-o", place / "index", "--dim", 6, "--cells-from", 50, "--force")
    )
    yield Subject("index", place / "index", _use_index(world))
    for name, form in (("v.vec", "word2vec-text"), ("v.bin", "word2vec-binary"), ("v.txt", "glove")):
        in_this_process("convert", home / "vectors", place / name, "--to", form, "--force")
        yield Subject(form, place / name, use_model)
    for packing in ("gz", "bz2", "xz"):
        in_this_process("convert", home / "vectors", place / f"v.vec.{packing}", "--force")
        yield Subject(f"word2vec-text.{packing}", place / f"v.vec.{packing}", use_model)
    in_this_process("convert", home / "vectors", place / "ft.bin", "--to", "fasttext", "--force")
    yield Subject("fastText", place / "ft.bin", use_model)
    if not world.short:
        in_this_process("convert", home / "elmo", place / "bilm", "--to", "bilm-tf")
        yield Subject("bilm-tf", place / "bilm", use_model)
        yield from _more_models(world, place)
    word2vec = ("train", "word2vec", home / "corpus", "-o", "OUT", "--dim", 4, "--epochs", 2, "--threads", 1)
    yield _interrupted("checkpoint of a training", place / "t", word2vec)
    index = ("index", home / "static", home / "corpus", "-o", "OUT", "--dim", 4)
    yield _interrupted("checkpoint of an index", place / "i", index)


def _more_models(world: World, place: Path) -> Iterator[Subject]:
    """Models of other families: TF-IDF, and a task with its head."""
    examples = place / "labelled.tsv"
    lines = [f"{'ab'[n % 2]}\t词{n % 7} 词{n % 2}\n" for n in range(40)]
    examples.write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    in_this_process("train", "tfidf", world.home / "corpus", "-o", place / "tfidf")
    yield Subject("TF-IDF folder", place / "tfidf", use_model)
    options = ("--head", "dan", "--hidden", 8, "--epochs", 1, "--threads", 1)
    in_this_process("fit", "classify", "--train", examples, "-o", place / "task", *options)
    yield Subject("task folder", place / "task", use_task)


def _interrupted(name: str, out: Path, arguments: tuple[object, ...]) -> Subject:
    """The checkpoint of a command that was killed halfway."""
    given = [out if argument == "OUT" else argument for argument in arguments]
    in_this_process(*given)
    wanted = digest(out, ASIDE)
    shutil.rmtree(out)
    kept, point = out.with_name(f"{out.name}.checkpoint"), 10
    while not _half_done(kept):
        in_child(command(*given), kill_before=point)
        shutil.rmtree(out, ignore_errors=True)
        point += 2
    return Subject(name, kept, _use_unfinished(wanted, *arguments))


def _half_done(kept: Path) -> bool:
    state = kept / "building.json"
    return kept.is_file() or (state.exists() and json.loads(state.read_bytes())["sentences"] > 100)


def _published() -> Iterator[Subject]:
    if not DATA.is_dir():
        print(f"no published files at {DATA}: only formats that polyseme writes are tried")
        return
    models, elmo = DATA / "models", DATA / "elmo"
    for name, path, files in (
        ("bilm-tf of AllenNLP", elmo / "bilm-tf" / "model", ("options.json", "lm_weights.hdf5")),
        ("ELMoForManyLangs", elmo / "elmoformanylangs" / "model", ()),
        ("AllenNLP .th", elmo / "allennlp" / "simple_tagger_with_elmo" / "serialization" / "best.th", ()),
        ("Hugging Face BERT", models / "hf_tiny" / "bert-tiny-zh", BERT),
        ("Hugging Face GPT-2", models / "hf_tiny" / "gpt2-tiny", ()),
        ("TensorFlow BERT", models / "tf_tiny" / "bert-tiny-zh", ()),
        ("GloVe of Stanford", models / "gensim_test_data" / "test_glove.txt", ()),
        ("fastText .ftz", models / "fasttext" / "lid.176.ftz", ()),
        ("fastText of Facebook", models / "gensim_test_data" / "toy-model.bin", ()),
        ("word2vec of BPEmb", models / "bpemb" / "en.wiki.bpe.vs1000.d25.w2v.bin", ()),
    ):  # fmt: skip
        if path.exists():
            yield Subject(name, path, use_model, files)
