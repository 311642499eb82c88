from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from importlib import import_module

import pytest

import polyseme
from polyseme.api import options_of
from polyseme.catalog import COMPOSED, METHODS, TASKS
from polyseme.catalog.methods import Row
from polyseme.disk.folders import checksum
from polyseme.errors import OptionError
from polyseme.old_folders import renamed
from polyseme.options import changed_options, identity_of, keeping_shape, make_options, option, shape, value_type
from polyseme.text.corpus import Corpus


@dataclass(frozen=True)
class Options:
    dim: int = option(100, "length of a vector", minimum=1, maximum=1000)
    lr: float = option(0.05, "learning rate", minimum=0.0)
    loss: str = option("negative", "objective", choices=("negative", "hierarchical"))
    limit: int | None = option(None, "largest number")
    sizes: tuple[int, ...] = option((1, 2), "sizes")
    lower: bool = option(False, "lower case")


def test_an_integer_serves_where_a_float_is_asked_for():
    assert make_options(Options, {"lr": 1}).lr == 1.0


def test_a_list_from_json_becomes_the_tuple_it_was():
    assert make_options(Options, {"sizes": [3, 4]}).sizes == (3, 4)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dmi": 5}, "did you mean 'dim'"),
        ({"vector_size": 5}, "here it is called 'dim'"),
        ({"dim": 0}, "at least 1"),
        ({"dim": 1001}, "at most 1000"),
        ({"dim": 1.5}, "takes int"),
        ({"dim": True}, "takes int"),
        ({"dim": None}, "takes int"),
        ({"lr": float("nan")}, "finite"),
        ({"loss": "hinge"}, "negative, hierarchical"),
        ({"lower": 1}, "takes bool"),
    ],
)
def test_a_wrong_option_says_what_is_admitted(values, message):
    with pytest.raises(OptionError, match=message):
        make_options(Options, values)


def test_none_is_taken_where_the_option_may_be_empty():
    assert make_options(Options, {"limit": None}).limit is None


@dataclass(frozen=True)
class FileOptions:
    table: str | None = option(None, "a file", names="file")
    threads: int = option(1, "threads", changes="speed")


def test_a_file_enters_a_checkpoint_s_identity_by_its_content(tmp_path):
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("1")
    (tmp_path / "c").write_text("2")
    a, b, c = (identity_of(FileOptions(table=str(tmp_path / name), threads=ord(name))) for name in "abc")
    assert a == b != c
    assert identity_of(FileOptions()) == {"table": None}
    with pytest.raises(OptionError, match="cannot be read"):
        identity_of(FileOptions(table=str(tmp_path / "nowhere")))


@dataclass(frozen=True)
class ShapedOptions:
    dim: int = shape(100, "length of a vector")
    lr: float = option(0.1, "learning rate")


def test_a_model_trained_further_keeps_its_shape_and_refuses_another():
    known = ShapedOptions(dim=7, lr=0.5)
    assert keeping_shape(ShapedOptions(lr=0.2), known) == ShapedOptions(dim=7, lr=0.2)
    assert keeping_shape(ShapedOptions(dim=7), known).dim == 7
    with pytest.raises(OptionError, match="dim is 7 in the model to start from, not 8"):
        keeping_shape(ShapedOptions(dim=8), known)


def test_an_option_has_the_same_meaning_in_every_method():
    found = defaultdict(set)
    for row in METHODS:
        cls = options_of(row.name)
        for field in dataclasses.fields(cls):
            kind, _ = value_type(cls, field.name)
            found[field.name].add((kind, field.metadata["changes"] == "speed", field.metadata["names"]))
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}
    for other_name in ("negatives", "max_vocabulary", "vector_size", "learning_rate", "workers", "n_threads", "iter"):
        assert other_name not in found  # negative, max_size, dim, lr, threads and epochs here


