"""The clock that all timers run on: seconds since the machine was booted, those in which it slept included.

Twisted's reactors take the wall clock for their timers.  When that is set back by an hour, nothing that was to happen
within a second happens for an hour; when it is set forward, all that waits happens at once.  CLOCK_BOOTTIME is never
set.  CLOCK_MONOTONIC is not, either, but stands still while the machine sleeps: a robot that wakes up would take an
order's time for not yet over that has passed everywhere else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Systems without the first have a CLOCK_MONOTONIC that does not stand still, or do not sleep."""

boot_seconds: Callable[[], float] = partial(time.clock_gettime, CLOCK)
"""Seconds since the machine was booted."""


def use_boot_time(reactor: Any) -> None:
    """Let a reactor's timers run on this clock, unless they do already.  To be called before it runs.

    Everything in a reactor that asks for the time asks its ``seconds``: ``callLater``, how long it may sleep, what is
    due.  The length of a sleep is given to the kernel, which counts on a clock of its own.  So any reactor on
    :class:`twisted.internet.base.ReactorBase` will do (epoll, poll, select, asyncio).  Nobody may take ``seconds()``
    for the time of day; ``twisted.web`` does so for its access log, which no site of the LCC has.

    :raises RuntimeError: it runs on another clock already.
    """
    if reactor.seconds is boot_seconds:
        return
    if reactor.running:
        raise RuntimeError("the reactor is already running: its clock cannot be replaced")
    ahead = reactor.seconds() - boot_seconds()
    for call in reactor.getDelayedCalls():  # as it has not run, they are in no order yet
        call.time -= ahead
        call.seconds = boot_seconds
    reactor.seconds = boot_seconds


def react(main: Callable[..., Any], arguments: tuple[Any, ...] = ()) -> None:
    """:func:`twisted.internet.task.react` on this clock.

    :raises SystemExit: always, as that does.
    """
    from twisted.internet import task

    def begin(reactor: Any, *arguments: Any) -> Any:
        use_boot_time(reactor)
        return main(reactor, *arguments)

    task.react(begin, arguments)
