"""A command that cannot be done: what is wrong, and what to do next."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import IO, Any

import click


class Trouble(Exception):
    """Something that the user of a tool can mend; the tool itself says it, as a :class:`Failed`.

    :param message: what is wrong, and where.
    :param then: what to do about it; None: what most troubles of this kind need.
    :cvar usually: that.
    """

    usually: str

    def __init__(self, message: str, then: str | None = None) -> None:
        super().__init__(message)
        self.then = self.usually if then is None else then


class Failed(click.ClickException):
    """Said in a line, and the next step in another.

    :param message: what is wrong, and where.
    :param then: what to do about it.  Nobody is left alone with an error: there is always something.
    """

    exit_code = 1

    def __init__(self, message: str, then: str) -> None:
        super().__init__(message)
        self.then = then

    def show(self, file: IO[Any] | None = None) -> None:
        """Print both."""
        super().show(file)
        click.echo(f"Next: {self.then}", file=file, err=True)


SEE_SYSTEM = "see that what it names is there, that you may write to it, and that its disk has room; then try again"


def system_words(error: OSError) -> str:
    """What the system did not let a tool do: the file, if it was one, and why, without the system's numbers."""
    where = error.filename
    if isinstance(where, bytes):
        where = os.fsdecode(where)
    why = error.strerror or str(error)
    return f"{where}: {why}" if isinstance(where, str) and where else why


def speak_as_the_terminal_does() -> None:
    """Where it is not UTF-8, what it does not have is shown as a question mark, and ends nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class ToolGroup(click.Group):
    """Commands of a tool: two lines, not a traceback, where the system does not let them do what they should."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        speak_as_the_terminal_does()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            what = system_words(error) if error.filename else f"the output cannot be written: {system_words(error)}"
            with suppress(OSError):
                click.echo(f"Error: {what}\nNext: {SEE_SYSTEM}", err=True)
            with suppress(OSError, ValueError):
                # What is left of the output must not be tried again at the interpreter's end.
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, sys.stdout.fileno())
                os.close(null)
            sys.exit(1)
