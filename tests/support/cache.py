"""A cache that a test fills as the queue manager would: changes are numbered, deletions leave tombstones."""

from __future__ import annotations

from typing import Any

from lcc.domain.keys import url_key
from lcc.roles.access import access_token
from lcc.storage.database.tables.rows import CACHED, DELETED, empty_cache_row
from lcc.storage.database.transactions import Txn
from lcc.storage.providers.content_users import ContentUser, add_content_user
from lcc.storage.providers.passwords import generate_password, hash_password

from .databases import DirectDatabase

NOW = 1_700_000_000


class Cache:
    """:ivar change: the number of the last change."""

    def __init__(self, database: DirectDatabase) -> None:
        self.database = database
        self.interact = database.blocking.interact
        self.change = 0

    def clear(self) -> None:
        """Begin anew."""
        self.change = 0
        self.database.now(_clear)

    def put(self, pid: int, curl: str, mimetype: str = "text/html", **more: Any) -> None:
        """Cache this, as the next change."""
        self.change += 1
        row = {
            **empty_cache_row(url_key(pid, curl, mimetype), pid),
            "curl": curl,
            "mimetype": mimetype,
            "state": CACHED,
            "change_number": self.change,
            "change_time": NOW + self.change,
            "md5": f"{self.change:032x}",
            "len": 12,
            "mtime": NOW,
            "status": 200,
            "fetched_time": NOW,
            "fetched_machineid": 1,
            "fetched_fileid": self.change,
            "confirmed_time": NOW,
            **more,
        }
        self.database.now(_put, row, self.change)

    def fill(self, count: int) -> None:
        """Cache many pages of provider 1 to 3, at once."""
        rows = []
        for number in range(self.change + 1, self.change + 1 + count):
            pid, curl = 1 + number % 3, f"http://a.example.org/many/{number}"
            row = empty_cache_row(url_key(pid, curl, "text/html"), pid)
            row |= {"curl": curl, "mimetype": "text/html", "state": CACHED, "change_number": number}
            rows.append(list((row | {"md5": f"{number:032x}", "len": 12}).values()))
        self.change += count
        self.database.now(_fill, list(row), rows, self.change)

    def delete(self, pid: int, curl: str, mimetype: str = "text/html", **more: Any) -> None:
        """Leave a tombstone, as the next change."""
        self.change += 1
        row = empty_cache_row(url_key(pid, curl, mimetype), pid)
        row |= {"curl": curl, "mimetype": mimetype, "state": DELETED, "change_number": self.change}
        row |= {"change_time": NOW + self.change, "confirmed_time": NOW, **more}
        self.database.now(_put, row, self.change)


def _put(txn: Txn, row: dict[str, Any], change: int) -> None:
    txn.upsert("lccurl", list(row), [list(row.values())], ["urlkey"])
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [change])
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change_time'", [row["change_time"]])


def _clear(txn: Txn) -> None:
    txn.execute("DELETE FROM lccurl")
    txn.execute("UPDATE counters SET value = 0 WHERE name IN ('change', 'change_time', 'forgotten')")


def _fill(txn: Txn, columns: list[str], rows: list[list[Any]], change: int) -> None:
    txn.insert("lccurl", columns, rows)
    txn.execute("UPDATE counters SET value = ? WHERE name = 'change'", [change])


def add_user(cache: Cache, providers: set[int] | None = None, content: bool = True) -> tuple[int, str]:
    """A user of content; its number and its access token."""
    secret = generate_password()
    hashed = hash_password(secret, generated=True)
    user = ContentUser(0, "x", hashed, None if providers is None else frozenset(providers), content)
    cuid = cache.database.now(add_content_user, user)
    return cuid, access_token(cuid, secret)
