"""The place that an export keeps: the token to go on from, and what the consumer has.

An SQLite file, so that it moves on in one durable step, or not at all.  What changes is first noted in it, then
handed to the consumer; the token moves on when the consumer has succeeded.  Whoever is killed before that hands the
same over again.  One process at a time uses it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lcc.export.pages import Page

FORMAT = 1
MTIME_MAX = 2**31 - 1
_TABLES = f"""
    CREATE TABLE IF NOT EXISTS place (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS pages (key TEXT PRIMARY KEY, name TEXT NOT NULL, page TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS pages_name ON pages (name);
    CREATE TABLE IF NOT EXISTS stamps (name TEXT PRIMARY KEY, mtime INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS pending (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    PRAGMA user_version = {FORMAT};
"""


class StateError(Exception):
    """The state file cannot be used."""


class InUse(StateError):
    """Another export uses it now."""


class State:
    """A state file.

    :param path: None: one for this run only.
    :raises StateError: it cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self._name = "the temporary state" if path is None else str(path)
        self.told: Callable[[int], None] = lambda _: None
        with self._said():
            self._db = sqlite3.connect("" if path is None else path, isolation_level=None, timeout=0)
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("COMMIT")
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version not in (0, FORMAT):
                raise StateError(f"{self._name} was written by another version of lcc-export")
            self._db.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")

    def close(self) -> None:
        """What was not committed is forgotten."""
        self._db.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """What happens within happens as a whole, and is on the disk then."""
        with self._said():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def get(self, name: str) -> str | None:
        """A value of the place, such as ``token``; None: there is none."""
        row = self._db.execute("SELECT value FROM place WHERE name = ?", [name]).fetchone()
        return None if row is None else str(row[0])

    def keep(self, name: str, value: str | None) -> None:
        """Keep a value, or none."""
        if value is None:
            self._db.execute("DELETE FROM place WHERE name = ?", [name])
        else:
            self._db.execute("INSERT OR REPLACE INTO place VALUES (?, ?)", [name, value])

    def begin_anew(self) -> None:
        """All that the consumer has is in doubt: it is to be told again, or that it is gone."""
        self.keep("token", None)
        self._db.execute("INSERT OR IGNORE INTO pending (name) SELECT DISTINCT name FROM pages")
        self._db.execute("DELETE FROM pages")

    def put(self, name: str, page: Page) -> None:
        """The cache has this page now."""
        self._db.execute("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", [page.key, name, page.pack()])
        self._touch(name)

    def remove(self, name: str, key: str) -> None:
        """The cache does not have this page any longer; if the consumer never had it, it need not know."""
        if self._db.execute("DELETE FROM pages WHERE key = ?", [key]).rowcount:
            self._touch(name)

    def _touch(self, name: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO pending (name) VALUES (?)", [name])

    def stamp(self, name: str, mtime: int) -> None:
        """Give a name a date that is later than each one before, and no earlier than this."""
        self._db.execute(
            "INSERT INTO stamps VALUES (?, ?) "
            f"ON CONFLICT (name) DO UPDATE SET mtime = min({MTIME_MAX}, max(mtime + 1, excluded.mtime))",
            [name, mtime],
        )

    def stamped(self, name: str) -> int | None:
        """The date of a name, seconds since 1970."""
        row = self._db.execute("SELECT mtime FROM stamps WHERE name = ?", [name]).fetchone()
        return None if row is None else int(row[0])

    def pending(self) -> Iterator[str]:
        """The names that the consumer is to be told of, in the order of their changes."""
        after = 0
        while True:
            with self._said():
                rows = self._db.execute(
                    "SELECT number, name FROM pending WHERE number > ? ORDER BY number LIMIT 1000", [after]
                ).fetchall()
            for _, name in rows:
                yield name
                self.told(1)
            if not rows:
                return
            after = rows[-1][0]

    def count_pending(self) -> int:
        """How many names there are to tell of."""
        return int(self._db.execute("SELECT COUNT(*) FROM pending").fetchone()[0])

    def any_pending(self) -> bool:
        """Whether there is a name to tell of."""
        return self._db.execute("SELECT 1 FROM pending LIMIT 1").fetchone() is not None

    def shown(self, name: str) -> Page | None:
        """The page that a name stands for; None: it is gone."""
        with self._said():
            rows = self._db.execute("SELECT page FROM pages WHERE name = ?", [name]).fetchall()
        return min((Page.unpack(page) for (page,) in rows), key=lambda page: page.rank, default=None)

    def done(self, full: bool, held_over: set[str]) -> None:
        """The consumer has it all: move on.

        :param full: it knows nothing else any longer.
        :param held_over: names that it is to be told of next time.
        """
        self.keep("token", self.get("next"))
        self._db.execute("DELETE FROM pending")
        for name in sorted(held_over):
            self._touch(name)
        if full:
            self._db.execute("DELETE FROM stamps WHERE name NOT IN (SELECT name FROM pages)")

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
                raise InUse(f"{self._name} is in use by another lcc-export") from None
            raise StateError(f"{self._name} cannot be used: {error}") from None
        except sqlite3.DatabaseError as error:
            raise StateError(f"{self._name} is not a state file of lcc-export: {error}") from None
