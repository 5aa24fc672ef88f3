"""Shared by the provider's three commands: start-up, error reporting, exit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

import click

from lcc.commands.errors import SEE_SYSTEM, Failed, Trouble, os_error_text, replace_unencodable_output
from lcc.commands.standard_streams import input_was_closed

_program = "lcc"


class Fault(Failed):
    """The command ends with exit code 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error after the command's name: in a pipeline of three it matters which one failed."""
        click.echo(f"{_program}: {self.format_message()}", file=file, err=True)
        click.echo(f"{_program}: next: {self.then}", file=file, err=True)


class BadInput(Fault):
    """What was given cannot be used, and nothing was sent; exit code 2, as for wrong options."""

    exit_code = 2


def standard_input(fault: type[Fault], reading: str) -> IO[bytes]:
    """Standard input; if it is a terminal, says so.

    :param fault: raised where standard input is closed: that is no empty input.
    :param reading: "reading …".
    """
    if input_was_closed():
        raise fault("standard input is closed", "pipe another program's output into it, or redirect a file: < FILE")
    if sys.stdin.isatty():
        click.echo(f"{_program}: {reading} from the terminal; end with Ctrl-D", err=True)
    return sys.stdin.buffer


def next_step(error: Trouble | OSError) -> str:
    """The next step for this error."""
    if isinstance(error, Trouble):
        return error.then
    return SEE_SYSTEM


def in_words(error: Trouble | OSError) -> str:
    """The text of this error, without errno."""
    return printable(os_error_text(error) if isinstance(error, OSError) else str(error))


def run(command: click.Command, name: str) -> None:
    """Run a command as a console script."""
    global _program
    _program = name
    replace_unencodable_output()
    try:
        command.main(prog_name=name)
    except OSError as error:  # what is read or sent has its own words: this is the output
        say(f"{name}: cannot write the output: {error.strerror or error}", err=True)
        _give_up(sys.stdout)
        sys.exit(1)


def say(line: str, err: bool = False) -> None:
    """Print a line; failing to write it is ignored."""
    try:
        click.echo(line, err=err)
    except OSError as error:
        _give_up(sys.stderr if err else sys.stdout)
        if not err and not isinstance(error, BrokenPipeError):  # a reader that has seen enough is no fault
            say(f"{_program}: cannot write the output: {error.strerror or error}", err=True)


def _give_up(stream: IO[Any]) -> None:
    """Discard buffered output, so that the interpreter does not try to flush it at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def printable(text: str, most: int = 500) -> str:
    """Text from a peer or a file system, safe for a terminal: control characters are replaced, length is bounded."""
    if not text.isprintable():
        text = "".join([char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text])
    return text if len(text) <= most else text[: most - 1] + "…"


class Notes:
    """Notes to the user on standard error: the first few of each kind in full, then only how many more.

    :param program: who speaks.
    :param most: how many of a kind are printed.
    :param quiet: print none; they are counted all the same.
    """

    def __init__(self, program: str, most: int = 10, quiet: bool = False, echo: Callable[[str], None] | None = None):
        self._program = program
        self._most = most
        self._quiet = quiet
        self._echo = echo or (lambda line: click.echo(line, err=True))
        self.counts: dict[str, int] = {}

    def add(self, kind: str, text: str) -> None:
        """One more note of this kind."""
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if count <= self._most and not self._quiet:
            self._echo(f"{self._program}: {printable(text)}")

    def finish(self, **summaries: str) -> None:
        """Tell how many notes of each kind were not printed.

        :param summaries: kind -> what they are, as in "… and 12 more *of unknown type*".
        """
        for kind, count in self.counts.items():
            if count > self._most and not self._quiet:
                self._echo(f"{self._program}: … and {count - self._most:,} more {summaries.get(kind, kind)}")
