"""Progress bars on standard error, if it is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

REDRAW_SECONDS = 0.2


def is_watched() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


@contextmanager
def progress(
    what: str, total: int | None = None, *, in_bytes: bool = False, unless_shown: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yields a function to call with each increment.

    :param total: None: unknown, so no time left is shown.
    :param unless_shown: no bar if standard output is a terminal, too.
    """
    if not is_watched() or (unless_shown and sys.stdout.isatty()):
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    left = TimeElapsedColumn() if total is None else TimeRemainingColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, left)
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total)
    done = 0
    next_time = 0.0

    def more(number: int) -> None:
        nonlocal done, next_time
        done += number
        now = time.monotonic()
        if now >= next_time:
            next_time = now + REDRAW_SECONDS
            bar.update(task, completed=done)

    with bar:
        yield more


def counting(what: str, things: Iterable[T]) -> Iterator[T]:
    """Yield these things with a progress bar, unless they are shown on the terminal themselves."""
    with progress(what, unless_shown=True) as more:
        for thing in things:
            yield thing
            more(1)


def _ignore(_: int) -> None:
    """Ignore an increment."""
