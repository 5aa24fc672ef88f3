"""The databases of sub-LCCs, opened when they are needed."""

from __future__ import annotations

from collections.abc import Callable

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList

from lcc.model.frontend.places import SubLcc
from lcc.storage.database.database import Database
from lcc.storage.database.migrations import MAIN
from lcc.storage.database.place import Place


class SubDatabases(Service):
    """Keeps one for each sub-LCC; one whose URL has changed is opened anew.

    :param open_database: makes one from its URL.
    :param tasks_place: where the tables of tasks of an LCC with this URL are; None: nobody asks for them.
    :param open_place: makes a database from its place; with ``tasks_place``.
    """

    def __init__(
        self,
        open_database: Callable[[str], Database],
        tasks_place: Callable[[str], Place] | None = None,
        open_place: Callable[[Place], Database] | None = None,
    ) -> None:
        self._open = open_database
        self._tasks_place = tasks_place
        self._open_place = open_place
        self._databases: dict[tuple[int, str], tuple[str, Database]] = {}

    def of(self, sub: SubLcc) -> Database:
        """The database of a sub-LCC."""
        return self._kept(sub, MAIN, sub.database, lambda: self._open(sub.database))

    def tasks_of(self, sub: SubLcc) -> Database | None:
        """The database with the tables of its tasks; None: it has none (yet)."""
        if self._tasks_place is None or self._open_place is None:
            return None
        place, open_place = self._tasks_place(sub.database), self._open_place
        if place.series == MAIN:
            return self.of(sub)
        return self._kept(sub, place.series, place.url, lambda: open_place(place)) if place.is_there() else None

    def _kept(self, sub: SubLcc, series: str, url: str, open_database: Callable[[], Database]) -> Database:
        known, database = self._databases.get((sub.subid, series), ("", None))
        if database is None or known != url:
            if database is not None:
                database.stop()
            database = open_database()
            database.start()
            self._databases[sub.subid, series] = url, database
        return database

    def stopService(self) -> Deferred[None]:
        super().stopService()
        databases, self._databases = self._databases, {}
        stopping = [database.stop() for _, database in databases.values()]
        return DeferredList(stopping).addCallback(lambda _: None)
