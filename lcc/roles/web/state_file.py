"""Keeps what the monitor has seen over a restart: a small file, written every minute and at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.storage.disk.durable import write_durably
from lcc.storage.disk.file_system import Disk

_log = Logger()

SAVE_SECONDS = 60.0


class Saved(Protocol):
    """An object with state to save; its names in the file are its own."""

    def kept(self) -> dict[str, Iterable[Any]]:
        """All of it: lists of what is JSON, by their names."""

    def restore(self, kept: Mapping[str, Any]) -> None:
        """What :meth:`kept` gave in another run, with what others gave.

        :raises ValueError, TypeError, KeyError, AttributeError: it did not.
        """


class StateFile:
    """Loads and saves the state file.

    :param parts: what is kept.
    :param path: of the file; None: nothing is kept.
    :param in_thread: calls a function that blocks.
    """

    def __init__(self, path: Path | None, disk: Disk, in_thread: Callable[..., Deferred[Any]], *parts: Saved) -> None:
        self._parts = parts
        self._path = path
        self._disk = disk
        self._in_thread = in_thread
        self._next = 0.0
        self._failed = False
        self._saving: Deferred[Any] | None = None

    def load(self) -> None:
        """What was kept; a file that cannot be used is none."""
        if self._path is None:
            return
        try:
            kept = json.loads(self._disk.read(self._path))
            for part in self._parts:
                part.restore(kept)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            _log.warn("Cannot use {path}, the plots start afresh: {error}", path=str(self._path), error=error)

    def save(self, now: float) -> None:
        """Keep it, if it is time to."""
        if self._path is not None and now >= self._next and self._saving is None:
            self._next = now + SAVE_SECONDS
            self._write()

    def close(self) -> Deferred[Any]:
        """Keep it now; fires when that is done."""
        if self._path is None:
            return succeed(None)
        if self._saving is not None:
            return self._saving.addBoth(lambda _: self._write())
        return self._write()

    def _write(self) -> Deferred[Any]:
        assert self._path is not None
        kept = [item for part in self._parts for item in part.kept().items()]
        data = b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), _encoded(values)) for name, values in kept)
        saving = self._saving = self._in_thread(write_durably, self._path, data, self._disk)
        return saving.addCallbacks(self._saved, self._not_saved)

    def _saved(self, _: Any) -> None:
        self._saving = None
        self._failed = False

    def _not_saved(self, failure: Failure) -> None:
        self._saving = None
        failure.trap(OSError)
        if not self._failed:  # once, not every minute
            _log.warn("Cannot save the samples of the plots: {error}", error=failure.getErrorMessage())
        self._failed = True


def _encoded(values: Iterable[Any]) -> bytes:
    """A JSON list, made value by value.

    Encoded at once, samples take 1.4 KB each meanwhile, which the process then keeps: it grew until the plots' rings
    were full.
    """
    return b"[%b]" % b",".join(json.dumps(value, separators=(",", ":")).encode() for value in values)
