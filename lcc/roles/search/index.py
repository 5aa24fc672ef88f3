"""The index as the reactor sees it: what blocks runs in threads, one that writes and some that search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredLock, DeferredSemaphore
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from lcc.search.checksums import damage
from lcc.search.folders import keep_index, remove_index
from lcc.search.index import Counts, IndexState, TextIndex
from lcc.search.interfaces import DAMAGED, OLD, IndexDamaged, ISearchIndex, OtherVersion
from lcc.search.values import IndexChange, Query, Results, Scopes

_log = Logger()


class NotOpen(Exception):
    """The index is not open (yet)."""


@implementer(ISearchIndex)
class SearchIndex:
    """See :mod:`lcc.roles.search.index`.

    :param folder: of the index; what is in it is thrown away if it is damaged.
    :param in_thread: calls a function in a thread.
    :param read_as: as of :class:`lcc.search.index.IndexState`.  An index of another one is not shown before
        :meth:`confirm`.
    :ivar damaged: why it was found to be damaged; empty: it was not.  :meth:`rebuild` it then.
    :ivar withheld: why nothing of it may be shown; empty: it may.
    """

    def __init__(
        self,
        folder: Path,
        memory_bytes: int,
        in_thread: Callable[..., Deferred[Any]],
        searches_at_once: int,
        read_as: str = "",
    ) -> None:
        self.folder = folder
        self.damaged = self.withheld = ""
        self._memory_bytes = memory_bytes
        self._read_as = read_as
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
        if self.withheld:
            raise NotOpen(f"it is not shown: {self.withheld}")
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
            # Of one that was killed while it began anew.
            remove_index(self._beside(OLD))
            try:
                self._index = TextIndex(self.folder, self._memory_bytes)
            except IndexDamaged as error:
                why = self._put_aside(str(error), not isinstance(error, OtherVersion))
                self._index = self._made(why)
                return why
            if self._index.state.token and self._index.state.read_as != self._read_as:
                self.withheld = "the cache has not yet said whether its token is for the same pages as the one before"
            return ""

        return self._in_turn(opened)

    def confirm(self) -> None:
        """All pages in it may be shown."""
        self.withheld = ""

    def apply(self, changes: Sequence[IndexChange], token: str, complete: bool = False) -> Deferred[None]:
        """As :class:`lcc.search.interfaces.ISearchIndex`; without a token they take effect with the next one."""

        def applied() -> None:
            index = self._opened
            index.add(changes)
            if token:
                index.commit(index.state.advanced(token, complete, self._read_as))

        return self._in_turn(applied)

    def begin_again(self) -> Deferred[None]:
        """All pages come once more; what does not is removed when they are ``complete``."""

        def begun() -> None:
            index = self._opened
            index.commit(IndexState("", index.state.generation + 1, read_as=self._read_as))

        return self._in_turn(begun)

    def rebuild(self, why: str) -> Deferred[None]:
        """Throw it away, and begin an empty one; if it is damaged, it is kept beside that.

        :param why: for people.
        :raises OSError: (as the Deferred's failure) it cannot be: it stays as it is.
        """

        def rebuilt() -> None:
            # Renamed first: if anything fails, the one that is open is searched on.
            old = self._beside(OLD)
            remove_index(old)
            if self._index is not None:
                self._index.close()
            if self.folder.exists():
                self.folder.rename(old)
            try:
                self._index = self._made(why)
            except BaseException:
                remove_index(self.folder)
                if old.exists():
                    old.rename(self.folder)
                raise
            damaged, self.damaged, self.withheld = self.damaged, "", ""
            if damaged and old.exists():
                _log.info("{kept}", kept=keep_index(old, self._beside(DAMAGED)))
            remove_index(old)

        return self._in_turn(rebuilt)

    def withdraw(self, why: str) -> Deferred[None]:
        """Pages in it must not be shown any longer: from now on nothing of it is, and an empty one is begun.

        :raises OSError: (as the Deferred's failure) it cannot be: nothing is found until it could.
        """
        self.withheld = why

        def removed() -> None:
            # What is kept to be looked at has such pages, too.
            remove_index(self._beside(DAMAGED))

        return self.rebuild(why).addCallback(lambda _: self._in_turn(removed))

    def _made(self, why: str) -> TextIndex:
        """An empty one.

        :raises OSError: it cannot be written.
        """
        made = TextIndex(self.folder, self._memory_bytes)
        try:
            made.commit(IndexState(why=why, read_as=self._read_as))
        except BaseException:
            made.close()
            raise
        return made

    def _put_aside(self, why: str, damaged: bool) -> str:
        """Take the folder away; gives what is said of that.

        :param damaged: it is kept, if there is room.
        """
        if damaged:
            return f"{why}; {keep_index(self.folder, self._beside(DAMAGED))}"
        remove_index(self.folder)
        return why

    def _beside(self, name: str) -> Path:
        return self.folder.with_name(name)

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
