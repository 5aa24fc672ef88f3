"""Errors of command line tools: what is wrong, and what to do next."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
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


class Misused(click.UsageError):
    """A command line that is wrong: prints usage, error and the next step, a line each.

    :param path: of the command whose help tells more.
    """

    def __init__(self, error: click.UsageError, path: str) -> None:
        super().__init__(error.format_message(), error.ctx)
        self.path = path if error.ctx is None else error.ctx.command_path

    def show(self, file: IO[Any] | None = None) -> None:
        """Print all three."""
        if self.ctx is not None:
            click.echo(self.ctx.get_usage(), file=file, err=True)
        click.echo(f"Error: {self.message}\nNext: {self.path} --help", file=file, err=True)


_HELP = tuple(filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)]))
"""What a group without arguments ends with in newer versions of click: its help."""


@contextmanager
def _with_next_step(path: str) -> Iterator[None]:
    try:
        yield
    except (Misused, *_HELP):
        raise
    except click.UsageError as error:
        raise Misused(error, path) from None


class Tool(click.Command):
    """A program whose usage errors say what to do next."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As click does."""
        with _with_next_step(info_name or ""):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does."""
        with _with_next_step(ctx.command_path):
            return super().invoke(ctx)


class ToolGroup(Tool, click.Group):
    """A program with commands: suggests near ones, and reports an ``OSError`` in two lines instead of a traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; it only knows commands that have been imported."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = get_close_matches(name, self.list_commands(ctx))
            suggested = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {name!r}.{suggested}")
        return super().resolve_command(ctx, args)

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
