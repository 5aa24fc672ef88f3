"""The index as the reactor sees it: what blocks runs in threads, one that writes and some that search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.search.checksums import damage
from lcc.search.index import Counts, IndexState, TextIndex, remove_index
from lcc.search.interfaces import IndexDamaged, ISearchIndex
from lcc.search.values import IndexChange, Query, Results, Scopes

_log = Logger()


class NotOpen(Exception):
    """The index is not open (yet)."""


@implementer(ISearchIndex)
class SearchIndex:
    """See :mod:`lcc.roles.search.index`.

    :param folder: of the index; what is in it is thrown away if it is damaged.
    :param in_thread: calls a function in a thread.
    :ivar damaged: why it was found to be damaged; empty: it was not.  :meth:`rebuild` it then.
    """

    def __init__(
        self, folder: Path, memory_bytes: int, in_thread: Callable[..., Deferred[Any]], searches_at_once: int
    ) -> None:
        self.folder = folder
        self.damaged = ""
        self._memory_bytes = memory_bytes
        self._in_thread = in_thread
        self._index: TextIndex | None = None
        self._writing = DeferredLock()
        self._searching = DeferredSemaphore(searches_at_once)

    # What it holds.

    @property
    def is_open(self) -> bool:
        """It can be searched."""
        return self._index is not None

    @property
    def state(self) -> IndexState:
        """As it was committed last."""
        return IndexState() if self._index is None else self._index.state

    @property
    def counts(self) -> Counts:
        """Likewise."""
        return Counts() if self._index is None else self._index.counts

    @property
    def documents(self) -> int:
        """As :class:`lcc.search.interfaces.ISearchIndex`."""
        return self.counts.pages

    @property
    def size_bytes(self) -> int:
        """As :class:`lcc.search.interfaces.ISearchIndex`."""
        return 0 if self._index is None else self._index.size_bytes

    @property
    def token(self) -> str:
        """As :class:`lcc.search.interfaces.ISearchIndex`."""
        return self.state.token

    @property
    def waiting(self) -> int:
        """Searches that wait for a thread."""
        return len(self._searching.waiting)

    # Reading.

    def search(self, query: Query, scopes: Scopes, limit: int, after: str = "") -> Deferred[Results]:
        """As :class:`lcc.search.interfaces.ISearchIndex`.

        :raises NotOpen: (as the Deferred's failure) it is not open.
        :raises IndexDamaged: (as its failure) it cannot be read.
        """
        return self._searching.run(self._asked, "search", query, scopes, limit, after)

    def _asked(self, what: str, *args: Any) -> Deferred[Any]:
        if self._index is None:
            raise NotOpen("the index is not open yet")
        return self._in_thread(getattr(self._index, what), *args).addErrback(self._note_damage)

    def text(self, key: str, change: int) -> Deferred[str]:
        """The text of a page as of this change; empty: there is none.

        :raises NotOpen, IndexDamaged: (as the Deferred's failure) as of :meth:`search`.
        """
        return self._searching.run(self._asked, "text", key, change)

    def missing(self, limit: int) -> Deferred[dict[str, int]]:
        """Keys of pages whose content the cache could not give, and as of which change."""
        return self._in_turn(lambda: self._opened.missing(limit))

    def verify(self) -> Deferred[str]:
        """Whether its files are as they were written; they are all read.  Fires with what is not; empty: nothing."""

        def note(found: str) -> str:
            self.damaged = self.damaged or found
            return found

        return self._in_thread(damage, self.folder).addCallback(note)

    def _note_damage(self, failure: Failure) -> Failure:
        if failure.check(IndexDamaged):
            self.damaged = self.damaged or str(failure.value)
        return failure

    # Writing.

    def open(self) -> Deferred[str]:
        """Open it, or make it.  Fires with why it was thrown away before that; empty: it was not.

        :raises OSError: (as the Deferred's failure) its folder cannot be read or written.
        """

        def opened() -> str:
            try:
                self._index = TextIndex(self.folder, self._memory_bytes)
            except IndexDamaged as error:
                remove_index(self.folder)
                self._index = TextIndex(self.folder, self._memory_bytes)
                return str(error)
            return ""

        return self._in_turn(opened)

    def apply(self, changes: Sequence[IndexChange], token: str, complete: bool = False) -> Deferred[None]:
        """As :class:`lcc.search.interfaces.ISearchIndex`; without a token they take effect with the next one."""

        def applied() -> None:
            index = self._opened
            index.add(changes)
            if token:
                index.commit(attrs.evolve(index.state, token=token, complete=index.state.complete or complete))

        return self._in_turn(applied)

    def begin_again(self) -> Deferred[None]:
        """All pages come once more; what does not is removed when they are ``complete``."""

        def begun() -> None:
            index = self._opened
            index.commit(IndexState("", index.state.generation + 1, False))

        return self._in_turn(begun)

    def rebuild(self) -> Deferred[None]:
        """Throw it away, and begin an empty one.

        :raises OSError: (as the Deferred's failure) it cannot be: it stays as it is.
        """

        def rebuilt() -> None:
            # Set aside first: if anything fails, the one that is open is searched on.
            aside = self.folder.with_name(f"{self.folder.name}.old")
            remove_index(aside)
            if self._index is not None:
                self._index.close()
            if self.folder.exists():
                self.folder.rename(aside)
            try:
                self._index = TextIndex(self.folder, self._memory_bytes)
            except BaseException:
                remove_index(self.folder)
                if aside.exists():
                    aside.rename(self.folder)
                raise
            self.damaged = ""
            remove_index(aside)

        return self._in_turn(rebuilt)

    def close(self) -> Deferred[None]:
        """Let others write it."""

        def closed() -> None:
            if self._index is not None:
                self._index.close()
                self._index = None

        return self._in_turn(closed)

    @property
    def _opened(self) -> TextIndex:
        if self._index is None:
            raise NotOpen("the index is not open")
        return self._index

    def _in_turn(self, function: Callable[[], Any]) -> Deferred[Any]:
        """Run it in a thread, one after the other.  Whoever waits for it may leave: it goes on."""
        result: Deferred[Any] = Deferred(lambda _: None)

        def told(outcome: Any) -> None:
            if result.called:
                if isinstance(outcome, Failure):
                    _log.warn("Writing the index failed at the end: {error}", error=outcome.getErrorMessage())
            else:
                result.callback(outcome)

        work: Deferred[Any] = self._writing.run(self._in_thread, function)
        work.addErrback(self._note_damage)
        work.addBoth(told)
        return result
