"""Waiting for what happens in its own time, without measuring how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater

PATIENCE_SECONDS = 120.0
"""How long a loaded machine may take for what a test waits for; never what a test measures."""


async def until(condition: Callable[[], Any]) -> None:
    """Let the reactor go on until this is true.

    :raises AssertionError: it never was.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if condition():
            return
        await deferLater(reactor, 0.01)  # type: ignore[arg-type]  # the reactor is a module
    raise AssertionError("it never came true")


def wait_for(
    what: str, check: Callable[[], Any], patience_seconds: float = PATIENCE_SECONDS, every_seconds: float = 0.1
) -> Any:
    """Poll until ``check`` gives something true, and give that.

    :raises AssertionError: it never did.
    """
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(every_seconds)
    raise AssertionError(f"never happened: {what}")
