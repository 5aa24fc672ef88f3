"""Keeps content safe from a crash of the machine (promise P7; :mod:`lcc.storage.disk.content_sync`).

*Syncing.*  Every so often the file system is synced, in a thread, and the mark moves on to the oldest file that is
still to come.  When this process ends in order it is synced once more.

*Verifying.*  After the machine has crashed, what is younger than the mark is suspect.  The hello says so; the queue
manager names each of these files that a row refers to, with length and hash; they are read in a thread, one after the
other, not faster than is configured; what is not as it must be is fetched again.  When the queue manager has all of
them (``<intact/>``), nothing is suspect any longer.

A process that was killed loses nothing: what it wrote is in the kernel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from lcc.config import BotmConfig
from lcc.errors import StreamError
from lcc.interfaces import IContentFolder, IContentSync
from lcc.protocols.flat import Flat
from lcc.protocols.work import Checked, Intact, Verify
from lcc.roles.background import Background
from lcc.roles.upstream import Upstream

_log = Logger()

ASKED_MAX = 1000
"""Files that the queue manager may ask about at once."""

InThread = Callable[..., Deferred[Any]]
"""``in_thread(function, *args)`` runs a function that blocks."""


class Syncer:
    """Syncs the content folder, and verifies it after a crash of the machine.

    :param safe_upto: all files below this id that will ever be accepted are accepted.
    """

    def __init__(
        self,
        settings: BotmConfig,
        clock: IReactorTime,
        content: IContentFolder,
        sync: IContentSync,
        in_thread: InThread,
        safe_upto: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._content = content
        self._sync = sync
        self._in_thread = in_thread
        self._safe_upto = safe_upto
        self._lock = DeferredLock()  # the sync's methods are called one at a time
        self._loop = LoopingCall(self._advance)
        self._loop.clock = clock
        self._failing = False
        self._all_intact = False
        self._damaged: set[int] = set()
        self._asked: deque[Verify] = deque()
        self._link: Upstream | None = None
        self._verifying = Background("Cannot verify content")

    @property
    def suspect(self) -> tuple[int, int]:
        """Files from the first to before the second are to be verified; (0, 0): none."""
        return self._sync.suspect

    def is_suspect(self, file_id: int) -> bool:
        """A crash of the machine may have damaged this file."""
        first, upto = self._sync.suspect
        return first <= file_id < upto

    def is_damaged(self, file_id: int) -> bool:
        """A crash of the machine has damaged this file."""
        return file_id in self._damaged

    def start(self) -> None:
        """Begin to sync."""
        self._loop.start(self._settings.sync_interval, now=False)

    def stop(self) -> Deferred[None]:
        """No file is accepted any longer: sync once more."""
        if self._loop.running:
            self._loop.stop()
        self.disconnected()
        return self._locked(self._sync.close)

    # Syncing.

    def _advance(self) -> Deferred[None]:
        # What is intact was not noted yet, if the disk did not take it.
        is_to_note = self._all_intact and self.suspect != (0, 0)
        return self._locked(self._sync.intact if is_to_note else self._sync.advance, self._safe_upto)

    def _locked(self, method: Callable[..., None], upto: Callable[[], int] | None = None) -> Deferred[None]:
        def work() -> Deferred[None]:
            return self._in_thread(method) if upto is None else self._in_thread(method, upto())

        return self._lock.run(work).addCallbacks(self._synced, self._not_synced)

    def _synced(self, _: object) -> None:
        if self._failing:
            self._failing = False
            _log.info("The content folder is synced again")

    def _not_synced(self, failure: Failure) -> None:
        failure.trap(OSError)
        if not self._failing:
            self._failing = True
            _log.error(
                "Cannot sync the content folder: {error}; a crash of the machine may lose files",
                error=failure.getErrorMessage(),
            )

    # Verifying.

    def message(self, link: Upstream, message: Flat) -> None:
        """The queue manager asks about a file, or has asked about all.

        :raises StreamError: too many at once.
        """
        if isinstance(message, Verify):
            if len(self._asked) >= ASKED_MAX:
                raise StreamError("limit", f"asked about more than {ASKED_MAX} files at once")
            self._link = link
            self._asked.append(message)
            if not self._verifying.busy:
                self._verifying.begin(self._verify())
        elif isinstance(message, Intact) and message.upto >= self._sync.suspect[1] > 0:
            _log.info("Verified all content that the crash of the machine may have damaged")
            self._all_intact = True
            self._advance()

    def disconnected(self) -> None:
        """The queue manager is gone: on the next connection it asks again."""
        self._asked.clear()
        self._link = None
        self._verifying.cancel()

    def _remove(self, file_id: int) -> None:
        # Else by the order that follows.  Until then it is not served, unless the BOT-M is restarted.
        with suppress(OSError):
            self._content.remove(file_id)

    async def _verify(self) -> None:
        while self._asked:
            asked = self._asked.popleft()
            ok = await self._in_thread(self._content.is_intact, asked.file, asked.size_bytes, asked.md5)
            if not ok:
                _log.warn("The crash damaged content file {file}; refetching it", file=asked.file)
                self._damaged.add(asked.file)
                await self._in_thread(self._remove, asked.file)
            if self._link is not None:
                self._link.say(Checked(asked.file, ok))
            await deferLater(self._clock, asked.size_bytes / self._settings.verify_bytes, lambda: None)
