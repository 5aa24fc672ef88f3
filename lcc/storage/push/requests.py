"""Sets that providers submit by HTTP with an Idempotency-Key.

Owns ``setrequest``.  A request is noted, with the order number of its set, before the UNS has all of the set, and its
answer before that is given.  Where no answer is known, the set is told again with the same number: whatever the
provider has told since is newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import attrs
from twisted.internet.defer import Deferred

from lcc.storage.database.gathering import Gathering
from lcc.storage.database.table import Table
from lcc.storage.database.transactions import Txn
from lcc.storage.push.store import PushStore

ANSWER_BYTES_MAX = 32_000
PURGED_AT_ONCE = 5000
_ROWS = Table("setrequest", ["id"], ("id", "pid", "query", "connorder", "status", "answer", "time"))


@attrs.frozen
class SetRequest:
    """A request that has a key.

    :ivar id: digest of provider and key.
    :ivar query: digest of what it asks for besides the elements.
    :ivar order: order number of its set.
    :ivar status: of its answer; 0: none is known.
    :ivar answer: its lines.
    :ivar time: when it began, in seconds since 1970.
    """

    id: bytes
    pid: int
    query: bytes
    order: int = 0
    status: int = 0
    answer: str = ""
    time: int = 0


def request_id(pid: int, key: str) -> bytes:
    """What a request is known by."""
    return digest_of(f"{pid}\n{key}")


def digest_of(text: str) -> bytes:
    """16 bytes."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


class SetRequests:
    """Those of one push server; requests that come together share a transaction."""

    def __init__(self, store: PushStore) -> None:
        self._store = store
        self._saves: Gathering[SetRequest, None] = Gathering(lambda some: store.write(_save, some))

    def find(self, ident: bytes) -> Deferred[SetRequest | None]:
        """The request, if it was noted."""
        return self._store.database.select(_find, ident)

    def save(self, request: SetRequest) -> Deferred[None]:
        """Note it, as it is now."""
        return self._saves.ask(request)

    def forget(self, ident: bytes) -> Deferred[None]:
        """Nothing was accepted: a repeated request is a new one."""
        return self._store.write(_forget, ident)

    def purge(self, before: int) -> Deferred[int]:
        """Forget what began before then.

        :returns: how many; :data:`PURGED_AT_ONCE`: there may be others.
        """
        return self._store.write(_purge, before)


def _find(txn: Txn, ident: bytes) -> SetRequest | None:
    row = txn.one(f"{_ROWS.select} WHERE id = ?", [ident])
    if row is None:
        return None
    found, pid, query, *others = row
    return SetRequest(bytes(found), pid, bytes(query), *others)


def _save(txn: Txn, requests: Sequence[SetRequest]) -> Sequence[None]:
    rows: dict[bytes, tuple[Any, ...]] = {request.id: attrs.astuple(request) for request in requests}
    _ROWS.upsert(txn, list(rows.values()))
    return [None] * len(requests)


def _forget(txn: Txn, ident: bytes) -> None:
    txn.execute("DELETE FROM setrequest WHERE id = ?", [ident])


def _purge(txn: Txn, before: int) -> int:
    sql = "SELECT id FROM setrequest WHERE time < ? ORDER BY time LIMIT ?"
    idents = [ident for (ident,) in txn.query(sql, [before, PURGED_AT_ONCE])]
    txn.execute_in("DELETE FROM setrequest WHERE id IN ({in})", idents)
    return len(idents)
