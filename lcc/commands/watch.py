"""``--watch``: refresh output, on a full screen where the terminal can, as plain blocks elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from lcc.commands.errors import Failed

F = TypeVar("F", bound=Callable[..., Any])
EVERY_SECONDS = 2.0

NO_CURSOR = ("dumb", "unknown")
"""Terminals on which nothing can be redrawn."""

interval_option = click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    default=EVERY_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Refresh interval.",
)


def watch_option(command: F) -> F:
    """``--watch`` and ``--every``; the command gets them as ``watch`` and ``every``."""
    return click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")(interval_option(command))


def refresh_until_interrupted(look: Callable[[], str], every_seconds: float, *, json_lines: bool = False) -> None:
    """Print this text every so often, until Ctrl-C.  Errors are printed and retried.

    :param json_lines: print one line per refresh, without blank lines.
    """
    try:
        if sys.stdout.isatty() and not json_lines and os.environ.get("TERM") not in NO_CURSOR:
            _redraw(look, every_seconds)
        while True:
            try:
                click.echo(look() if json_lines else f"{clean(look())}\n")
            except Failed as error:
                click.echo(f"Error: {error.message}\nNext: {error.then}", err=True)
            sys.stdout.flush()
            time.sleep(every_seconds)
    except KeyboardInterrupt:
        return


def _redraw(look: Callable[[], str], every_seconds: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = look()
            except Failed as error:
                shown = f"Error: {error.message}\nNext: {error.then}"
            shown = f"{clean(shown)}\n\n(every {every_seconds:g} s, Ctrl-C ends)"
            live.update(Text(shown, overflow="fold"), refresh=True)
            time.sleep(every_seconds)


def clean(text: str) -> str:
    """Replace control characters, which may come from outside, before printing to a terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text)