def test_a_model_saved_when_options_were_called_otherwise_still_opens(fifty_lines, tmp_path):
    model = polyseme.train("elmo", Corpus.from_sentences(fifty_lines), size="tiny", epochs=0, threads=1, negative=9)
    model.save(tmp_path / "m")
    file = tmp_path / "m" / "model.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    options = manifest["options"]
    options["negatives"], options["max_vocabulary"] = options.pop("negative"), 0
    options["threads"] = 0
    del options["max_size"]
    manifest["checksum"] = checksum(manifest)
    file.write_text(json.dumps(manifest), encoding="utf-8")
    opened = polyseme.load(tmp_path / "m").options
    assert (opened.negative, opened.max_size, opened.threads) == (9, None, None)
    assert renamed("word2vec", {"negative": 5, "threads": 2}) == {"negative": 5, "threads": 2}
    assert renamed("polyglot", {"dim": 64, "batch_size": 1024, "optimizer": "adamw"}) == {"dim": 64}


@pytest.mark.parametrize(
    "method", ["rae", "quick-thought", "skip-thought", "infersent", "conversation", "gensen", "use"]
)
def test_what_only_tasks_can_do_is_no_option_of_an_encoder_with_a_signal_of_its_own(method: str) -> None:
    own = {field.name for field in dataclasses.fields(options_of(method))}
    assert not own & {"encoder_lr", "top_layers", "lm_weight", "max_pieces", "elmo_at", "letters", "layer_rates"}
    assert renamed(method, {"hidden": 64, "top_layers": None, "elmo_at": "input"}) == {"hidden": 64}


@pytest.mark.parametrize("method", [row.name for row in METHODS if hasattr(options_of(row.name), "schedule")])
def test_a_schedule_that_there_is_not_is_told_at_once(method):
    with pytest.raises(OptionError, match="'schedule' must be one of constant, linear"):
        make_options(options_of(method), {"schedule": "lineal"})


@pytest.mark.parametrize(
    ("method", "useless"),
    [
        ("rae", {"dropout": 0.5}),
        ("quick-thought", {"dropout": 0.5}),
        ("skip-thought", {"dropout": 0.5, "encoder_mode": "frozen"}),
        ("gensen", {"encoder_mode": "frozen"}),
        ("tag", {"class_weights": "none"}),
        ("span", {"class_weights": "none"}),
    ],
)
def test_an_option_that_did_nothing_is_gone_and_older_folders_still_open(method, useless):
    with pytest.raises(OptionError, match="unknown option"):
        make_options(options_of(method), useless)
    assert renamed(method, {"min_count": 2, **useless}) == {"min_count": 2}


@pytest.mark.parametrize("method", ["elmo", "bert", "gpt", "xlm"])
def test_the_sizes_of_a_preset_are_not_shown_as_if_they_had_been_chosen(method):
    options = make_options(options_of(method), {"size": "tiny", "dropout": 0.25})
    saved = dataclasses.replace(options.preset(), dropout=0.25)  # a saved model has every size spelled out
    assert saved != options
    assert changed_options(saved) == {"size": "tiny", "dropout": 0.25}


ABSURD = (10**12, -1, math.nan, math.inf)
MEANT = {  # options of which such a number is one more value
    ("seed", 10**12), ("cell_clip", 10**12), ("projection_clip", 10**12),
}  # fmt: skip


@pytest.mark.parametrize("row", [*METHODS, *COMPOSED, *TASKS], ids=lambda row: row.name)
def test_no_method_takes_a_number_that_means_nothing(row: Row) -> None:
    module, class_name = row.options.split(":")
    options = getattr(import_module(module), class_name)
    fields = [field.name for field in dataclasses.fields(options)]
    numbers = [name for name in fields if value_type(options, name)[0] in (int, float)]
    for name, value in itertools.product(numbers, ABSURD):
        if (name, value) in MEANT:
            assert getattr(make_options(options, {name: value}), name) == value
            continue
        with pytest.raises(OptionError) as error:
            make_options(options, {name: value})
        assert "\n" not in str(error.value)
        assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    ("method", "values"),
    [("bert", {"max_size": 10**12}), ("ulmfit", {"max_size": 10**9}), ("elmo", {"threads": 10**6}),
     ("softbow", {"threads": 10**6})],
)  # fmt: skip
def test_what_no_machine_has_is_refused_before_the_text_is_looked_for(method: str, values: dict[str, int]) -> None:
    (name,) = values
    with pytest.raises(OptionError, match=f"'{name}' must be at most"):
        polyseme.train(method, "no such text", **values)
    with pytest.raises(OptionError, match="workers must be at most 1,024"):
        Corpus.build("no such text", workers=10**6)
