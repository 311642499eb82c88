"""The command line as people and programs use it: real processes."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from tests.processes import run_command

from polyseme.api import class_of, options_of
from polyseme.catalog import COMPOSED, METHODS, TASKS
from polyseme.cli.main import COMMANDS, polyseme


def run(*arguments, cwd=None):
    return run_command(*arguments, cwd=cwd, text=True)


def test_help_lists_every_command_without_heavy_imports():
    code = (
        "import sys; from polyseme.cli.main import polyseme; polyseme.main(['--help'], standalone_mode=False);"
        "heavy = ('torch', 'numba', 'transformers', 'scipy', 'sklearn', 'numpy', 'fastapi', 'rich');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


def test_the_help_of_a_method_needs_nothing_that_it_computes_with():
    code = (
        "import sys; from polyseme.catalog import METHODS; from polyseme.cli.main import polyseme\n"
        "for row in METHODS:\n"
        "    polyseme.main(['train', row.name, '--help'], standalone_mode=False)\n"
        "    print(row.name, [m for m in ('torch', 'numba', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for row in METHODS:
        assert f"{row.name} []" in done.stdout.splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    done = CliRunner().invoke(polyseme, [name, "--help"])
    assert done.exit_code == 0
    assert "Usage:" in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


def test_a_mistyped_command_gets_close_matches_in_one_line():
    done = run("corups")
    assert done.returncode == 2
    assert "did you mean 'corpus'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_mistyped_method_gets_close_matches_in_one_line():
    done = run("train", "wrod2vec", "x.txt", "-o", "m")
    assert done.returncode == 2
    assert "did you mean 'word2vec'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("corpus", "x.txt", "-o", "c", "--segment", "jeiba"), "jieba"),
        (("info", "x.txt", "--script", "simplifed"), "simplified"),
        (("train", "svd", "x.txt", "-o", "m", "--documents", "blankline"), "blank-line"),
        (("train", "word2vec", "x.txt", "-o", "m", "--loss", "negativ"), "negative"),
        (("encode", "m", "x.txt", "-o", "x", "--pool", "mena"), "mean"),
    ],
)
def test_a_mistyped_value_gets_close_matches_in_one_line(arguments, meant):
    done = run(*arguments)
    assert done.returncode == 2
    assert f"did you mean '{meant}'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_flag_of_gensim_is_told_by_its_name_here():
    done = run("train", "word2vec", "x.txt", "-o", "m", "--vector-size", "50")
    assert done.returncode == 2
    assert "here it is called '--dim'" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("train",)])
def test_no_command_at_all_gets_the_help_as_it_is_laid_out(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout + done.stderr == run(*arguments, "--help").stdout


@pytest.mark.parametrize("arguments", [("corpus", "x.txt"), ("train", "svd", "x.txt"), ("index", "m", "c")])
def test_a_folder_is_not_written_to_standard_output(arguments, tmp_path):
    done = run(*arguments, "-o", "-", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot be written to stdout" in done.stderr
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("arguments", ["info -", "corpus - -o c", "info ''"])
def test_a_closed_standard_input_or_an_empty_name_is_one_line(arguments, tmp_path):
    command = f"{shlex.quote(sys.executable)} -m polyseme {arguments} <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "polyseme: '' does not exist\n" if "''" in arguments else "polyseme: there is no text in standard input\n"
    )


@pytest.mark.parametrize("arguments", [("info",), ("train", "word2vec"), ("info", "/nowhere/at/all"), ("--nonsense",)])
def test_wrong_usage_is_one_line_and_a_code(arguments):
    done = run(*arguments)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("polyseme: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_methods_is_the_catalog():
    listed = json.loads(run("methods", "--json").stdout)
    assert [row["name"] for row in listed] == [row.name for row in (*METHODS, *COMPOSED)]
    table = run("methods").stdout
    for row in METHODS:
        assert row.name in table
        assert row.chinese in table


@pytest.mark.parametrize("row", METHODS, ids=[row.name for row in METHODS])
def test_every_option_of_a_method_is_a_flag_with_its_help(row):
    shown = " ".join(CliRunner(env={"COLUMNS": "300"}).invoke(polyseme, ["train", row.name, "--help"]).stdout.split())
    assert options_of(row.name) is class_of(row.name).Options
    given = getattr(options_of(row.name), "for_encoders", ())  # to training no encoder is given
    for field in dataclasses.fields(options_of(row.name)):
        assert (f"--{field.name.replace('_', '-')} " in shown) == (field.name not in given)
        assert " ".join(field.metadata["help"].split()[:4]) in shown or field.name in given


@pytest.mark.parametrize(
    "command", [["fit"], *(["fit", row.name] for row in TASKS), *(["train", r.name] for r in METHODS)]
)
def test_help_fits_80_columns_where_a_chinese_character_takes_two(command):
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(polyseme, [*command, "--help"]).stdout
    assert [line for line in shown.splitlines() if cell_len(line) > 80] == []


def test_a_closed_pipe_is_not_an_error_message(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "polyseme", "methods"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert "Traceback" not in done.stderr


def test_wrong_usage_names_the_help_of_the_command_itself():
    assert "(polyseme train word2vec --help)" in run("train", "word2vec", "x.txt", "-o", "m", "--dmi", "8").stderr


def test_advice_stands_in_one_bracket_and_names_the_flag_that_was_meant():
    assert run("train", "wrd2vec", "x").stderr.endswith("(see polyseme methods; polyseme train --help)\n")
    told = run("train", "word2vec", "x.txt", "-o", "m", "--mincount", "8").stderr
    assert told.startswith("polyseme: there is no option '--mincount'; did you mean '--min-count'")


def test_a_command_that_is_asked_to_end_removes_its_temporary_files(tmp_path):
    command = [sys.executable, "-m", "polyseme", "corpus", "-", "-o", str(tmp_path / "c"), "--workers", "1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdin
        while not list(tmp_path.iterdir()):  # the reader waits for more
            process.stdin.write(b"one two three\n" * 100_000)
            process.stdin.flush()
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_every_command_that_writes_a_file_can_be_told_to_replace_it():
    found = set()
    for name in COMMANDS:
        command = polyseme.get_command(click.Context(polyseme), name)
        several = [command]
        if isinstance(command, click.Group):
            several = [command.get_command(click.Context(command), each) for each in command.list_commands(None)]
        for each in several:
            names = {parameter.name for parameter in each.params}
            if names & {"out", "picture", "target"} and name != "demo":  # the demo goes on with what is its own
                assert "force" in names, name
                found.add(name)
    assert {"train", "fit", "predict", "score", "encode", "dimension", "concordance", "convert", "index"} <= found
