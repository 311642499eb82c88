from __future__ import annotations

from dataclasses import dataclass

import pytest

from polyseme.errors import OptionError
from polyseme.options import identity_of, make_options, option


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
