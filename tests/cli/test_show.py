from __future__ import annotations

import io
import re
import sys

from rich.cells import cell_len

from polyseme.cli.tables import print_table
from polyseme.cli.terminal import say_end, shown_progress
from polyseme.words.epochs import PREPARING


def test_columns_stand_under_each_other_whatever_the_script(capsys):
    print_table(("word", "count"), [("打", 12), ("play", 1_234_567), ("ａ打b", 3)])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "word       count",
        "打            12",
        "play   1,234,567",
        "ａ打b          3",
    ]
    assert {cell_len(line) for line in lines} == {16}


def test_a_piped_table_keeps_long_lines_whole_and_has_no_trailing_blanks(capsys):
    print_table(("name", "text"), [("a", "长" * 300), ("b", "short")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "a     " + "长" * 300
    assert lines[2] == "b     short"


def test_text_that_no_terminal_takes_is_shown_all_the_same(capsys):
    print_table(("word",), [("a\udce4b",), ("\ud800",)])
    assert capsys.readouterr().out.splitlines() == ["word", "a\ufffdb", "\ufffd"]


def test_the_end_is_said_once(capsys, monkeypatch):
    clock = iter(range(0, 100, 11))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with shown_progress() as progress:
        for done in (0, 5, 10):
            progress("reading", done, 10)
        monkeypatch.setattr("time.monotonic", lambda: 25)
        progress("reading", 10, 10)
    assert capsys.readouterr().err.splitlines() == ["reading 50% (11 s, 11 s left)", "reading 100% (22 s)"]


class Terminal(io.StringIO):
    """Standard error as a terminal of 80 columns."""

    def __init__(self, monkeypatch):
        super().__init__()
        monkeypatch.setattr("sys.stderr", self)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERM", "xterm")

    def isatty(self):
        return True

    def lines(self):
        return [re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", line).strip("\r") for line in self.getvalue().splitlines()]


FIGURES = {"epoch": 0.27, "loss": 6.278, "forward_perplexity": 962.7, "backward_perplexity": 994.7}


def test_80_columns_show_loss_perplexity_and_the_time_that_is_left(monkeypatch):
    terminal = Terminal(monkeypatch)
    with shown_progress() as progress:
        progress("training", 23, 100, **FIGURES, tokens_per_second=3484)
    lines = terminal.lines()
    assert any("loss 6.278  ppl fwd 962.7  bwd 994.7" in line and " left " in line for line in lines), lines
    assert all(cell_len(line) <= 80 for line in lines)


def test_the_long_name_of_what_is_done_takes_no_room_from_the_figures(monkeypatch):
    terminal = Terminal(monkeypatch)
    with shown_progress() as progress:
        progress(PREPARING, 1, 1)
        progress("training", 23, 100, **FIGURES)
    assert any("loss 6.278  ppl fwd 962.7  bwd 994.7" in line for line in terminal.lines())


def test_work_of_unknown_size_has_a_whole_clock_and_neither_a_share_nor_a_time_that_is_left(monkeypatch):
    terminal = Terminal(monkeypatch)
    with shown_progress() as progress:
        progress(PREPARING, 0, None)
    (line,) = {line.strip() for line in terminal.lines() if line.strip()}
    assert re.fullmatch(re.escape(PREPARING) + r" +0:00:00", line)


def test_a_result_in_a_file_is_whole_while_the_terminal_shows_the_progress(monkeypatch):
    terminal, file, line = Terminal(monkeypatch), io.StringIO(), "长" * 300
    monkeypatch.setattr("sys.stdout", file)
    with shown_progress("-") as progress:
        sys.stdout.write(line + "\n")
        progress("predicting", 1, 1)
    assert file.getvalue() == line + "\n"
    assert "predicting" in terminal.getvalue()


def test_a_result_on_the_terminal_has_no_bar_between_its_lines(monkeypatch):
    terminal = Terminal(monkeypatch)
    monkeypatch.setattr("sys.stdout", terminal)
    with shown_progress("-") as progress:
        sys.stdout.write("长" * 300 + "\n")
        progress("predicting", 1, 1)
    assert terminal.getvalue() == "长" * 300 + "\n"


def test_only_the_first_of_several_processes_reports(capsys, monkeypatch):
    told = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        with shown_progress() as progress:
            progress("reading", 0, None)
        say_end("bert model in m", 0, then="polyseme index m")
        told.append(capsys.readouterr().err.splitlines())
    assert [len(lines) for lines in told] == [3, 0]
