"""Errors of command line tools: what is wrong, and what to do next."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import IO, Any

import click


class Trouble(Exception):
    """An error that the user can correct; tools report it as a :class:`Failed`.

    :param message: what is wrong, and where.
    :param then: what to do next; None: ``usually``.
    :cvar usually: what to do next about most errors of this kind.
    """

    usually: str

    def __init__(self, message: str, then: str | None = None) -> None:
        super().__init__(message)
        self.then = self.usually if then is None else then


class Failed(click.ClickException):
    """A failed command: prints the error and the next step, a line each.

    :param message: what is wrong, and where.
    :param then: what to do next.
    """

    exit_code = 1

    def __init__(self, message: str, then: str) -> None:
        super().__init__(message)
        self.then = then

    def show(self, file: IO[Any] | None = None) -> None:
        """Print both."""
        super().show(file)
        click.echo(f"Next: {self.then}", file=file, err=True)


SEE_SYSTEM = "check that it exists, is writable and that its disk has room; then try again"


def os_error_text(error: OSError) -> str:
    """The file and reason of an ``OSError``, without errno."""
    where = error.filename
    if isinstance(where, bytes):
        where = os.fsdecode(where)
    why = error.strerror or str(error)
    return f"{where}: {why}" if isinstance(where, str) and where else why


def replace_unencodable_output() -> None:
    """Print characters that the terminal's encoding lacks as ``?`` instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class ToolGroup(click.Group):
    """A command group that reports an ``OSError`` in two lines instead of a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        replace_unencodable_output()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            what = os_error_text(error) if error.filename else f"cannot write the output: {os_error_text(error)}"
            with suppress(OSError):
                click.echo(f"Error: {what}\nNext: {SEE_SYSTEM}", err=True)
            with suppress(OSError, ValueError):
                # What is left of the output must not be tried again at the interpreter's end.
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, sys.stdout.fileno())
                os.close(null)
            sys.exit(1)
