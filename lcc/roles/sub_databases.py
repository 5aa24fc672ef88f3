"""The databases of sub-LCCs, opened when they are needed."""

from __future__ import annotations

from collections.abc import Callable

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList

from lcc.model.frontend import SubLcc
from lcc.storage.database.database import Database


class SubDatabases(Service):
    """Keeps one for each sub-LCC; one whose URL has changed is opened anew.

    :param open_database: makes one from its URL.
    """

    def __init__(self, open_database: Callable[[str], Database]) -> None:
        self._open = open_database
        self._databases: dict[int, tuple[str, Database]] = {}

    def of(self, sub: SubLcc) -> Database:
        """The database of a sub-LCC."""
        url, database = self._databases.get(sub.subid, ("", None))
        if database is None or url != sub.database:
            if database is not None:
                database.stop()
            database = self._open(sub.database)
            database.start()
            self._databases[sub.subid] = sub.database, database
        return database

    def stopService(self) -> Deferred[None]:
        super().stopService()
        databases, self._databases = self._databases, {}
        stopping = [database.stop() for _, database in databases.values()]
        return DeferredList(stopping).addCallback(lambda _: None)
