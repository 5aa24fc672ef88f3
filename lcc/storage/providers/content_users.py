"""Content users: ``cudb``, written by lcc-admin only."""

from __future__ import annotations

import json

import attrs

from lcc.storage.database.transactions import Txn

_SELECT = "SELECT cuid, name, secret, providers, content, created FROM cudb"


@attrs.frozen
class ContentUser:
    """An account that may read the cache over the network.

    :ivar cuid: its id; 0: not stored yet.
    :ivar name: for operators.
    :ivar secret_hash: of the secret part of its token (:mod:`lcc.storage.providers.passwords`).
    :ivar providers: only URLs of these; None: of all.
    :ivar content: it may read content; False: rows only.
    :ivar created: seconds since 1970.
    """

    cuid: int
    name: str
    secret_hash: str
    providers: frozenset[int] | None = None
    content: bool = True
    created: int = 0


def get_content_user(txn: Txn, cuid: int) -> ContentUser | None:
    """The content user with this id; None: unknown id."""
    row = txn.one(f"{_SELECT} WHERE cuid = ?", [cuid]) if 0 < cuid < 2**31 else None
    return None if row is None else _user(row)


def list_content_users(txn: Txn) -> list[ContentUser]:
    """All of them, by id."""
    return [_user(row) for row in txn.query(f"{_SELECT} ORDER BY cuid")]


def add_content_user(txn: Txn, user: ContentUser) -> int:
    """Store a new one.

    :returns: its id.  (The id of a removed user may be reused; its token is not.)
    """
    # A repeated interaction finds the (salted, so unique) hash if the first attempt was committed.
    done = txn.value("SELECT cuid FROM cudb WHERE secret = ?", [user.secret_hash])
    if done is not None:
        return int(done)
    cuid = int(txn.value(f"SELECT MAX(cuid) FROM cudb {txn.for_update}", (), 0)) + 1
    providers = "" if user.providers is None else json.dumps(sorted(user.providers))
    values = [cuid, user.name, user.secret_hash, providers, int(user.content), user.created]
    txn.insert("cudb", ["cuid", "name", "secret", "providers", "content", "created"], [values])
    return cuid


def remove_content_user(txn: Txn, cuid: int) -> bool:
    """Delete one; False: unknown id."""
    there = txn.one("SELECT 1 FROM cudb WHERE cuid = ?", [cuid]) is not None
    txn.execute("DELETE FROM cudb WHERE cuid = ?", [cuid])
    return there


def _user(row: tuple[object, ...]) -> ContentUser:
    cuid, name, secret, providers, content, created = row
    pids = frozenset(map(int, json.loads(str(providers)))) if providers else None
    return ContentUser(int(str(cuid)), str(name), str(secret), pids, bool(content), int(str(created)))
