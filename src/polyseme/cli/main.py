"""``polyseme``: one table of commands, each imported when it is called."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any

import click

from polyseme.cli.terminal import SafeFormatter, say
from polyseme.errors import PolysemeError, close_matches, used_as
from polyseme.machine import is_out_of_memory, told_out_of_memory
from polyseme.version import VERSION

# name → (where, one line for --help). In the order in which people meet them.
COMMANDS = {
    "corpus": ("polyseme.cli.text:corpus", "Build a corpus from text."),
    "info": ("polyseme.cli.text:info", "What is this text, corpus or model?"),
    "train": ("polyseme.cli.train:train", "Train a method on a corpus or raw text."),
    "neighbours": ("polyseme.cli.words:neighbours", "Nearest neighbours of a word."),
    "similarity": ("polyseme.cli.encode:similarity", "How similar two words or two texts are."),
    "analogy": ("polyseme.cli.words:analogy", "A is to B as C is to what?"),
    "encode": ("polyseme.cli.encode:encode", "Vectors of words in context, line by line."),
    "fill": ("polyseme.cli.generate:fill", "Words that a language model predicts at a position."),
    "follows": ("polyseme.cli.generate:follows", "Whether one text follows another."),
    "generate": ("polyseme.cli.generate:generate", "Continue a text with a language model."),
    "translate": ("polyseme.cli.generate:translate", "Translate a text."),
    "fit": ("polyseme.cli.tasks:fit", "Train a task: classify, pair, tag, span, choice."),
    "predict": ("polyseme.cli.tasks:predict", "Predict labels of texts with a task model."),
    "score": ("polyseme.cli.tasks:score", "Score a task model on labelled examples."),
    "evaluate": ("polyseme.cli.evaluate:evaluate", "Score a model on test files: similarity, analogy and others."),
    "compare": ("polyseme.cli.evaluate:compare", "Compare models or methods on the same files: a table, a plot."),
    "dimension": ("polyseme.cli.evaluate:dimension", "Choose the vector dimension for a corpus."),
    "distil": ("polyseme.cli.words:distil", "Turn a context encoder into word vectors."),
    "convert": ("polyseme.cli.convert:convert", "Convert to and from published formats."),
    "index": ("polyseme.cli.uses:index", "Index every occurrence of every word."),
    "concordance": ("polyseme.cli.concordance:concordance", "Find a string, a regular expression or words in context."),
    "uses": ("polyseme.cli.uses:uses", "The uses of a word, or occurrences used the same way."),
    "search": ("polyseme.cli.search:search", "Semantic or keyword search over lines or documents."),
    "plot": ("polyseme.cli.plot:plot", "Plots: a word map, training curves, uses of a word."),
    "demo": ("polyseme.cli.demo:demo", "Everything on a real corpus, in minutes."),
    "serve": ("polyseme.cli.serve:serve", "Serve models and indexes: HTTP API and page."),
    "methods": ("polyseme.cli.train:methods", "List the methods."),
}


ALSO = {"senses": "uses"}  # other names of commands


class ReaderLeft(Exception):
    """Nobody reads the output any more (``| head -1``). click would turn a BrokenPipeError into a failure."""


class LazyGroup(click.Group):
    """Commands by name, imported only when called, so that ``--help`` is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        row = COMMANDS.get(ALSO.get(name, name))
        if row is None:
            return None
        module, function = row[0].split(":")
        command: click.Command = getattr(import_module(module), function)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        if args and args[0] not in COMMANDS and args[0] not in ALSO:
            ctx.fail(f"there is no command {args[0]!r}{close_matches(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with used_as("command"):
                return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderLeft from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="polyseme")
def polyseme() -> None:
    """Embeddings of words, of words in context and of sentences, from your own text.

    词向量、语境向量与句向量，来自你自己的文本。
    """


def main() -> None:
    """Run a command. A user's mistake gives one line and exit code 1, wrong usage 2, Ctrl-C 130."""
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup leaves SIGHUP ignored
            signal.signal(number, _end)
    if sys.stdin is None:  # it was closed, and is as good as empty
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    messages = logging.StreamHandler()
    messages.setFormatter(SafeFormatter("polyseme: %(message)s"))
    logging.basicConfig(handlers=[messages], level=logging.WARNING)
    try:
        sys.exit(polyseme.main(prog_name="polyseme", standalone_mode=False) or 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "polyseme"
        message = _no_such_option(error) or error.format_message()
        text, bracket = (message[:-1], "; ") if message.endswith(")") else (message, " (")  # one bracket, not two
        _fail(f"{text}{bracket}{command} --help)", 2)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _fail("stopped", 130)
    except ReaderLeft:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except PolysemeError as error:
        _fail(str(error), 1)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _fail(told_out_of_memory(error), 1)
    except OSError as error:
        if error.errno == errno.ENOSPC and not error.filename:
            _fail("no space left on standard output", 1)
        name = f"{error.filename}: " if error.filename else ""
        _fail(f"{name}{error.strerror or error}", 1)


def _no_such_option(error: click.UsageError) -> str | None:
    """A flag that does not exist: what gensim's or fastText's is called here, or flags with a similar name."""
    if not isinstance(error, click.NoSuchOption) or not error.ctx:
        return None
    from polyseme.options import ELSEWHERE

    here = ELSEWHERE.get(error.option_name.strip("-").replace("-", "_"), "").replace("_", "-")
    flags = [flag for option in error.ctx.command.params for flag in option.opts if flag.startswith("--")]
    meant = f"; here it is called '--{here}'" if f"--{here}" in flags else close_matches(error.option_name, flags)
    return f"there is no option '{error.option_name}'{meant}"


def _end(number: int, frame: FrameType | None) -> None:
    """Terminated by a signal: temporary files are removed on the way out."""
    sys.exit(128 + number)


def _fail(message: str, code: int) -> None:
    say(f"polyseme: {' '.join(message.split())}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
